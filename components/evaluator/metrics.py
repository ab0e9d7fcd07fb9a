"""The scores of `models/metrics/accumulators.py` as metrics of TFMA: added up by Beam, on every slice, for both models."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

import apache_beam as beam
import numpy as np
from tensorflow_model_analysis.metrics import metric_types, metric_util

from bertline.models.decisions.decision import LIKELIEST, Decision
from bertline.models.metrics.accumulators import Family, families, family_of
from bertline.models.metrics.scores import OF_CLASSES

PER_CLASS = "class/"
"""Begins the name of a score of one class: class/NAME/score."""

Decisions = Mapping[str, Mapping[str, Any]]
"""Name of a model -> the fields of its Decision."""


class Score(metric_types.Metric):
    """One of our scores, by its name. A row without weight does not count."""

    def __init__(self, name: str, score: str, labels: Sequence[str], decisions: Decisions | None = None) -> None:
        make = metric_util.merge_per_key_computations(_computations)
        super().__init__(make, name=name, score=score, labels=list(labels), decisions=decisions or {})


class ClassMean(metric_types.Metric):
    """A metric of Keras's over classes, by its name, in numpy.

    Keras's own would be traced anew for each, which takes longer than a small model and all of its rows.
    """

    def __init__(self, name: str, of: str, decisions: Decisions | None = None) -> None:
        make = metric_util.merge_per_key_computations(_mean_computations)
        super().__init__(make, name=name, of=of, decisions=decisions or {})


def _mean_computations(
    name: str,
    of: str,
    decisions: Decisions,
    eval_config: Any = None,
    model_name: str = "",
    output_name: str = "",
    example_weighted: bool = False,
) -> metric_types.MetricComputations:
    place = {"model_name": model_name, "output_name": output_name, "example_weighted": example_weighted}
    sums, key = (metric_types.MetricKey(name=each, **place) for each in ("_class_means", name))
    at = list(OF_CLASSES).index(of)
    # Keras says 0 where no row has a weight; what was measured on nothing is undefined.
    mean = lambda total: {key: float(total[at] / total[-1]) if total[-1] else float("nan")}  # noqa: E731
    combiner = AddClasses(sums, eval_config, _decision(decisions, model_name))
    added = metric_types.MetricComputation(keys=[sums], preprocessors=None, combiner=combiner)
    return [added, _derived([key], sums, mean)]


def _computations(
    name: str,
    score: str,
    labels: Sequence[str],
    decisions: Decisions,
    eval_config: Any = None,
    model_name: str = "",
    output_name: str = "",
    example_weighted: bool = False,
) -> metric_types.MetricComputations:
    place = {"model_name": model_name, "output_name": output_name, "example_weighted": example_weighted}

    def key(name: str) -> metric_types.MetricKey:
        return metric_types.MetricKey(name=name, **place)

    of = str(family_of(score))
    decision = _decision(decisions, model_name)
    family = families(decision)[of]
    # TFMA keeps names that begin with _ to itself; what several scores follow from is added up and looked at once.
    sums, whole = key(f"_{of}"), key(f"_{of}_whole")
    combiner = AddExamples(of, labels, sums, eval_config, decision)
    added = metric_types.MetricComputation(keys=[sums], preprocessors=None, combiner=combiner)
    found = [
        added,
        _derived([whole], sums, lambda total: {whole: family.whole(total)}),
        _derived([key(name)], whole, lambda total: {key(name): family.scores[score](total)}),
    ]
    if of_classes := family.of_classes:

        def each_class(total: Any) -> dict[metric_types.MetricKey, float]:
            return {
                key(f"{PER_CLASS}{label}/{what}"): value
                for label, scores in of_classes(total, labels).items()
                for what, value in scores.items()
            }

        found.append(_derived(list(each_class(family.none(labels))), sums, each_class))
    return found


def _decision(decisions: Decisions, model_name: str) -> Decision:
    """TFMA keeps no name for a model that is measured alone."""
    return Decision(**decisions.get(model_name or "candidate", {}))


def _derived(
    keys: list[metric_types.MetricKey],
    source: metric_types.MetricKey,
    of_source: Callable[[Any], dict[metric_types.MetricKey, Any]],
) -> metric_types.DerivedMetricComputation:
    return metric_types.DerivedMetricComputation(keys=keys, result=lambda metrics: of_source(metrics[source]))


class AddExamples(beam.CombineFn):
    """The sum of a family over all rows with a weight."""

    def __init__(
        self,
        family: str,
        labels: Sequence[str],
        key: metric_types.MetricKey,
        eval_config: Any,
        decision: Decision = LIKELIEST,
    ) -> None:
        self._name, self._labels, self._decision = family, list(labels), decision
        self._key, self._eval_config = key, eval_config

    @property
    def _family(self) -> Family:  # which has functions without a name, and cannot be sent to a worker
        return families(self._decision)[self._name]

    def create_accumulator(self) -> Any:
        return self._family.none(self._labels)

    def add_input(self, found: Any, element: metric_types.StandardMetricInputs) -> Any:
        add = self._family.add
        for label, prediction, weight in _rows(element, self._key, self._eval_config):
            if float(np.max(weight)) > 0:
                found = add(found, label, prediction, self._labels)
        return found

    def merge_accumulators(self, parts: Iterable[Any]) -> Any:
        return reduce(self._family.merge, parts, self.create_accumulator())

    def extract_output(self, found: Any) -> dict[metric_types.MetricKey, Any]:
        return {self._key: found}


class AddClasses(beam.CombineFn):
    """What each of `OF_CLASSES` has in all rows, and the rows, by their weights."""

    def __init__(self, key: metric_types.MetricKey, eval_config: Any, decision: Decision = LIKELIEST) -> None:
        self._key, self._eval_config, self._decision = key, eval_config, decision

    def create_accumulator(self) -> np.ndarray:
        return np.zeros(len(OF_CLASSES) + 1)

    def add_input(self, found: np.ndarray, element: metric_types.StandardMetricInputs) -> np.ndarray:
        for label, prediction, weight in _rows(element, self._key, self._eval_config):
            ids, probabilities = np.ravel(label)[:1].astype(np.int64), np.reshape(prediction, (1, -1))
            values = [float(of(ids, probabilities, self._decision)[0]) for of in OF_CLASSES.values()]
            found += float(np.max(weight)) * np.asarray([*values, 1.0])
        return found

    def merge_accumulators(self, parts: Iterable[np.ndarray]) -> np.ndarray:
        return sum(parts, self.create_accumulator())

    def extract_output(self, found: np.ndarray) -> dict[metric_types.MetricKey, Any]:
        return {self._key: found}


def _rows(
    element: metric_types.StandardMetricInputs, key: metric_types.MetricKey, eval_config: Any
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """(label, prediction, weight) of each row."""
    return metric_util.to_label_prediction_example_weight(
        element,
        eval_config=eval_config,
        model_name=key.model_name,
        output_name=key.output_name,
        example_weighted=key.example_weighted,
        flatten=False,
        squeeze=False,
    )
