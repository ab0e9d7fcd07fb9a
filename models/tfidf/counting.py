"""The n-grams of texts, each as one number of 64 bits: the words and pairs of words, and the runs of characters inside what
stands between spaces. They are those of scikit-learn's vectorizers; `graph.py` makes the same numbers of them.

Of a thousand million n-grams, two that differ have the same number about once in forty tries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from bertline.models.tfidf.characters import OF_WORD, SPACE, WORD_ALONE, characters

MAX_CHARACTERS = 5_000
"""Of one text, from its begin."""
RUN_LENGTHS = range(2, 6)
BLANK = ord(" ")
BASE, FIRST, SECOND = -7046029254386353131, -4417276706812531889, 1609587929392839161
"""Odd numbers without a pattern. A word is a polynomial in the first one; a pair is made of two words by the others."""


class Points(NamedTuple):
    """The characters of texts, one after the other."""

    codes: np.ndarray
    rows: np.ndarray
    """Of which text each is; rising."""


class Grams(NamedTuple):
    """N-grams in no order, as often as they occur."""

    rows: np.ndarray
    keys: np.ndarray


@cache
def powers() -> np.ndarray:
    """Of BASE, for the characters of the longest word."""
    return np.concatenate([[1], np.cumprod(np.full(MAX_CHARACTERS, BASE, np.int64))])


@cache
def _tables() -> tuple[np.ndarray, np.ndarray]:
    return characters().kind_of_each(), characters().small_of_each()


def points_of(texts: Sequence[str], limit: int) -> Points:
    """Args: most: characters that are read of a text."""
    read = [text[:limit] for text in texts]
    codes = np.frombuffer("".join(read).encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.int64)
    return Points(codes, np.repeat(np.arange(len(read)), [len(text) for text in read]))


def words_of(points: Points) -> Grams:
    """Words, and pairs of neighbours."""
    kind_of, small_of = _tables()
    codes = small_of[points.codes]
    kinds = kind_of[codes]
    goes_on = (kinds[1:] == OF_WORD) & (kinds[:-1] == OF_WORD) & (points.rows[1:] == points.rows[:-1])
    inside = (kinds == OF_WORD) | (kinds == WORD_ALONE)
    is_first = (inside & ~np.concatenate([[False], goes_on])[: len(kinds)])[inside]
    firsts, word = np.flatnonzero(is_first), np.cumsum(is_first) - 1
    place = np.arange(len(word)) - firsts[word]
    summands = (codes[inside] + 1) * powers()[place]
    words = np.add.reduceat(summands, firsts) if len(firsts) else summands
    rows = points.rows[inside][firsts]
    beside = rows[1:] == rows[:-1]
    pairs = words[:-1] * FIRST + words[1:] * SECOND
    return Grams(np.concatenate([rows, rows[1:][beside]]), np.concatenate([words, pairs[beside]]))


def runs_of(points: Points) -> Grams:
    """Runs of characters, with a blank before and after what stands between spaces."""
    kind_of, small_of = _tables()
    codes = small_of[points.codes]
    inside = kind_of[codes] != SPACE
    goes_on = inside[1:] & inside[:-1] & (points.rows[1:] == points.rows[:-1])
    is_first = (inside & ~np.concatenate([[False], goes_on])[: len(codes)])[inside]
    chunk = np.cumsum(is_first) - 1
    lengths = np.bincount(chunk, minlength=0) + 2
    spread = np.full(lengths.sum(), BLANK, np.int64)
    spread[np.arange(len(chunk)) + 2 * chunk + 1] = codes[inside]
    of_chunk = np.repeat(np.arange(len(lengths)), lengths)
    rows = points.rows[inside][np.flatnonzero(is_first)][of_chunk]
    found_rows, found_keys, keys = [], [], spread + 1
    for length in RUN_LENGTHS:
        keys = keys[:-1] + (spread[length - 1 :] + 1) * powers()[length - 1]
        whole = of_chunk[: len(keys)] == of_chunk[length - 1 :]
        found_rows.append(rows[: len(keys)][whole])
        found_keys.append(keys[whole])
    return Grams(np.concatenate(found_rows), np.concatenate(found_keys))


COUNTED: Mapping[str, Callable[[Points], Grams]] = {"words": words_of, "runs": runs_of}
