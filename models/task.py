"""What a task is: a value that says how text and labels become tensors, what is learned, and how it is judged."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Tensors = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Task:
    """One file in `models/tasks/` makes one of these and calls it `TASK`.

    Tensors travel under names: `features` makes them from raw columns, `build` consumes them, `answer` turns the
    model's logits into what a caller of the served model reads.
    """

    name: str
    text_keys: tuple[str, ...]
    """Raw text features of an Example, in the order in which `features` and the served signature take them."""
    features: Callable[[Mapping[str, Any], Any, Sequence[str]], Tensors]
    """(raw columns [batch], TextEncoder, labels) -> `token_ids` (ragged) and the targets. TensorFlow ops only."""
    build: Callable[..., Any]
    """(encoder, labels, dropout) -> Keras model from `token_ids`, `segment_ids`, `mask` to logits."""
    loss: Callable[[Any, Mapping[str, Any]], Any]
    """(logits, batch) -> one loss an example, [batch]."""
    answer: Callable[[Any, Sequence[str]], Tensors]
    """(logits, labels) -> the outputs of the served signature."""
    correct: Callable[[Any, Mapping[str, Any]], Any]
    """(logits, batch) -> 1.0 where the example is answered right, for the progress bar and the learning curve."""
    metrics: Mapping[str, str]
    """Metric name in the config -> its TFMA class."""
    readable: Callable[[Mapping[str, Any]], str]
    """One answer of the served signature, as a person reads it."""


def get_task(name: str) -> Task:
    return importlib.import_module(f"models.tasks.{name}").TASK
