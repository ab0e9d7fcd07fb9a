"""The scores of `scores.py` as metrics of TFMA: combined by Beam, on every slice, for the candidate and the baseline.

Beam adds up the confusion matrix, the entities or what each answer scores, or puts the values of all rows beside each
other (ranks need every one of them; that is 16 bytes a row). All are exact whatever the order in which parts are merged;
the score is a function of the whole.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
from tensorflow_model_analysis.metrics import metric_types, metric_util, multi_class_confusion_matrix_metrics

from components.scores import OF_ANSWERS, OF_CONFUSION, OF_ENTITIES, OF_VALUES, Entities
from models import tags

_ANY_SHARE = [0.0]
"""A threshold that every class with the largest share passes."""


class ConfusionScore(metric_types.Metric):
    """A score of `OF_CONFUSION`, for labels that are ids of classes and predictions that are their shares."""

    def __init__(self, name: str, score: str, classes: int) -> None:
        make = metric_util.merge_per_key_computations(_confusion_score)
        super().__init__(make, name=name, score=score, classes=classes)


class ValueScore(metric_types.Metric):
    """A score of `OF_VALUES`, for labels and predictions that are a number each. A row without weight does not count."""

    def __init__(self, name: str, score: str) -> None:
        super().__init__(metric_util.merge_per_key_computations(_value_score), name=name, score=score)


class AnswerScore(metric_types.Metric):
    """A score of `OF_ANSWERS`: its mean over the rows, for predictions that are a text and labels that are right ones."""

    def __init__(self, name: str, score: str) -> None:
        super().__init__(metric_util.merge_per_key_computations(_answer_score), name=name, score=score)


class EntityScore(metric_types.Metric):
    """A score of `OF_ENTITIES`, for labels and predictions that are ids of tags, one a word; -1 is no tag.

    The names of the types' own scores begin with `PER_CLASS`.
    """

    def __init__(self, name: str, score: str, labels: Sequence[str]) -> None:
        super().__init__(metric_util.merge_per_key_computations(_entity_score), name=name, score=score, labels=list(labels))


PER_CLASS = "class/"
"""Begins the name of a score of one class: class/NAME/score."""


def _confusion_score(
    name: str,
    score: str,
    classes: int,
    eval_config: Any = None,
    model_name: str = "",
    output_name: str = "",
    example_weighted: bool = False,
) -> metric_types.MetricComputations:
    place = {"model_name": model_name, "output_name": output_name, "example_weighted": example_weighted}
    counted = multi_class_confusion_matrix_metrics.multi_class_confusion_matrices(
        thresholds=_ANY_SHARE, eval_config=eval_config, **place
    )

    def of_whole(matrices: Any) -> float:
        confusion = np.zeros((classes, classes))
        for (actual, predicted), weight in matrices.get(_ANY_SHARE[0], {}).items():
            confusion[actual, predicted] += weight
        return OF_CONFUSION[score](confusion)

    return [*counted, _derived(metric_types.MetricKey(name=name, **place), counted[-1].keys[-1], of_whole)]


def _value_score(
    name: str,
    score: str,
    eval_config: Any = None,
    model_name: str = "",
    output_name: str = "",
    example_weighted: bool = False,
) -> metric_types.MetricComputations:
    place = {"model_name": model_name, "output_name": output_name, "example_weighted": example_weighted}
    values = metric_types.MetricKey(name="_values", **place)  # TFMA keeps a name that begins so to itself
    gathered = metric_types.MetricComputation(keys=[values], preprocessors=None, combiner=Values(values, eval_config))

    def of_whole(found: tuple[array, array]) -> float:
        return OF_VALUES[score](np.asarray(found[0]), np.asarray(found[1]))

    return [gathered, _derived(metric_types.MetricKey(name=name, **place), values, of_whole)]


def _entity_score(
    name: str,
    score: str,
    labels: Sequence[str],
    eval_config: Any = None,
    model_name: str = "",
    output_name: str = "",
    example_weighted: bool = False,
) -> metric_types.MetricComputations:
    place = {"model_name": model_name, "output_name": output_name, "example_weighted": example_weighted}
    counts = metric_types.MetricKey(name="_entities", **place)
    counted = metric_types.MetricComputation(
        keys=[counts], preprocessors=None, combiner=CountEntities(counts, eval_config, labels)
    )

    def of_types(metrics: dict[metric_types.MetricKey, Any]) -> dict[metric_types.MetricKey, float]:
        found: Entities = metrics[counts]
        return {
            metric_types.MetricKey(name=f"{PER_CLASS}{kind}/{what}", **place): value
            for kind in found.types
            for what, value in found.of_type(kind).items()
        }

    keys = [
        metric_types.MetricKey(name=f"{PER_CLASS}{kind}/{what}", **place)
        for kind in Entities.none(labels).types
        for what in Entities.none(labels).of_type(kind)
    ]
    each_type = metric_types.DerivedMetricComputation(keys=keys, result=of_types)
    return [counted, each_type, _derived(metric_types.MetricKey(name=name, **place), counts, OF_ENTITIES[score])]


def _answer_score(
    name: str,
    score: str,
    eval_config: Any = None,
    model_name: str = "",
    output_name: str = "",
    example_weighted: bool = False,
) -> metric_types.MetricComputations:
    place = {"model_name": model_name, "output_name": output_name, "example_weighted": example_weighted}
    key = metric_types.MetricKey(name=name, **place)
    return [metric_types.MetricComputation(keys=[key], preprocessors=None, combiner=MeanScore(key, score, eval_config))]


def _derived(
    key: metric_types.MetricKey, source: metric_types.MetricKey, of_whole: Callable[[Any], float]
) -> metric_types.DerivedMetricComputation:
    def result(metrics: dict[metric_types.MetricKey, Any]) -> dict[metric_types.MetricKey, float]:
        return {key: of_whole(metrics[source])}

    return metric_types.DerivedMetricComputation(keys=[key], result=result)


class MeanScore(beam.CombineFn):
    """The mean of a score over all rows with a weight that it counts; no number where there is none."""

    def __init__(self, key: metric_types.MetricKey, score: str, eval_config: Any) -> None:
        self._key, self._score, self._eval_config = key, score, eval_config

    def create_accumulator(self) -> tuple[float, int]:
        return 0.0, 0

    def add_input(self, found: tuple[float, int], element: metric_types.StandardMetricInputs) -> tuple[float, int]:
        total, count = found
        rows = metric_util.to_label_prediction_example_weight(
            element,
            eval_config=self._eval_config,
            model_name=self._key.model_name,
            output_name=self._key.output_name,
            example_weighted=self._key.example_weighted,
            flatten=False,
            squeeze=False,
        )
        for label, prediction, weight in rows:
            right = [text.decode() for text in label.reshape(-1).tolist() if text]
            value = OF_ANSWERS[self._score](prediction.reshape(-1).tolist()[0].decode(errors="replace"), right)
            if value is not None and float(weight.reshape(-1)[0]) > 0:
                total, count = total + value, count + 1
        return total, count

    def merge_accumulators(self, parts: Iterable[tuple[float, int]]) -> tuple[float, int]:
        totals, counts = zip(*parts, strict=True)
        return math.fsum(totals), sum(counts)

    def extract_output(self, found: tuple[float, int]) -> dict[metric_types.MetricKey, float]:
        total, count = found
        return {self._key: total / count if count else math.nan}


class Values(beam.CombineFn):
    """Predictions and labels of all rows with a weight."""

    def __init__(self, key: metric_types.MetricKey, eval_config: Any) -> None:
        self._key, self._eval_config = key, eval_config

    def create_accumulator(self) -> tuple[array, array]:
        return array("d"), array("d")

    def add_input(self, found: tuple[array, array], element: metric_types.StandardMetricInputs) -> tuple[array, array]:
        rows = metric_util.to_label_prediction_example_weight(
            element,
            eval_config=self._eval_config,
            model_name=self._key.model_name,
            output_name=self._key.output_name,
            example_weighted=self._key.example_weighted,
        )
        for label, prediction, weight in rows:
            if float(weight) > 0:
                found[0].append(float(prediction))
                found[1].append(float(label))
        return found

    def merge_accumulators(self, parts: Iterable[tuple[array, array]]) -> tuple[array, array]:
        merged = self.create_accumulator()
        for predictions, labels in parts:
            merged[0].extend(predictions)
            merged[1].extend(labels)
        return merged

    def extract_output(self, found: tuple[array, array]) -> dict[metric_types.MetricKey, tuple[array, array]]:
        return {self._key: found}


class CountEntities(beam.CombineFn):
    """The entities of all rows with a weight."""

    def __init__(self, key: metric_types.MetricKey, eval_config: Any, labels: Sequence[str]) -> None:
        self._key, self._eval_config, self._labels = key, eval_config, list(labels)

    def create_accumulator(self) -> Entities:
        return Entities.none(self._labels)

    def add_input(self, found: Entities, element: metric_types.StandardMetricInputs) -> Entities:
        rows = metric_util.to_label_prediction_example_weight(
            element,
            eval_config=self._eval_config,
            model_name=self._key.model_name,
            output_name=self._key.output_name,
            example_weighted=self._key.example_weighted,
            flatten=False,
        )
        for label, prediction, weight in rows:
            if float(np.max(weight)) > 0:
                true = [self._labels[tag] if tag >= 0 else None for tag in label.reshape(-1).astype(int)]
                given = [self._labels[tag] if tag >= 0 else tags.OUTSIDE for tag in prediction.reshape(-1).astype(int)]
                # Rows are filled up to the longest of their batch, and words without any piece have no answer.
                given = [*given, *[tags.OUTSIDE] * len(true)][: len(true)]
                found = found.add(given, true)
        return found

    def merge_accumulators(self, parts: Iterable[Entities]) -> Entities:
        return sum(parts, self.create_accumulator())

    def extract_output(self, found: Entities) -> dict[metric_types.MetricKey, Entities]:
        return {self._key: found}
