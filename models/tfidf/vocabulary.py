"""Which n-grams are counted, how rare each is, and texts as sparse numbers by them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from bertline.models.tfidf.counting import COUNTED, MAX_CHARACTERS, Grams, points_of

_LIMIT = {"words": 30_000, "runs": 50_000}
"""N-grams that are kept, the most frequent ones."""
MAX_FEATURES = sum(_LIMIT.values())
_CHARACTERS = {"words": 15_000_000, "runs": 3_000_000}
"""Of all training texts together, that are counted in: each takes a few seconds at most."""
_MIN_CHARACTERS = 200
"""Of one text: its begin is read, up to a length that follows from how many texts there are."""
_MANY_TEXTS = 1_000
"""From here on, what stands in a single one of them is left out."""
_AT_ONCE = 500_000
"""Characters that are worked on together: they take 80 MB."""


class Block(NamedTuple):
    """The n-grams of one kind."""

    kind: str
    characters: int
    """That are read of a text."""
    keys: np.ndarray
    """Of the n-grams, rising: int64."""
    idf: np.ndarray
    """How rare they are: float32."""


class Vocabulary(NamedTuple):
    blocks: tuple[Block, ...]

    @property
    def features(self) -> int:
        return sum(len(block.keys) for block in self.blocks)

    def table(self, texts: Sequence[str]) -> Any:
        """[texts, features], sparse: 1 + log(how often an n-gram occurs), times how rare it is; of length 1 a block."""
        from scipy.sparse import hstack

        return hstack([_table(block, texts) for block in self.blocks]).tocsr()


def learn(fields: Sequence[Sequence[str]]) -> Vocabulary | None:
    """From the texts of all fields together; None where they have nothing to count."""
    texts = [text for field in fields for text in field]
    blocks = (_learned(kind, texts) for kind in COUNTED)
    found = tuple(block for block in blocks if len(block.keys))
    return Vocabulary(found) if found else None


def _learned(kind: str, texts: Sequence[str]) -> Block:
    limit = int(np.clip(_CHARACTERS[kind] / max(1, len(texts)), _MIN_CHARACTERS, MAX_CHARACTERS))
    parts = [_texts_with(grams) for _, grams in _counted(kind, texts, limit)]
    every = np.concatenate([np.zeros(0, np.int64), *(keys for keys, _ in parts)])
    keys, place = np.unique(every, return_inverse=True)
    weights = np.concatenate([np.zeros(0), *(counts for _, counts in parts)])
    counts = np.bincount(place, weights=weights, minlength=len(keys))
    known = np.flatnonzero(counts >= (2 if len(texts) > _MANY_TEXTS else 1))
    kept = np.sort(known[np.argsort(-counts[known], kind="stable")[: _LIMIT[kind]]])
    idf = np.log((1 + len(texts)) / (1 + counts[kept])) + 1
    return Block(kind, limit, keys[kept], idf.astype(np.float32))


def _counted(kind: str, texts: Sequence[str], limit: int) -> Iterator[tuple[int, Grams]]:
    """The n-grams of so many texts at a time, with the number of the first of these."""
    first = characters = 0
    for end, text in enumerate(texts, 1):
        characters += min(len(text), limit)
        if characters >= _AT_ONCE or end == len(texts):
            yield first, COUNTED[kind](points_of(texts[first:end], limit))
            first, characters = end, 0


def _texts_with(grams: Grams) -> tuple[np.ndarray, np.ndarray]:
    """Each n-gram, and in how many texts it stands."""
    order = np.lexsort((grams.rows, grams.keys))
    keys, rows = grams.keys[order], grams.rows[order]
    fresh = (np.diff(keys, prepend=0) != 0) | (np.diff(rows, prepend=-1) != 0)
    return np.unique(keys[fresh], return_counts=True)


def _table(block: Block, texts: Sequence[str]) -> Any:
    from scipy.sparse import csr_matrix

    rows, places = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for first, grams in _counted(block.kind, texts, block.characters):
        at = np.minimum(np.searchsorted(block.keys, grams.keys), len(block.keys) - 1)
        known = block.keys[at] == grams.keys
        rows.append(grams.rows[known] + first)
        places.append(at[known])
    at, row = np.concatenate(places), np.concatenate(rows)
    shape = len(texts), len(block.keys)
    table = csr_matrix((np.ones(len(at), np.float32), (row, at)), shape)
    table.sum_duplicates()
    of_row = np.repeat(np.arange(len(texts)), np.diff(table.indptr))
    values = (1 + np.log(table.data)) * block.idf[table.indices]
    lengths = np.sqrt(np.bincount(of_row, np.square(values, dtype=np.float64), len(texts)))
    table.data = (values / lengths[of_row]).astype(np.float32)
    return table
