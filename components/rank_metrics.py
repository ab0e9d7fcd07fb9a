"""The scores of `ranks.py` as metrics of TFMA. A slice is searched by itself: its rows' candidates are all there are.

Beam puts the vectors of all rows beside each other (8 bytes a number of each of two vectors), because every question is
compared with every candidate.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import apache_beam as beam
import numpy as np
from tensorflow_model_analysis.metrics import metric_types, metric_util

from components.ranks import OF_RANKS, ranks

Rows = list[tuple[int, np.ndarray]]
"""What the candidate of each row is, and both vectors, one after the other."""


class RankScore(metric_types.Metric):
    """A score of `OF_RANKS`, for predictions that are two vectors and labels that say which text the second is of."""

    def __init__(self, name: str, score: str) -> None:
        super().__init__(metric_util.merge_per_key_computations(_rank_score), name=name, score=score)


def _rank_score(
    name: str,
    score: str,
    eval_config: Any = None,
    model_name: str = "",
    output_name: str = "",
    example_weighted: bool = False,
) -> metric_types.MetricComputations:
    place = {"model_name": model_name, "output_name": output_name, "example_weighted": example_weighted}
    vectors = metric_types.MetricKey(name="_vectors", **place)  # TFMA keeps a name that begins so to itself
    places = metric_types.MetricKey(name="_places", **place)
    key = metric_types.MetricKey(name=name, **place)
    gathered = metric_types.MetricComputation(keys=[vectors], preprocessors=None, combiner=Vectors(vectors, eval_config))

    def searched(metrics: dict[metric_types.MetricKey, Any]) -> dict[metric_types.MetricKey, np.ndarray]:
        return {places: _places(metrics[vectors])}

    def scored(metrics: dict[metric_types.MetricKey, Any]) -> dict[metric_types.MetricKey, float]:
        return {key: OF_RANKS[score](metrics[places])}

    return [
        gathered,
        metric_types.DerivedMetricComputation(keys=[places], result=searched),
        metric_types.DerivedMetricComputation(keys=[key], result=scored),
    ]


def _places(rows: Rows) -> np.ndarray:
    if not rows:
        return np.zeros(0, np.int64)
    names, both = zip(*rows, strict=True)
    questions, candidates = np.split(np.stack(both), 2, axis=1)
    return ranks(questions, candidates, np.asarray(names))


class Vectors(beam.CombineFn):
    """The vectors of all rows with a weight."""

    def __init__(self, key: metric_types.MetricKey, eval_config: Any) -> None:
        self._key, self._eval_config = key, eval_config

    def create_accumulator(self) -> Rows:
        return []

    def add_input(self, found: Rows, element: metric_types.StandardMetricInputs) -> Rows:
        rows = metric_util.to_label_prediction_example_weight(
            element,
            eval_config=self._eval_config,
            model_name=self._key.model_name,
            output_name=self._key.output_name,
            example_weighted=self._key.example_weighted,
            flatten=False,
        )
        for label, prediction, weight in rows:
            if float(np.sum(weight)) > 0:
                found.append((int(np.ravel(label)[0]), np.ravel(prediction).astype(np.float64)))
        return found

    def merge_accumulators(self, parts: Iterable[Rows]) -> Rows:
        return [row for part in parts for row in part]

    def extract_output(self, found: Rows) -> dict[metric_types.MetricKey, Rows]:
        return {self._key: found}
