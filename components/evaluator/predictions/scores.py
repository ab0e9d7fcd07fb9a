"""The metrics of a task from its evaluation examples, and how far they would move with other rows.

What each row adds to a metric is worked out once. A draw of the bootstrap then only says how often each row counts: sums of
the rows, weighted by that, give its scores in the time of a matrix product.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bertline.components.evaluator.predictions.rows import EvaluationPredictions, shared
from bertline.models.decisions.decision import Decision
from bertline.models.metrics.accumulators import families, family_of
from bertline.models.metrics.retrieval import ranks
from bertline.models.metrics.scores import OF_CLASSES, Decisions, Entities
from bertline.pipeline.core.errors import BertlineError

LEVEL = 0.95
"""Of intervals that are shown."""
_MAX_DRAWS, _MIN_DRAWS = 1000, 200
_ROWS_TO_DRAW = 20_000_000  # in all draws together: many rows need fewer draws to be sure, and somebody waits

Sum = Callable[[np.ndarray], Any]
"""(how often each row counts) -> what the scores are functions of."""


class Estimate(NamedTuple):
    """A number, and the interval in which it stays with other rows of the same kind."""

    value: float
    low: float
    high: float


class Spread(NamedTuple):
    """What became of one metric."""

    one: Estimate
    other: Estimate | None = None
    difference: Estimate | None = None
    """The other less the one, of the same rows in every draw: an interval without 0 says that they differ."""


def scores(rows: EvaluationPredictions, chosen: Sequence[int] | np.ndarray | None = None) -> dict[str, float]:
    """Every metric of the task, as the Evaluator measures it, by its name in the config.

    Args:
      chosen: places of the rows that count, each as often as it is named; all of them by default. In a search, what is
        searched stays the candidates of all rows.
    """
    counts = np.ones(len(rows), np.int64) if chosen is None else np.bincount(chosen, minlength=len(rows))
    return scorer(rows)(counts)


def enough_draws(rows: int) -> int:
    """How often so many rows are to be drawn for an interval that is shown."""
    return max(_MIN_DRAWS, min(_MAX_DRAWS, _ROWS_TO_DRAW // max(1, rows)))


def bootstrap(
    one: EvaluationPredictions,
    other: EvaluationPredictions | None = None,
    *,
    draws: int = 1000,
    seed: int = 0,
    level: float = LEVEL,
) -> dict[str, Spread]:
    """Percentile intervals of every metric that both have, by drawing as many rows as there are, with repetition.

    Two models are compared on the rows that both have seen, and every draw is of the same rows for both.
    """
    given = [one] if other is None else list(shared(one, other))
    count = len(given[0])
    if count == 0:
        raise BertlineError("the runs have no evaluation examples in common; compare two runs over the same data.")
    measured = [scorer(rows) for rows in given]
    whole = [score(np.ones(count, np.int64)) for score in measured]
    names = [name for name in whole[0] if all(name in found for found in whole)]
    drawn = np.empty((len(names), len(given), draws))
    chance = np.random.default_rng(seed)
    for draw in range(draws):
        counts = np.bincount(chance.integers(count, size=count), minlength=count)
        for model, score in enumerate(measured):
            found = score(counts)
            drawn[:, model, draw] = [found[name] for name in names]

    def estimate(value: float, values: np.ndarray) -> Estimate:
        # A draw may have none of the rows that a score is of.
        known = values[~np.isnan(values)]
        outside = 50 * (1 - level)
        low, high = np.percentile(known, [outside, 100 - outside]) if len(known) else (np.nan, np.nan)
        return Estimate(value, float(low), float(high))

    spreads = {}
    for at, name in enumerate(names):
        values = [found[name] for found in whole]
        each = [estimate(value, drawn[at, model]) for model, value in enumerate(values)]
        if other is None:
            spreads[name] = Spread(each[0])
        else:
            spreads[name] = Spread(each[0], each[1], estimate(values[1] - values[0], drawn[at, 1] - drawn[at, 0]))
    return spreads


def confusion(rows: EvaluationPredictions, output: str = "") -> np.ndarray:
    """[classes, classes]: rows of each true class by the one that is answered."""
    return _sum(rows, output, "confusion")(np.ones(len(rows), np.int64)).astype(int)


def scorer(rows: EvaluationPredictions) -> Callable[[np.ndarray], dict[str, float]]:
    """(how often each row counts) -> every metric of the task."""
    metrics, of_model = rows.description.metrics, families(rows.description.decision)
    sums: dict[tuple[str, str], Sum] = {}
    for metric in metrics.values():
        key = (metric.output, family_of(metric.tfma) or metric.tfma)
        if metric.tfma and key not in sums:
            sums[key] = _sum(rows, *key)

    def score(counts: np.ndarray) -> dict[str, float]:
        wholes = {key: of_rows(counts) for key, of_rows in sums.items()}
        found: dict[str, float] = {}
        for name, metric in metrics.items():
            if metric.function:
                found[name] = metric.function(found[metric.of])
            elif family := family_of(metric.tfma):
                found[name] = of_model[family].scores[metric.tfma](wholes[metric.output, family])
            else:
                found[name] = wholes[metric.output, metric.tfma]
        return found

    return score


def _sum(rows: EvaluationPredictions, output: str, of: str) -> Sum:
    weights = rows.weight(output)
    if of in _MEANS:
        return _mean(_MEANS[of](rows.label(output), rows.prediction(output), rows.description.decision), weights)
    if of not in _SUMS:
        raise BertlineError(
            f"{of} cannot be computed from the kept evaluation examples; see components/evaluator/predictions/scores.py."
        )
    # Our own scores count a row that has a weight, whatever it is.
    kept = np.flatnonzero(weights > 0)
    label, prediction = (_some(values, kept) for values in (rows.label(output), rows.prediction(output)))
    add = _SUMS[of](label, prediction, rows.description.labels, rows.description.decision)
    return lambda counts: add(counts[kept])


def _some(values: Any, kept: np.ndarray) -> Any:
    return values[kept] if isinstance(values, np.ndarray) else [values[row] for row in kept]


def _mean(values: np.ndarray, weights: np.ndarray) -> Sum:
    """TFMA's and Keras's own metrics are means of something over the rows, by their weights."""
    weighted, weights = values.astype(np.float64) * weights, weights.astype(np.float64)

    def mean(counts: np.ndarray) -> float:
        total = counts @ weights
        return float(counts @ weighted / total) if total else float("nan")

    return mean


_MEANS: Mapping[str, Callable[[np.ndarray, np.ndarray, Decision], np.ndarray]] = {
    "MeanPrediction": lambda labels, values, decision: values,
    **OF_CLASSES,
}


def _confusion(label: np.ndarray, probabilities: np.ndarray, labels: Sequence[str], decision: Decision) -> Sum:
    size = len(labels)
    cells = label.astype(np.int64) * size + decision.classes(probabilities) if len(label) else np.zeros(0, np.int64)
    return lambda counts: np.bincount(cells, counts, size * size).reshape(size, size)


def _values(label: np.ndarray, value: np.ndarray, labels: Sequence[str], decision: Decision) -> Sum:
    predictions, true = value.astype(np.float64), label.astype(np.float64)
    return lambda counts: (np.repeat(predictions, counts), np.repeat(true, counts))


def _places(names: np.ndarray, vectors: np.ndarray, labels: Sequence[str], decision: Decision) -> Sum:
    places = np.zeros(0, np.int64)
    if len(names):
        questions, candidates = np.split(vectors.astype(np.float64), 2, axis=1)
        places = ranks(questions, candidates, names)
    return lambda counts: np.repeat(places, counts)


def _added(family: str, flat: Callable[[Any], np.ndarray], whole: Callable[[np.ndarray, Any], Any]) -> Callable[..., Sum]:
    """Of a family whose rows are added up, number by number.

    Args:
      flat: (sum) -> its numbers.
      whole: (numbers, sum over no row) -> the sum that they are of.
    """

    def prepare(label: Any, prediction: Any, labels: Sequence[str], decision: Decision) -> Sum:
        of = families(decision)[family]
        none = of.none(labels)
        each = [
            flat(of.add(of.none(labels), _as_graph_gives(true), _as_graph_gives(given), labels))
            for true, given in zip(label, prediction, strict=True)
        ]
        numbers = np.asarray(each) if each else np.zeros((0, len(flat(none))))
        return lambda counts: whole(counts @ numbers, none)

    return prepare


def _as_graph_gives(value: Any) -> np.ndarray:
    """Texts as bytes: the families read what TensorFlow gives."""
    array = np.asarray(value, object if isinstance(value, str) else None)
    if array.dtype.kind not in "OU":
        return array
    return np.asarray([text.encode() for text in np.ravel(array)], object)


_SUMS: Mapping[str, Callable[[Any, Any, Sequence[str], Decision], Sum]] = {
    "confusion": _confusion,
    "values": _values,
    "ranks": _places,
    "decisions": _added(
        "decisions",
        lambda found: np.asarray([*found.counts.ravel(), found.rows, found.exact, found.cross_entropy], float),
        lambda numbers, none: Decisions(numbers[:-3].reshape(none.counts.shape), *numbers[-3:]),
    ),
    "entities": _added(
        "entities",
        lambda found: np.asarray([*found.counts.ravel(), found.right, found.words], float),
        lambda numbers, none: Entities(none.types, numbers[:-2].reshape(none.counts.shape), *numbers[-2:]),
    ),
    "answers": _added("answers", np.ravel, lambda numbers, none: numbers.reshape(none.shape)),
    # In floating point, where sums are fast, and exact as well up to 2 to the power of 53.
    "translations": _added("translations", lambda found: found.astype(float), lambda numbers, none: numbers),
}
