"""One number of a model's outputs that is explained, and what it is chosen from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bertline.models.encoders.bert.attention import MASKED
from bertline.pipeline.core.errors import BertlineError

Outputs = Mapping[str, tf.Tensor]
_SHOWN = 12


@dataclass(frozen=True)
class Target:
    name: str
    """For a person: a class, a token, a part of an answer."""
    unit: str
    score: Callable[[Outputs], tf.Tensor]
    """(outputs for several versions of the row) -> [versions]."""
    row: int = 0
    """Which row of the batch it is of, where a text is read in several windows."""


class Answered(NamedTuple):
    """What a target is chosen from: a question and its answer, and what the user wants to know of it."""

    outputs: Mapping[str, np.ndarray]
    """Of the model, for every row of the batch."""
    batch: Mapping[str, np.ndarray]
    """All that the model and its answer were made of."""
    answer: Mapping[str, Any]
    """Of the served signature."""
    texts: Sequence[str]
    """Of the row; endings to choose from after the others."""
    labels: Sequence[str]
    """Of the model: its classes or tags."""
    vocab: Sequence[str]
    """Of the tokens that the model predicts or writes."""
    label: str | None = None
    """What is to be explained in place of what was answered."""
    word: str | None = None
    """Where: a word, or its number."""
    start: int | None = None
    """Or where a word begins, in characters."""

    def place(self, words: Sequence[str], what: str, starts: Sequence[int] = ()) -> int | None:
        """Which of some words is asked for, by itself, by its number from 1 or by where it begins; None where none is."""
        if self.start is not None:
            if self.start in starts:
                return list(starts).index(self.start)
            raise BertlineError(f"no {what} begins at character {self.start}; name one that does.")
        if self.word is None:
            return None
        if self.word in words:
            return words.index(self.word)
        if self.word.isdecimal() and 1 <= int(self.word) <= len(words):
            return int(self.word) - 1
        raise BertlineError(f"--word {self.word!r}: it is no {what}; name one, or its number, from 1 to {len(words)}.")


def known(label: str, names: Sequence[str], problem: str) -> int:
    """Which of the names a label is; BertlineError with some of them if it is none."""
    if label in names:
        return names.index(label)
    more = f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    raise BertlineError(f"--label {label!r}: {problem}; there are {', '.join(names[:_SHOWN])}{more}.")


def log_odds(logits: tf.Tensor, at: int) -> tf.Tensor:
    """[rows, several] -> [rows], log p - log(1 - p) of one of them; of a single one, the logit itself."""
    if logits.shape[-1] == 1:
        return logits[:, 0]
    chosen = tf.range(tf.shape(logits)[-1]) == at
    return logits[:, at] - tf.reduce_logsumexp(tf.where(chosen, MASKED, logits), axis=-1)
