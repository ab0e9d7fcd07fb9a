"""At which place a search finds what it should, and scores of those places, as plain functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

_CHUNK = 1024
"""Questions that are compared with all candidates at once."""


def ranks(questions: Any, candidates: Any, names: np.ndarray) -> np.ndarray:
    """The place of each question's own candidate among all, from 1, by falling product of the vectors.

    Candidates of one name are the same, and count once. Those that are as near as the own one are placed before it: if all
    vectors were equal, nothing would have been found.

    Args:
      questions, candidates: [rows, size]; those of a row belong together. Sparse matrices of scipy's will do.
      names: [rows] what the row's candidate is.
    """
    _, first, own = np.unique(names, return_index=True, return_inverse=True)
    distinct = candidates[first]
    rows = questions.shape[0]
    found = np.zeros(rows, np.int64)
    for begin in range(0, rows, _CHUNK):
        part = slice(begin, begin + _CHUNK)
        near = questions[part] @ distinct.T
        near = near if isinstance(near, np.ndarray) else near.toarray()
        found[part] = (near >= np.take_along_axis(near, own[part].reshape(-1, 1), axis=1)).sum(axis=1)
    return found


def reciprocal_rank(places: np.ndarray) -> float:
    """Mean of 1 / place."""
    return float(np.mean(1 / places)) if len(places) else float("nan")


def recall_at(limit: int) -> Callable[[np.ndarray], float]:
    """Share of the questions whose own candidate is among the first so many."""
    return lambda places: float(np.mean(places <= limit)) if len(places) else float("nan")


OF_RANKS: Mapping[str, Callable[[np.ndarray], float]] = {
    "ReciprocalRank": reciprocal_rank,
    "RecallAt1": recall_at(1),
    "RecallAt5": recall_at(5),
    "RecallAt10": recall_at(10),
}
