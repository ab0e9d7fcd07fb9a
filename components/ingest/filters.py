"""Training rows that are left out because of their length. Evaluation examples are all kept, so that the measure stays
honest."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from bertline.pipeline.config import DataConfig

EXCLUDE, MAX_WORDS, MAX_WORD_RATIO = "data.exclude", "data.max_words", "data.max_word_ratio"

# Chinese and Japanese put no spaces between words: there a character counts as one, as the tokenizer reads it. Otherwise
# nearly every such line would look far shorter than its translation.
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0002ebef]")


class LeftOut(NamedTuple):
    """A row that is left out on purpose."""

    setting: str
    """The one that says so, or why its source has it left out."""


def count_words(text: str) -> int:
    """
    >>> count_words("Two dogs run."), count_words("两只狗在跑。"), count_words("")
    (3, 5, 0)
    """
    parted = len(text.split())
    return parted if text.isascii() else max(parted, len(_UNSPACED.findall(text)))


def left_out(texts: Sequence[str], target: str | None, data: DataConfig) -> LeftOut | None:
    """Whether a training row is left out, and why.

    Args:
      texts: everything that is read of it.
      target: the text to be written, of a task that writes one.
    """
    if data.max_words is None and data.max_word_ratio is None:
        return None
    counts = [count_words(text) for text in texts]
    written = None if target is None else count_words(target)
    if data.max_words is not None and max([*counts, written or 0]) > data.max_words:
        return LeftOut(MAX_WORDS)
    if data.max_word_ratio is not None and written is not None:
        shorter, longer = sorted((sum(counts), written))
        if longer > data.max_word_ratio * shorter:
            return LeftOut(MAX_WORD_RATIO)
    return None
