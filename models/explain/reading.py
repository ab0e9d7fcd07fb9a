"""What a model read at once, and the words that its tokens are of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bertline.models.tokenization.places import PLACES


class Word(NamedTuple):
    """A word as its text has it."""

    text: int
    """Which of the row's texts it is of, counted from 0."""
    start: int
    end: int
    """In characters: text[start:end]."""
    shown: str


@dataclass(frozen=True, eq=False)
class Reading:
    """A text, a pair, several texts side by side, or a window over a long one."""

    tokens: tuple[str, ...]
    words: tuple[Word, ...]
    """In the order in which they were read; one that was read several times, as the text before several endings, once."""
    word_of: np.ndarray
    """[tokens] the number of each token's word; -1 for [CLS] and [SEP]."""

    def of_words(self, of_tokens: np.ndarray) -> np.ndarray:
        """[words] the sums over their tokens."""
        sums = np.zeros(len(self.words))
        np.add.at(sums, self.word_of[self.word_of >= 0], of_tokens[self.word_of >= 0])
        return sums


def reading_of(tokens: Sequence[str], places: Mapping[str, np.ndarray], texts: Sequence[str]) -> Reading:
    """Puts tokens together to words.

    Args:
      tokens: of one row, without padding.
      places: PLACES of them.
      texts: of the row, in their order; endings to choose from after the others.
    """
    spans: dict[tuple[int, int], tuple[int, int]] = {}
    keys = []
    for text, word, start, end in zip(*(places[name].tolist() for name in PLACES), strict=True):
        keys.append((text, word) if word else None)
        if word:
            first, last = spans.get((text, word), (start, end))
            spans[text, word] = min(first, start), max(last, end)
    numbers = {key: number for number, key in enumerate(spans)}
    words = tuple(Word(text, start, end, texts[text][start:end]) for (text, _), (start, end) in spans.items())
    return Reading(tuple(tokens), words, np.asarray([-1 if key is None else numbers[key] for key in keys], np.int64))
