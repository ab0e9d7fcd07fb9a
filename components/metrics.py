"""The scores of `scores.py` and `ranks.py` as metrics of TFMA: combined by Beam, on every slice, for both models.

Beam adds up the confusion matrix, the decisions, the entities or what each answer scores, or puts the values of all rows
beside each other (ranks need every one of them; that is 16 bytes a row). All are exact whatever the order in which parts
are merged; the score is a function of the whole.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from tensorflow_model_analysis.metrics import metric_types, metric_util, multi_class_confusion_matrix_metrics

from components.metric_parts import OfRows, Place, combined, derived, derived_per_class
from components.rank_metrics import rank_score
from components.ranks import OF_RANKS
from components.scores import (
    OF_ANSWERS,
    OF_CONFUSION,
    OF_DECISIONS,
    OF_ENTITIES,
    OF_VALUES,
    Decisions,
    Entities,
)
from models import tags

_ANY_SHARE = [0.0]
"""A threshold that every class with the largest share passes."""


class Score(metric_types.Metric):
    """One of our scores, by its name. A row without weight does not count."""

    def __init__(self, name: str, score: str, labels: Sequence[str]) -> None:
        make = metric_util.merge_per_key_computations(_computations)
        super().__init__(make, name=name, score=score, labels=list(labels))


def is_ours(score: str) -> bool:
    return any(score in scores for scores, _ in _FAMILIES)


def _computations(
    name: str,
    score: str,
    labels: Sequence[str],
    eval_config: Any = None,
    model_name: str = "",
    output_name: str = "",
    example_weighted: bool = False,
) -> metric_types.MetricComputations:
    place = {"model_name": model_name, "output_name": output_name, "example_weighted": example_weighted}
    scores, make = next((scores, make) for scores, make in _FAMILIES if score in scores)
    return make(metric_types.MetricKey(name=name, **place), scores[score], place, eval_config, labels)


def _confusion_score(
    key: metric_types.MetricKey, score: Callable[..., float], place: Place, eval_config: Any, labels: Sequence[str]
) -> metric_types.MetricComputations:
    """For labels that are ids of classes and predictions that are their shares."""
    counted = multi_class_confusion_matrix_metrics.multi_class_confusion_matrices(
        thresholds=_ANY_SHARE, eval_config=eval_config, **place
    )

    def of_whole(matrices: Any) -> float:
        confusion = np.zeros((len(labels), len(labels)))
        for (actual, predicted), weight in matrices.get(_ANY_SHARE[0], {}).items():
            confusion[actual, predicted] += weight
        return score(confusion)

    return [*counted, derived(key, counted[-1].keys[-1], of_whole)]


def _value_score(
    key: metric_types.MetricKey, score: Callable[..., float], place: Place, eval_config: Any, labels: Sequence[str]
) -> metric_types.MetricComputations:
    """For labels and predictions that are a number each."""
    gathered, values = combined(Values, "_values", place, eval_config)
    return [gathered, derived(key, values, lambda found: score(np.asarray(found[0]), np.asarray(found[1])))]


def _decision_score(
    key: metric_types.MetricKey, score: Callable[..., float], place: Place, eval_config: Any, labels: Sequence[str]
) -> metric_types.MetricComputations:
    """For labels of 0 and 1 and predictions that are shares, one of each a class."""
    added, sums = combined(AddDecisions, "_decisions", place, eval_config, labels)
    each = derived_per_class(place, sums, lambda found: found.of_classes(labels), Decisions.none(len(labels)))
    return [added, each, derived(key, sums, score)]


def _entity_score(
    key: metric_types.MetricKey, score: Callable[..., float], place: Place, eval_config: Any, labels: Sequence[str]
) -> metric_types.MetricComputations:
    """For labels and predictions that are ids of tags, one a word; -1 is no tag."""
    counted, counts = combined(CountEntities, "_entities", place, eval_config, labels)
    each = derived_per_class(place, counts, Entities.of_types, Entities.none(labels))
    return [counted, each, derived(key, counts, score)]


def _answer_score(
    key: metric_types.MetricKey, score: Callable[..., Any], place: Place, eval_config: Any, labels: Sequence[str]
) -> metric_types.MetricComputations:
    """The mean over the rows, for predictions that are a text and labels that are right ones."""
    return [combined(MeanScore, key.name, place, eval_config, score)[0]]


_FAMILIES: Sequence[tuple[Mapping[str, Callable[..., Any]], Callable[..., metric_types.MetricComputations]]] = (
    (OF_CONFUSION, _confusion_score),
    (OF_VALUES, _value_score),
    (OF_DECISIONS, _decision_score),
    (OF_ENTITIES, _entity_score),
    (OF_ANSWERS, _answer_score),
    (OF_RANKS, rank_score),
)


class MeanScore(OfRows):
    """The mean of a score over all rows that it counts; no number where there is none."""

    def __init__(self, key: metric_types.MetricKey, eval_config: Any, score: Callable[..., float | None]) -> None:
        super().__init__(key, eval_config)
        self._score = score

    def create_accumulator(self) -> tuple[float, int]:
        return 0.0, 0

    def add_input(self, found: tuple[float, int], element: metric_types.StandardMetricInputs) -> tuple[float, int]:
        total, count = found
        for label, prediction in self.rows(element, squeeze=False):
            right = [text.decode() for text in label.reshape(-1).tolist() if text]
            value = self._score(prediction.reshape(-1).tolist()[0].decode(errors="replace"), right)
            if value is not None:
                total, count = total + value, count + 1
        return total, count

    def merge_accumulators(self, parts: Iterable[tuple[float, int]]) -> tuple[float, int]:
        totals, counts = zip(*parts, strict=True)
        return math.fsum(totals), sum(counts)

    def extract_output(self, found: tuple[float, int]) -> dict[metric_types.MetricKey, float]:
        total, count = found
        return {self._key: total / count if count else math.nan}


class Values(OfRows):
    """Predictions and labels of all rows."""

    def create_accumulator(self) -> tuple[array, array]:
        return array("d"), array("d")

    def add_input(self, found: tuple[array, array], element: metric_types.StandardMetricInputs) -> tuple[array, array]:
        for label, prediction in self.rows(element):
            found[0].append(float(np.ravel(prediction)[0]))
            found[1].append(float(np.ravel(label)[0]))
        return found

    def merge_accumulators(self, parts: Iterable[tuple[array, array]]) -> tuple[array, array]:
        merged = self.create_accumulator()
        for predictions, labels in parts:
            merged[0].extend(predictions)
            merged[1].extend(labels)
        return merged


class AddDecisions(OfRows):
    """The decisions of all rows."""

    def __init__(self, key: metric_types.MetricKey, eval_config: Any, labels: Sequence[str]) -> None:
        super().__init__(key, eval_config)
        self._classes = len(labels)

    def create_accumulator(self) -> Decisions:
        return Decisions.none(self._classes)

    def add_input(self, sums: Decisions, element: metric_types.StandardMetricInputs) -> Decisions:
        for label, prediction in self.rows(element):
            sums += Decisions.of_row(np.ravel(label), np.ravel(prediction))
        return sums

    def merge_accumulators(self, parts: Iterable[Decisions]) -> Decisions:
        return sum(parts, self.create_accumulator())


class CountEntities(OfRows):
    """The entities of all rows."""

    def __init__(self, key: metric_types.MetricKey, eval_config: Any, labels: Sequence[str]) -> None:
        super().__init__(key, eval_config)
        self._labels = list(labels)

    def create_accumulator(self) -> Entities:
        return Entities.none(self._labels)

    def add_input(self, found: Entities, element: metric_types.StandardMetricInputs) -> Entities:
        for label, prediction in self.rows(element):
            true = [self._labels[tag] if tag >= 0 else None for tag in label.reshape(-1).astype(int)]
            given = [self._labels[tag] if tag >= 0 else tags.OUTSIDE for tag in prediction.reshape(-1).astype(int)]
            # Rows are filled up to the longest of their batch, and words without any piece have no answer.
            given = [*given, *[tags.OUTSIDE] * len(true)][: len(true)]
            found = found.add(given, true)
        return found

    def merge_accumulators(self, parts: Iterable[Entities]) -> Entities:
        return sum(parts, self.create_accumulator())
