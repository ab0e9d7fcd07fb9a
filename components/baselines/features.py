"""Texts as sparse numbers: TF-IDF over words and characters, and how far the two texts of a pair overlap."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

Fields = Sequence[Sequence[str]]
"""The texts of the rows, field by field: of pairs the first ones and the second ones."""

_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|[^\W_\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+|_")
"""A word; of Chinese and Japanese, which have no spaces, a character."""
_BUCKETS = 2**19
"""What words and runs of characters are hashed to: a vocabulary of all of them took longer to sort than to learn from."""
_MOST_WORDS, _MOST_RUNS = 30_000, 50_000
"""Features that are kept, the most frequent ones."""
_WORD_CHARACTERS, _RUN_CHARACTERS = 15_000_000, 3_000_000
"""Of all training texts together, that words and runs of characters are counted in: each takes a few seconds at most."""
_FEWEST_CHARACTERS, _MOST_CHARACTERS = 200, 5_000
"""Of one text: its begin is read, up to a length that follows from how many texts there are."""
_MANY_TEXTS = 1_000
"""From here on, what stands in a single one of them is left out."""


def words(text: str) -> list[str]:
    """
    >>> words("The cat's 2 北京")
    ['the', 'cat', 's', '2', '北', '京']
    """
    return _WORD.findall(text.lower())


class TfIdf(NamedTuple):
    """The texts of both splits, [rows, features] a field, sparse and of length 1 for words and for characters each."""

    train: Sequence[Any]
    evaluation: Sequence[Any]


def tf_idf(train: Fields, evaluation: Fields) -> TfIdf | None:
    """Words and pairs of words, and runs of 2 to 5 characters inside words, for which no language needs spaces.

    What is counted, and how rare it is, is learned from the training texts of all fields together; each field then has
    columns of its own. None where these texts have nothing to count.
    """
    from scipy.sparse import hstack, vstack
    from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer

    texts = sum(map(len, train))
    of_words = {"tokenizer": words, "token_pattern": None, "lowercase": False, "ngram_range": (1, 2)}
    of_runs = {"analyzer": "char_wb", "ngram_range": (2, 5)}
    blocks = []
    for counted, characters, most in (
        (of_words, _WORD_CHARACTERS, _MOST_WORDS),
        (of_runs, _RUN_CHARACTERS, _MOST_RUNS),
    ):
        cut = int(np.clip(characters / max(1, texts), _FEWEST_CHARACTERS, _MOST_CHARACTERS))
        hashing = HashingVectorizer(n_features=_BUCKETS, alternate_sign=False, norm=None, dtype=np.float32, **counted)
        tables = [hashing.transform([text[:cut] for text in field]) for field in (*train, *evaluation)]
        learned = vstack(tables[: len(train)]).tocsr()
        rows_with = np.bincount(learned.indices, minlength=_BUCKETS)
        known = np.flatnonzero(rows_with >= (2 if texts > _MANY_TEXTS else 1))
        kept = np.sort(known[np.argsort(-rows_with[known], kind="stable")[:most]])
        if len(kept):
            weigh = TfidfTransformer(sublinear_tf=True).fit(learned[:, kept])
            blocks.append([weigh.transform(table[:, kept]) for table in tables])
    fields = [hstack(parts).tocsr() for parts in zip(*blocks, strict=True)]
    return TfIdf(fields[: len(train)], fields[len(train) :]) if fields else None


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
    a, b = words(first[:_MOST_CHARACTERS]), words(second[:_MOST_CHARACTERS])
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
