"""Encoders and heads from checkpoints: all of their weights, or none and an error that names why."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bertline.models.checkpoints.names import weights_of
from bertline.models.checkpoints.opening import open_source
from bertline.models.checkpoints.settings import read_size
from bertline.models.checkpoints.source import FLOATS, Source, StoredTensor
from bertline.models.encoders.bert.backbone import Encoder, EncoderSize
from bertline.pipeline.core import checkpoint_formats as formats
from bertline.pipeline.core.errors import BertlineError

_SHOWN_PROBLEMS = 20


@dataclass(frozen=True, kw_only=True)
class LoadReport:
    """What became of a checkpoint's tensors."""

    loaded: tuple[str, ...]
    """Tensors of the file that the encoder now holds, under the file's own names."""
    left_out: tuple[str, ...]
    """Tensors of the file that belong to a head or to an optimizer."""
    fresh: tuple[str, ...]
    """Weights that the file does not have and that start from their random values."""


def load_size(folder: str | Path, dropout: float | None = None) -> EncoderSize:
    """Reads the size of an encoder from a checkpoint's settings.

    Args:
      folder: of any format that `load_encoder` reads; the weights need not be there.
      dropout: takes the place of both of the checkpoint's dropout rates.
    """
    path, values = read_size(folder)
    if dropout is not None:
        values |= {"dropout": dropout, "attention_dropout": dropout}
    try:
        return EncoderSize(**values)
    except (BertlineError, TypeError) as error:  # a TypeError: of a Keras model by a Bertline with other fields
        raise BertlineError(f"{path}: {error}") from None


def load_encoder(
    folder: str | Path, *, dropout: float | None = None, seed: int = 0, name: str = "encoder"
) -> tuple[Encoder, LoadReport]:
    """Makes the encoder that a checkpoint describes, with its weights.

    Args:
      folder: Hugging Face's (`config.json` with `model.safetensors` or `pytorch_model.bin`, in one file or in shards), the
        original BERT's (`bert_config.json`, `bert_model.ckpt.*`), a KerasHub preset, or ours with a `model.keras`.
      dropout: takes the place of both of the checkpoint's dropout rates.
      seed: seeds dropout, and the pooler if the checkpoint has none.
      name: the encoder's name, the first part of its variables' paths.
    """
    encoder = Encoder(load_size(folder, dropout), seed=seed, name=name)
    return encoder, load_weights(encoder, folder)


def load_weights(encoder: Encoder, folder: str | Path) -> LoadReport:
    """Copies a checkpoint's weights into an encoder of the same size: all of them, or none and an error that names why."""
    targets = weights_of(encoder)
    with _open(folder) as source:
        tensors = source.tensors
        fresh = [name for name in targets if name.startswith("pooler.")]
        if any(name in tensors for name in fresh):
            fresh = []  # half a pooler is a damaged file, not a checkpoint without one
        problems = list(source.clashes)
        problems += [f"{name} is missing" for name in targets if name not in tensors and name not in fresh]
        problems += [f"{tensor.name} is unknown" for name, tensor in tensors.items() if name not in targets]
        for name in targets.keys() & tensors.keys():
            problems += _misfit(tensors[name], targets[name].file_shape)
        if problems:
            raise BertlineError(_explain(source, sorted(problems)))
        # First all are read, then all assigned: a file that turns out damaged at its end leaves the encoder as it was.
        arrays = {name: tensor.as_float32() for name, tensor in tensors.items()}
        for name, array in arrays.items():
            targets[name].assign(array)
        loaded = tuple(tensor.name for tensor in tensors.values())
        return LoadReport(loaded=loaded, left_out=source.left_out, fresh=tuple(fresh))


def load_heads(folder: str | Path) -> dict[str, np.ndarray]:
    """The weights of a checkpoint's heads (masked words, next sentence, classifier, answers), if it has any.

    Returns:
      Hugging Face's name -> float32. A decoder that is tied to the token embeddings is left out, and so is its second
      bias: the embeddings and `cls.predictions.bias` are these weights.
    """
    with _open(folder) as source:
        problems = list(source.clashes)
        for tensor in source.heads.values():
            problems += _misfit(tensor, tensor.shape)
        if problems:
            raise BertlineError(_explain(source, sorted(problems)))
        heads = {name: tensor.as_float32() for name, tensor in source.heads.items()}
        for head in ("cls.predictions", "lm_head", "predictions"):
            _untie(source, heads, head)
        return {name: np.array(array) for name, array in heads.items()}  # copies: they outlive the file


def _untie(source: Source, heads: dict[str, np.ndarray], head: str) -> None:
    decoder = heads.get(f"{head}.decoder.weight")
    words = source.tensors.get("embeddings.word_embeddings.weight")
    if decoder is not None and words is not None and np.array_equal(decoder, words.as_float32()):
        del heads[f"{head}.decoder.weight"]
    second = heads.pop(f"{head}.decoder.bias", None)
    if second is not None and not np.array_equal(heads.setdefault(f"{head}.bias", second), second):
        raise BertlineError(f"{source.path}: {head}.bias and {head}.decoder.bias are the same weight, but differ.")


def _open(folder: str | Path) -> AbstractContextManager[Source]:
    return open_source(formats.find(folder))


def _misfit(tensor: StoredTensor, expected: tuple[int, ...]) -> list[str]:
    if tensor.kind not in FLOATS:
        return [f"{tensor.name} holds {tensor.kind}, not floating-point numbers"]
    if tensor.shape == expected:
        return []
    return [f"{tensor.name} has the shape {list(tensor.shape)}, not {list(expected)}"]


def _explain(source: Source, problems: Sequence[str]) -> str:
    """One line a tensor, and not more than a screen of them."""
    shown = list(problems[:_SHOWN_PROBLEMS])
    if len(problems) > len(shown):
        shown.append(f"… and {len(problems) - len(shown)} more")
    heading = f"{source.path} does not fit the encoder that its settings describe; nothing was loaded:"
    return "\n  ".join([heading, *shown])
