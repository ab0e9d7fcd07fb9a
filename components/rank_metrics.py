"""The scores of `ranks.py` for TFMA. A slice is searched by itself: its rows' candidates are all there are.

Beam puts the vectors of all rows beside each other (8 bytes a number of each of two vectors), because every question is
compared with every candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from tensorflow_model_analysis.metrics import metric_types

from components.metric_parts import OfRows, Place, combined, derived
from components.ranks import ranks

Rows = list[tuple[int, np.ndarray]]
"""What the candidate of each row is, and both vectors, one after the other."""


def rank_score(
    key: metric_types.MetricKey, score: Callable[..., float], place: Place, eval_config: Any, labels: Sequence[str]
) -> metric_types.MetricComputations:
    """For predictions that are two vectors and labels that say which text the second is of."""
    gathered, vectors = combined(Vectors, "_vectors", place, eval_config)
    places = metric_types.MetricKey(name="_places", **place)  # searched once for all scores
    return [gathered, derived(places, vectors, _places), derived(key, places, score)]


def _places(rows: Rows) -> np.ndarray:
    if not rows:
        return np.zeros(0, np.int64)
    names, both = zip(*rows, strict=True)
    questions, candidates = np.split(np.stack(both), 2, axis=1)
    return ranks(questions, candidates, np.asarray(names))


class Vectors(OfRows):
    """The vectors of all rows."""

    def create_accumulator(self) -> Rows:
        return []

    def add_input(self, found: Rows, element: metric_types.StandardMetricInputs) -> Rows:
        for label, prediction in self.rows(element):
            found.append((int(np.ravel(label)[0]), np.ravel(prediction).astype(np.float64)))
        return found

    def merge_accumulators(self, parts: Iterable[Rows]) -> Rows:
        return [row for part in parts for row in part]
