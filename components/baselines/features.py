"""Texts as sparse numbers: TF-IDF over words and characters, and how far the two texts of a pair overlap."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bertline.models.tfidf.characters import WORD, lowered
from bertline.models.tfidf.counting import MAX_CHARACTERS
from bertline.models.tfidf.vocabulary import learn

Fields = Sequence[Sequence[str]]
"""The texts of the rows, field by field: of pairs the first ones and the second ones."""


def words(text: str) -> list[str]:
    """
    >>> words("The cat's 2 北京")
    ['the', 'cat', 's', '2', '北', '京']
    """
    return WORD.findall(lowered(text))


class TfIdf(NamedTuple):
    """The texts of both splits, [rows, features] a field, sparse and of length 1 for words and for characters each."""

    train: Sequence[Any]
    evaluation: Sequence[Any]


def tf_idf(train: Fields, evaluation: Fields) -> TfIdf | None:
    """Words and pairs of words, and runs of 2 to 5 characters inside words, for which no language needs spaces.

    What is counted, and how rare it is, is learned from the training texts of all fields together; each field then has
    columns of its own. None where these texts have nothing to count.
    """
    found = learn(train)
    return TfIdf(*([found.table(field) for field in fields] for fields in (train, evaluation))) if found else None


def joined(tables: Sequence[Any], texts: Fields) -> Any:
    """The fields of each row side by side; of pairs also how far they overlap."""
    from scipy.sparse import csr_matrix, hstack

    parts = [*tables, csr_matrix(overlaps(*texts))] if len(texts) == 2 else tables
    return hstack(parts).tocsr()


def overlaps(first: Sequence[str], second: Sequence[str]) -> np.ndarray:
    """[rows, 5] of 0 to 1: of the words, what both texts share of all, of the first and of the second; how their lengths
    go together; and what they share of their runs of three characters."""
    return np.asarray([_overlap(*pair) for pair in zip(first, second, strict=True)], np.float32).reshape(-1, 5)


def _overlap(first: str, second: str) -> tuple[float, ...]:
    a, b = words(first[:MAX_CHARACTERS]), words(second[:MAX_CHARACTERS])
    one, other = set(a), set(b)
    both = len(one & other)
    lengths = min(len(a), len(b)) / max(1, len(a), len(b))
    return jaccard(one, other), both / max(1, len(one)), both / max(1, len(other)), lengths, jaccard(_runs(a), _runs(b))


def jaccard(one: set[str], other: set[str]) -> float:
    """
    >>> jaccard({"a", "b"}, {"b", "c"})
    0.3333333333333333
    """
    return len(one & other) / max(1, len(one | other))


def _runs(found: Sequence[str]) -> set[str]:
    text = f" {' '.join(found)} "
    return {text[at : at + 3] for at in range(len(text) - 2)}


class Rarity:
    """How much a word says: the logarithm of how few of the texts have it; more than 0 for each."""

    def __init__(self, texts: Sequence[str]) -> None:
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(set(words(text)))
        self._of = {word: float(np.log((2 + len(texts)) / (1 + count))) for word, count in counts.items()}
        self._unknown = float(np.log(2 + len(texts)))

    def __call__(self, word: str) -> float:
        return self._of.get(word, self._unknown)
