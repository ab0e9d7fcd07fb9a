"""What an evaluator found, as one value: metrics and slices with their intervals, classes, and the worst answers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

from bertline.components.evaluator.predictions.error_records import error_records
from bertline.components.evaluator.predictions.rows import EvaluationPredictions
from bertline.components.evaluator.predictions.scores import LEVEL, Estimate, bootstrap, enough_draws
from bertline.components.evaluator.verdict import OVERALL, ROWS, Verdict
from bertline.components.reports.certainty import Certainty
from bertline.components.reports.confusion import Confusion, majority
from bertline.models.kinds import describe_kind
from bertline.pipeline.config import Frozen
from bertline.pipeline.core.errors import BertlineError

PAGE = "evaluation/page.html"
"""The name in MLflow of the page."""
_MAX_SLICES = 50  # with intervals
_SLICE_DRAWS = 300  # as many as 1000 tell apart at a glance, and there may be 50 of them
_MAX_ERRORS = 50


class Score(Frozen):
    """One metric, on all evaluation examples or on a slice of them."""

    metric: str
    value: float | None
    """None where it is no number, as the correlation of a single row."""
    low: float | None = None
    """The interval, by bootstrap over the rows; None where the rows are not kept."""
    high: float | None = None
    bound: float | None = None
    """That it must keep to be blessed; of a slice, where it is judged."""
    keeps: bool | None = None
    """Whether it does."""
    before: float | None = None
    """Of the model that was pushed before, on the same rows."""


class Slice(Frozen):
    name: str
    rows: int
    judged: bool
    """Whether it has enough rows to be judged by the thresholds of slices."""
    scores: tuple[Score, ...]


class Bounds(Frozen):
    """What was asked of the model."""

    config_section: ClassVar[str] = "evaluation"  # a journal may have them by the names that they had in a config

    thresholds: dict[str, float] = {}
    slice_thresholds: dict[str, float] = {}
    min_slice_examples: int = 0


class Results(Frozen):
    blessed: bool
    reasons: tuple[str, ...]
    rows: int
    scores: tuple[Score, ...]
    slices: tuple[Slice, ...] = ()
    classes: dict[str, dict[str, float | None]] = {}
    """Class -> precision, recall, f1, and last how many of it there are."""
    positive: str | None = None
    """The positive class of two, and why it is this one."""
    positive_why: str = ""
    instead: str = ""
    """That the model has no encoder, and why."""
    decided_how: dict[str, str] = {}
    """Calibration, threshold and abstention, in sentences."""
    certainty: Certainty | None = None
    confusion: Confusion | None = None
    majority: tuple[str, float] | None = None
    """The most frequent class, and the accuracy of always answering it."""
    less_is_better: tuple[str, ...] = ()
    baseline: str | None = None
    """Folder of the model that was pushed before."""
    baselines: dict[str, dict[str, float | None]] = {}
    """Simple baseline -> its metrics on the same evaluation examples, those with a threshold first."""
    test: dict[str, Score] = {}
    """Metric -> what it is on the test examples, which chose nothing."""
    test_rows: int = 0
    baseline_notes: tuple[str, ...] = ()
    """How they were measured, in sentences."""
    level: float = LEVEL
    """Of the intervals."""
    errors: tuple[dict[str, Any], ...] = ()
    """The worst answers with their texts, as `error_records` gives them."""
    text_keys: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """What is missing, in sentences."""


def results_of(verdict: Verdict, rows: EvaluationPredictions | None, bounds: Bounds) -> Results:
    """Args: rows: those that the evaluator kept; without them there are no intervals and no texts."""
    metrics = rows.description.metrics if rows else {}
    lower = [name for name, metric in metrics.items() if metric.better == "lower"]
    less_is_better = tuple(verdict.less_is_better if verdict.less_is_better is not None else lower)
    spread = _intervals(rows) if rows else {}
    largest = sorted(verdict.slices, key=lambda name: -_count(verdict.slices[name]))[:_MAX_SLICES]

    def slice_of(name: str, values: Mapping[str, float]) -> Slice:
        judged = _count(values) >= bounds.min_slice_examples
        found = {}
        if rows and name in largest and name in rows.slices:
            found = _intervals(rows.take(rows.slices[name]), most_draws=_SLICE_DRAWS)
        # Where a metric is undefined on a slice it is not judged there.
        defined = {metric for metric, value in values.items() if not math.isnan(value)}
        asked = {metric: bound for metric, bound in bounds.slice_thresholds.items() if judged and metric in defined}
        return Slice(
            name=name, rows=_count(values), judged=judged, scores=_scores(values, found, asked, less_is_better, {})
        )

    confusion = Confusion.of(verdict)
    errors, notes = _errors(rows)
    return Results(
        blessed=verdict.blessed,
        reasons=tuple(verdict.reasons),
        rows=_count(verdict.metrics),
        scores=_scores(verdict.metrics, spread, bounds.thresholds, less_is_better, verdict.baseline_metrics),
        slices=tuple(slice_of(name, values) for name, values in verdict.slices.items() if name != OVERALL),
        classes={name: {key: _finite(value) for key, value in found.items()} for name, found in verdict.classes.items()},
        positive=verdict.positive,
        positive_why=verdict.positive_why,
        instead=describe_kind(
            {"task": rows.description.task if rows else None, "kind": verdict.kind, "kind_why": verdict.kind_why}
        ),
        decided_how=verdict.decided_how,
        certainty=Certainty.of(rows) if rows else None,
        confusion=confusion,
        majority=majority(confusion) if confusion else None,
        less_is_better=less_is_better,
        baseline=verdict.baseline,
        baselines={
            name: {key: _finite(value) for key, value in found.items()} for name, found in verdict.baselines.items()
        },
        test={
            name: Score(metric=name, value=_finite(found["value"]), low=_finite(found["low"]), high=_finite(found["high"]))
            for name, found in verdict.test.items()
        },
        test_rows=verdict.test_rows,
        baseline_notes=_baseline_notes(verdict),
        errors=tuple(errors),
        text_keys=rows.description.text_keys if rows else (),
        notes=tuple(notes),
    )


def _baseline_notes(verdict: Verdict) -> tuple[str, ...]:
    took = [f"They took {verdict.baseline_seconds:.1f} s."] if verdict.baselines else []
    return (*verdict.baseline_notes, *took)


def _intervals(rows: EvaluationPredictions, most_draws: int | None = None) -> dict[str, Estimate]:
    if not len(rows):
        return {}
    draws = enough_draws(len(rows))
    found = bootstrap(rows, draws=min(draws, most_draws or draws))
    return {name: spread.one for name, spread in found.items()}


def _scores(
    values: Mapping[str, float],
    intervals: Mapping[str, Estimate],
    bounds: Mapping[str, float],
    less_is_better: tuple[str, ...],
    before: Mapping[str, float],
) -> tuple[Score, ...]:
    """Those with a threshold first, then in the order of the task."""

    def score(name: str) -> Score:
        value, bound, interval = values[name], bounds.get(name), intervals.get(name)
        keeps = None
        if bound is not None:  # NaN keeps nothing
            keeps = value <= bound if name in less_is_better else value >= bound
        return Score(
            metric=name,
            value=_finite(value),
            low=_finite(interval.low) if interval else None,
            high=_finite(interval.high) if interval else None,
            bound=bound,
            keeps=keeps,
            before=_finite(before.get(name)),
        )

    names = [name for name in values if name != ROWS]
    return tuple(score(name) for name in (*filter(bounds.__contains__, names), *(n for n in names if n not in bounds)))


def _errors(rows: EvaluationPredictions | None) -> tuple[list[dict[str, Any]], list[str]]:
    if rows is None:
        return [], [
            "The evaluation examples are not recorded: there are no intervals and no wrong predictions. An older version"
            " kept none, and `tracking.texts: false` leaves them out."
        ]
    try:
        return error_records(rows, _MAX_ERRORS), []
    except BertlineError as error:  # a task that came to be after it
        return [], [str(error)]


def _count(values: Mapping[str, float]) -> int:
    rows = values.get(ROWS, 0)
    return int(rows) if math.isfinite(rows) else 0


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
