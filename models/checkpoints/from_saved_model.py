"""A pushed model as a Keras model again, from its folder alone.

Its metadata says how it is shaped, its variables are its weights, and its own graph is the judge: what is rebuilt answers
as the graph does, or is refused.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  the ops inside the exported graph
from pydantic import ValidationError

from bertline.models.data.batching import padded
from bertline.models.encoders.bert.backbone import Encoder, EncoderSize
from bertline.models.kinds import need_encoder
from bertline.models.seq2seq.config import Seq2SeqSize
from bertline.models.seq2seq.model import Seq2Seq
from bertline.models.tasks.base.task import Context, Task, Tensors, expanded, get_task
from bertline.models.tokenization.tokenizer import TextEncoder
from bertline.models.training.precision import building_with
from bertline.pipeline.config import CHOICES, PretrainingConfig, TextConfig, TranslationConfig, task_names
from bertline.pipeline.core.errors import BertlineError

TOLERANCE = 1e-5
"""By which a number may differ: absolute up to 1, and above it a share of the number."""
_WEIGHT = re.compile(r"weights/(\d+)/\.ATTRIBUTES/VARIABLE_VALUE")
_PROBE_WORDS = (4, 12)


class Rebuilt(NamedTuple):
    """What a pushed folder is made of."""

    task: Task
    context: Context
    model: Any
    """The task's Keras model, with the weights of the folder."""


def rebuild(folder: str | Path) -> Rebuilt:
    """Makes the Keras model of a folder that the pipeline has exported.

    Example:
      task, context, model = rebuild("workspace/models/reviews/1")
    """
    folder = Path(folder)
    metadata = _read_metadata(folder)
    need_encoder(folder, metadata, "so there is nothing to rebuild")
    task = get_task(metadata["task"])
    arrays = _read_weights(folder)
    context = _context(folder, task, metadata)
    probe = None
    for size in _sizes(folder, task, metadata.get("model"), [array.shape for array in arrays]):
        model = _filled(task, context, size, arrays)
        if model is not None:
            probe = probe or _Probe(folder, task, context)
            if probe.is_answered_by(model):
                return Rebuilt(task, context, model)
    raise BertlineError(
        f"{folder}: a model rebuilt from its weights does not reproduce its graph, so another version of Bertline has"
        " exported it; run the pipeline again with this one."
    )


def _read_metadata(folder: Path) -> dict[str, Any]:
    if not (folder / "saved_model.pb").is_file():
        raise BertlineError(f"{folder}: no SavedModel here.")
    try:
        metadata = json.loads((folder / "assets.extra" / "bertline.json").read_text(encoding="utf-8"))
        known = metadata["task"] in task_names()
    except (OSError, ValueError, KeyError, TypeError):
        raise BertlineError(
            f"{folder}: no model metadata (assets.extra/bertline.json), so it was not exported by Bertline."
        ) from None
    if not known:
        raise BertlineError(f"{folder}: its task is {metadata['task']}, which this version of Bertline does not know.")
    return metadata


def _context(folder: Path, task: Task, metadata: Mapping[str, Any]) -> Context:
    shape = metadata.get("model") or {}
    try:
        text = TextConfig.model_validate(metadata.get("text", {}))
        pretraining = PretrainingConfig.model_validate(shape.get("pretraining", {}))
        translation = TranslationConfig.model_validate(shape.get("translation", {}))
    except ValidationError as error:
        first = error.errors()[0]
        raise BertlineError(
            f"{folder}: invalid model metadata (assets.extra/bertline.json): {first['loc'][-1]}: {first['msg']}."
        ) from None
    encoder = TextEncoder.from_config(str(folder / "assets" / "vocab.txt"), text)
    second = folder / "assets" / "target_vocab.txt"
    target = TextEncoder.from_config(str(second), text) if second.is_file() else encoder
    return Context(
        encoder,
        tuple(metadata.get("labels", ())),
        pretraining,
        # A caller may name the texts otherwise than the Examples do.
        task.preprocessing.text_keys if task.preprocessing.input_names else tuple(metadata.get("text_keys", ("text",))),
        pooling=shape.get("pooling", "pooler"),
        crf=bool(shape.get("crf")),
        translation=translation,
        target=target if task.preprocessing.label == "text" else None,
        positive=metadata.get("positive"),
        tuned=metadata.get("tuned", {}),
    )


def _read_weights(folder: Path) -> list[np.ndarray]:
    """In the order of the model's variables."""
    try:
        reader = tf.train.load_checkpoint(str(folder / "variables" / "variables"))
        found = {int(match[1]): name for name in reader.get_variable_to_shape_map() if (match := _WEIGHT.fullmatch(name))}
        return [reader.get_tensor(found[number]) for number in sorted(found)]
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        first_line = next(iter(str(error).splitlines()), "")
        raise BertlineError(f"{folder}: its variables cannot be read: {first_line}") from None


def _sizes(
    folder: Path, task: Task, shape: Mapping[str, Any] | None, shapes: Sequence[tuple[int, ...]]
) -> Iterator[EncoderSize | Seq2SeqSize]:
    """The size that the metadata names; of older metadata, which names none, those that the weights may have."""
    kind: Any = Seq2SeqSize if task.model.make_encoder else EncoderSize
    if shape is None:
        if kind is Seq2SeqSize:
            raise BertlineError(
                f"{folder}: no model sizes in its metadata (assets.extra/bertline.json); run the pipeline again."
            )
        yield from _likely_sizes(shapes)
        return
    try:
        yield kind(**shape["size"])
    except (KeyError, TypeError, BertlineError) as error:
        raise BertlineError(
            f"{folder}: no valid model sizes in its metadata (assets.extra/bertline.json): {error}"
        ) from None


def _likely_sizes(shapes: Sequence[tuple[int, ...]]) -> Iterator[EncoderSize]:
    """The encoders of BERT that have such weights, the usual ones first: no weight tells heads and activation."""
    matrices = [shape for shape in shapes if len(shape) == 2]
    if len(matrices) < 4:
        return
    (tokens, hidden), (segments, _), (positions, _) = matrices[:3]
    inner = max((columns for rows, columns in matrices[3:] if rows == hidden), default=hidden)
    head_sizes = [size for size in range(1, hidden + 1) if hidden % size == 0]
    head_sizes.sort(key=lambda size: abs(math.log2(size / 64)))
    for activation, head_size in product(("gelu", "gelu_new", "relu"), head_sizes):
        yield EncoderSize(
            vocab_size=tokens,
            layers=max(1, matrices.count((hidden, inner))),
            hidden=hidden,
            heads=hidden // head_size,
            intermediate=inner,
            max_positions=positions,
            segments=segments,
            activation=activation,
        )


def _filled(task: Task, context: Context, size: Any, arrays: Sequence[np.ndarray]) -> Any:
    """A model of this size with the weights; None where they do not fit it."""
    with building_with("float32"):
        if isinstance(size, Seq2SeqSize):
            encoder: Any = Seq2Seq(size, begin_id=context.target.cls_id)
        else:
            encoder = Encoder(size)
        model = task.model.build(encoder, context, size.dropout, 0)
    if [tuple(variable.shape) for variable in model.variables] != [array.shape for array in arrays]:
        return None
    for variable, array in zip(model.variables, arrays, strict=True):
        variable.assign(array)
    return model


class _Probe:
    """Two made-up rows, and what the exported graph answers to them."""

    def __init__(self, folder: Path, task: Task, context: Context) -> None:
        self._task, self._context = task, context
        words = [token for token in context.text.vocab if token.isalpha()] or ["text"]
        spread = words[:: max(1, len(words) // max(_PROBE_WORDS))] * max(_PROBE_WORDS)
        texts = [task.serving.as_asked(" ".join(spread[:count]).encode()) for count in _PROBE_WORDS]
        self._columns = {
            key: tf.constant([texts, texts[::-1]] if key == CHOICES else texts[:: -1 if place else 1])
            for place, key in enumerate(context.text_keys)
        }
        names = zip(task.preprocessing.input_names or context.text_keys, context.text_keys, strict=True)
        try:
            graph = tf.saved_model.load(str(folder))
            asked = {name: self._columns[key] for name, key in names}
            self._answer = graph.signatures["serving_default"](**asked)
        except (tf.errors.OpError, ValueError, KeyError, TypeError) as error:
            first_line = next(iter(str(error).splitlines()), "")
            raise BertlineError(f"{folder}: the model cannot be run: {first_line}") from None

    def is_answered_by(self, model: Any) -> bool:
        given = self._ask(model)
        if given.keys() != self._answer.keys():
            return False
        return all(_alike(given[name].numpy(), wanted.numpy()) for name, wanted in self._answer.items())

    def _ask(self, model: Any) -> Tensors:
        task, context = self._task, self._context
        batch = padded(expanded(task, task.preprocessing.request(self._columns, context), context))
        return task.serving.signature(task.serving.predict(model, batch, context), batch, context)


def _alike(given: np.ndarray, wanted: np.ndarray) -> bool:
    if given.shape != wanted.shape or given.dtype.kind != wanted.dtype.kind:
        return False
    if given.dtype.kind != "f":
        return True  # texts and places follow from the numbers, and of two that are as good either may be the first
    apart = np.abs(given.astype(np.float64) - wanted)
    same = (given == wanted) | (apart <= TOLERANCE * np.maximum(1.0, np.abs(wanted)))
    return bool(same.all())
