"""What our metrics of TFMA are made of: a combiner over rows, and scores that follow from what it has added up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
import numpy as np
from tensorflow_model_analysis.metrics import metric_types, metric_util

Place = dict[str, Any]
"""Of which model and which of its outputs a metric is."""


class OfRows(beam.CombineFn):
    """Adds up rows; what it has found stands under its key, from which scores are derived."""

    def __init__(self, key: metric_types.MetricKey, eval_config: Any) -> None:
        self._key, self._eval_config = key, eval_config

    def rows(self, element: metric_types.StandardMetricInputs, *, squeeze: bool = True) -> Iterator[tuple[Any, Any]]:
        """Label and prediction of each row with a weight, whole."""
        found = metric_util.to_label_prediction_example_weight(
            element,
            eval_config=self._eval_config,
            model_name=self._key.model_name,
            output_name=self._key.output_name,
            example_weighted=self._key.example_weighted,
            flatten=False,
            squeeze=squeeze,
        )
        for label, prediction, weight in found:
            if float(np.max(weight)) > 0:
                yield label, prediction

    def extract_output(self, found: Any) -> dict[metric_types.MetricKey, Any]:
        return {self._key: found}


def combined(combiner: type[OfRows], name: str, place: Place, eval_config: Any, *more: Any) -> tuple[Any, Any]:
    """The computation that adds up rows, and its key. TFMA keeps a name that begins with _ to itself."""
    key = metric_types.MetricKey(name=name, **place)
    computed = metric_types.MetricComputation(keys=[key], preprocessors=None, combiner=combiner(key, eval_config, *more))
    return computed, key


def derived(
    key: metric_types.MetricKey, source: metric_types.MetricKey, of_whole: Callable[[Any], Any]
) -> metric_types.DerivedMetricComputation:
    """A number, or anything else, that follows from what stands under `source`."""

    def result(metrics: dict[metric_types.MetricKey, Any]) -> dict[metric_types.MetricKey, Any]:
        return {key: of_whole(metrics[source])}

    return metric_types.DerivedMetricComputation(keys=[key], result=result)


def derived_per_class(
    place: Place,
    source: metric_types.MetricKey,
    of_classes: Callable[[Any], dict[str, dict[str, float]]],
    nothing: Any,
) -> metric_types.DerivedMetricComputation:
    """The scores of each class, under names that begin with `PER_CLASS`.

    Args:
      of_classes: what the combiner has found -> class -> name of a score -> score.
      nothing: what the combiner starts from; it has the same classes and scores.
    """

    def named(found: Any) -> dict[metric_types.MetricKey, float]:
        return {
            metric_types.MetricKey(name=f"{PER_CLASS}{label}/{score}", **place): value
            for label, scores in of_classes(found).items()
            for score, value in scores.items()
        }

    return metric_types.DerivedMetricComputation(keys=list(named(nothing)), result=lambda metrics: named(metrics[source]))


PER_CLASS = "class/"
"""Begins the name of a score of one class: class/NAME/score."""
