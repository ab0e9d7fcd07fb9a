"""Encoders from and to Hugging Face folders: `config.json` and `model.safetensors`, never a pickle.

Both directions share one table, `_tensors`, of Hugging Face names and the variables they belong to.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from models.encoder import Encoder, EncoderSize
from pipeline.errors import BertlineError

WEIGHTS = "model.safetensors"
CONFIG = "config.json"

# Hugging Face's key -> ours; those of the first group have no default that would be safe to assume.
_REQUIRED_KEYS = {
    "vocab_size": "vocab_size",
    "num_hidden_layers": "layers",
    "hidden_size": "hidden",
    "num_attention_heads": "heads",
    "intermediate_size": "intermediate",
}
_OPTIONAL_KEYS = {
    "max_position_embeddings": "max_positions",
    "type_vocab_size": "segments",
    "hidden_dropout_prob": "dropout",
    "attention_probs_dropout_prob": "attention_dropout",
    "layer_norm_eps": "layer_norm_eps",
}
_ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_new", "gelu_pytorch_tanh": "gelu_tanh", "relu": "relu"}

_HEADS = ("cls.", "classifier.", "qa_outputs.")
_FLOATS = ("F64", "F32", "F16", "BF16")
_SHOWN_PROBLEMS = 20


@dataclass(frozen=True, kw_only=True)
class LoadReport:
    """What became of a checkpoint's tensors."""

    loaded: tuple[str, ...]
    """Tensors of the file that the encoder now holds, under the file's own names."""
    left_out: tuple[str, ...]
    """Tensors of the file that belong to a head."""
    fresh: tuple[str, ...]
    """Weights that the file does not have and that start from their random values."""


def load_size(folder: str | Path, dropout: float | None = None) -> EncoderSize:
    """Reads the size of an encoder from a folder's `config.json`.

    Args:
      folder: a Hugging Face folder.
      dropout: takes the place of both of the checkpoint's dropout rates.
    """
    path = Path(folder) / CONFIG
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BertlineError(f"{folder} has no {CONFIG}; name a Hugging Face BERT folder.") from None
    except ValueError as error:
        raise BertlineError(f"{path}: not valid JSON: {error}.") from None
    if not isinstance(raw, dict):
        raise BertlineError(f"{path}: a model's config is an object of settings, not {type(raw).__name__}.")
    for key, only in (("model_type", "bert"), ("position_embedding_type", "absolute")):
        if raw.get(key, only) != only:
            raise BertlineError(f"{path}: {key} is {raw[key]!r}; only {only!r} can be loaded.")
    missing = [key for key in _REQUIRED_KEYS if key not in raw]
    if missing:
        raise BertlineError(f"{path}: {', '.join(missing)} missing; is it the config of a BERT model?")
    activation = raw.get("hidden_act", "gelu")
    if activation not in tuple(_ACTIVATIONS):  # a tuple: JSON may hold here what cannot be hashed
        raise BertlineError(f"{path}: hidden_act is {activation!r}; known are {', '.join(_ACTIVATIONS)}.")
    values = {ours: raw[theirs] for theirs, ours in (_REQUIRED_KEYS | _OPTIONAL_KEYS).items() if theirs in raw}
    if dropout is not None:
        values |= {"dropout": dropout, "attention_dropout": dropout}
    try:
        return EncoderSize(**values, activation=_ACTIVATIONS[activation])
    except BertlineError as error:
        raise BertlineError(f"{path}: {error}") from None


def load_encoder(
    folder: str | Path, *, dropout: float | None = None, seed: int = 0, name: str = "encoder"
) -> tuple[Encoder, LoadReport]:
    """Makes the encoder that a Hugging Face folder describes, with its weights.

    Args:
      folder: holds `config.json` and `model.safetensors`.
      dropout: takes the place of both of the checkpoint's dropout rates.
      seed: seeds dropout, and the pooler if the checkpoint has none.
      name: the encoder's name, the first part of its variables' paths.
    """
    encoder = Encoder(load_size(folder, dropout), seed=seed, name=name)
    return encoder, load_weights(encoder, folder)


def load_weights(encoder: Encoder, folder: str | Path) -> LoadReport:
    """Copies a folder's weights into an encoder of the same size: all of them, or none and an error that names why."""
    path = Path(folder) / WEIGHTS
    with _open(path) as file:
        sources, left_out, problems = _match(file.keys())
        targets = _tensors(encoder)
        fresh = [name for name in targets if name.startswith("pooler.")]
        if any(name in sources for name in fresh):
            fresh = []  # half a pooler is a damaged file, not a checkpoint without one
        problems += [f"{name} is missing" for name in targets if name not in sources and name not in fresh]
        problems += [f"{source} is unknown" for name, source in sources.items() if name not in targets]
        for name in targets.keys() & sources.keys():
            problems += _misfit(sources[name], file.get_slice(sources[name]), targets[name].file_shape)
        if problems:
            raise BertlineError(_explain(path, sorted(problems)))
        for name, source in sources.items():
            targets[name].assign(file.get_tensor(source))
    return LoadReport(loaded=tuple(sources.values()), left_out=tuple(left_out), fresh=tuple(fresh))


def save_encoder(encoder: Encoder, folder: str | Path) -> None:
    """Writes an encoder as a Hugging Face folder that `BertModel.from_pretrained` and `load_encoder` read."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    size = encoder.size
    theirs = {ours: theirs for theirs, ours in _ACTIVATIONS.items()}
    config = {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "position_embedding_type": "absolute",
        "hidden_act": theirs[size.activation],
        **{key: getattr(size, ours) for key, ours in (_REQUIRED_KEYS | _OPTIONAL_KEYS).items()},
    }
    arrays = {name: tensor.value() for name, tensor in _tensors(encoder).items()}
    save_file(arrays, folder / WEIGHTS, metadata={"format": "pt"})  # transformers refuses a file that names no format
    (folder / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


@dataclass(frozen=True)
class _Tensor:
    """A variable as the file holds it: PyTorch keeps the kernel of a linear layer as [outputs, inputs]."""

    variable: keras.Variable
    transposed: bool = False

    @property
    def file_shape(self) -> tuple[int, ...]:
        shape = tuple(self.variable.shape)
        return shape[::-1] if self.transposed else shape

    def assign(self, array: np.ndarray) -> None:
        array = array.astype(np.float32, copy=False)
        self.variable.assign(array.T if self.transposed else array)

    def value(self) -> np.ndarray:
        array = keras.ops.convert_to_numpy(self.variable)
        return np.ascontiguousarray(array.T if self.transposed else array)  # the writer copies memory, not strides


def _tensors(encoder: Encoder) -> dict[str, _Tensor]:
    """Every weight of an encoder under its Hugging Face name, without the prefix `bert.`."""
    found: dict[str, _Tensor] = {}

    def add(name: str, layer: keras.layers.Layer) -> None:
        if isinstance(layer, keras.layers.Embedding):
            found[f"{name}.weight"] = _Tensor(layer.embeddings)
        elif isinstance(layer, keras.layers.LayerNormalization):
            found[f"{name}.weight"], found[f"{name}.bias"] = _Tensor(layer.gamma), _Tensor(layer.beta)
        else:
            found[f"{name}.weight"], found[f"{name}.bias"] = _Tensor(layer.kernel, True), _Tensor(layer.bias)

    add("embeddings.word_embeddings", encoder.embeddings.token)
    add("embeddings.position_embeddings", encoder.embeddings.position)
    add("embeddings.token_type_embeddings", encoder.embeddings.segment)
    add("embeddings.LayerNorm", encoder.embeddings.norm)
    for index, layer in enumerate(encoder.layers):
        place = f"encoder.layer.{index}"
        add(f"{place}.attention.self.query", layer.attention.query)
        add(f"{place}.attention.self.key", layer.attention.key)
        add(f"{place}.attention.self.value", layer.attention.value)
        add(f"{place}.attention.output.dense", layer.attention.output_projection)
        add(f"{place}.attention.output.LayerNorm", layer.attention_norm)
        add(f"{place}.intermediate.dense", layer.expand)
        add(f"{place}.output.dense", layer.contract)
        add(f"{place}.output.LayerNorm", layer.contract_norm)
    add("pooler.dense", encoder.pooler)
    return found


def _match(names: Sequence[str]) -> tuple[dict[str, str], list[str], list[str]]:
    """The names of a file, sorted out: one spelling -> the file's own, those of heads, those that clash."""
    sources: dict[str, str] = {}
    left_out, problems = [], []
    for source in sorted(names):
        name = source.removeprefix("bert.")
        name = name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")
        if source.startswith(_HEADS):
            left_out.append(source)
        elif name in sources:
            problems.append(f"{source} and {sources[name]} are the same weight")
        elif name != "embeddings.position_ids":  # a constant: 0, 1, 2, …
            sources[name] = source
    return sources, left_out, problems


def _misfit(source: str, tensor: Any, expected: tuple[int, ...]) -> list[str]:
    shape, kind = tuple(tensor.get_shape()), tensor.get_dtype()
    if kind not in _FLOATS:
        return [f"{source} holds {kind}, not floating-point numbers"]
    return [] if shape == expected else [f"{source} has the shape {list(shape)}, not {list(expected)}"]


def _explain(path: Path, problems: Sequence[str]) -> str:
    """One line a tensor, and not more than a screen of them."""
    shown = list(problems[:_SHOWN_PROBLEMS])
    if len(problems) > len(shown):
        shown.append(f"… and {len(problems) - len(shown)} more")
    heading = f"{path} does not fit the encoder that {CONFIG} describes; nothing was loaded:"
    return "\n  ".join([heading, *shown])


@contextmanager
def _open(path: Path) -> Iterator[Any]:
    if not path.is_file():
        raise BertlineError(f"{path.parent} has no {WEIGHTS}; save the model with transformers' safe_serialization.")
    try:
        file = safe_open(path, framework="numpy")
    except SafetensorError as error:
        raise BertlineError(f"{path}: not a whole safetensors file ({error}); fetch it again.") from None
    with file:
        yield file
