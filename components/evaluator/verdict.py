"""What the evaluator decides, from numbers alone.

TFMA measures (`executor.py`); the decision is one function of those numbers, so that a refusal can name the metric, the
value, the threshold and the slice, and small slices are shown but not judged.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from bertline.models.metrics.scores import per_class
from bertline.models.tasks.base.task import Task
from bertline.pipeline.config import EvaluationConfig
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.core.json_numbers import with_nan, without_nan

FILE_NAME = "verdict.json"
OVERALL = "all rows"
_ALL = "all examples"
ROWS = "rows"
LENGTH = "length"
"""The feature that slices by the length of texts are made from."""

Slices = dict[str, dict[str, float]]  # slice -> metric -> value


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether a model may be pushed, the reasons if not, and every number behind it."""

    blessed: bool
    reasons: list[str]
    metrics: dict[str, float]
    slices: Slices
    baseline_metrics: dict[str, float] = field(default_factory=dict)
    baseline: str | None = None
    confusion: list[list[int]] = field(default_factory=list)
    """Rows of each true class (first index) by predicted class."""
    labels: list[str] = field(default_factory=list)
    positive: str | None = None
    """The positive class of two, which `f1`, `precision` and `recall` are of."""
    positive_why: str = ""
    """Why it is this one."""
    kind: str = "encoder"
    """What the model is, as its metadata says: `encoder`, or a fallback that was better than the encoder that was
    trained."""
    kind_why: str = ""
    """Why it is a fallback."""
    decided: dict[str, float] = field(default_factory=dict)
    """How well the probabilities are calibrated, and what was tuned to decide by them, see
    `components/evaluator/predictions/decisions.py`."""
    decided_how: dict[str, str] = field(default_factory=dict)
    """The same in sentences: calibration, threshold, abstention."""
    per_class: Slices = field(default_factory=dict)
    """Scores of each class where they do not follow from the confusion matrix, as of entities."""
    undefined: dict[str, str] = field(default_factory=dict)
    """Metrics that the evaluation examples do not determine, whose value is NaN (null in JSON): why."""
    less_is_better: list[str] | None = None
    """Metrics that are better where they are lower; None in the verdicts of older versions, which did not say."""
    baselines: Slices = field(default_factory=dict)
    """Simple baseline -> its metrics on the same evaluation examples, those with a threshold first; none in the verdicts of
    older versions, and where none is measured. `baseline` above is another model."""
    baseline_seconds: float = 0.0
    """What it took to measure them."""
    baseline_notes: list[str] = field(default_factory=list)
    """On how many examples they were measured, where that is not all of them."""

    test: Slices = field(default_factory=dict)
    """Metric -> its `value` on the test examples, and the interval from `low` to `high`; none where there are none. Nothing
    is judged by them."""
    test_rows: int = 0

    @property
    def classes(self) -> dict[str, dict[str, float]]:
        """Precision, recall and F1 of each class, and last how many of it there are; none for a task without classes."""
        return self.per_class or (per_class(self.confusion, self.labels) if self.confusion else {})

    def to_json(self) -> str:
        return json.dumps(without_nan(asdict(self)), indent=1)

    @classmethod
    def from_json(cls, text: str) -> Verdict:
        found = json.loads(text)
        for name in ("metrics", "baseline_metrics", "decided"):
            found[name] = with_nan(found.get(name, {}))
        for name in ("slices", "per_class", "test"):
            found[name] = {key: with_nan(values) for key, values in found.get(name, {}).items()}
        return cls(**found)


def check_metrics(task: Task, settings: EvaluationConfig, classes: int = 0) -> None:
    """A threshold on a metric that the task does not have would never be judged: refused as early as it is known.

    Args:
      classes: how many there are; 0 before they are known.
    """
    for name in (*settings.thresholds, *settings.slice_thresholds):
        if name not in task.evaluation.metrics:
            raise BertlineError(
                f"evaluation: the task {task.name} has no metric {name!r}; it has {', '.join(task.evaluation.metrics)}."
            )
        if classes and not task.evaluation.metrics[name].is_measured(classes):
            others = [other for other, metric in task.evaluation.metrics.items() if metric.is_measured(classes)]
            raise BertlineError(
                f"evaluation: {name} is a metric of {task.evaluation.metrics[name].classes} classes, and there are"
                f" {classes}; set a threshold for one of {', '.join(others)}."
            )


def judge(
    slices: Slices,
    baseline: Slices,
    settings: EvaluationConfig,
    task: Task,
    undefined: Mapping[str, str] | None = None,
) -> list[str]:
    """Every threshold that is not kept, as a sentence; none means blessed.

    A metric that is undefined on all rows meets no threshold. On a slice it is shown and not judged, like a slice that is
    too small: that a slice has one class only is no fault of the model.

    Args:
      undefined: metrics that are undefined on all rows -> why.
    """
    why = undefined or {}

    def fails(metric: str, value: float, threshold: float) -> str | None:
        """How a value fails its threshold, so that NaN does too; None if it keeps it."""
        if task.evaluation.metrics[metric].better == "higher":
            return None if value >= threshold else "below"
        return None if value <= threshold else "above"

    reasons = []
    for metric, threshold in settings.thresholds.items():
        value = slices[OVERALL][metric]
        if math.isnan(value):
            reasons.append(_is_undefined(metric, threshold, why))
            continue
        if side := fails(metric, value, threshold):
            reasons.append(f"{metric} {value:.4f} is {side} its threshold {threshold:g} on {_ALL}")
        if baseline and not math.isnan(before := baseline[OVERALL][metric]):
            allowed = settings.max_drop if task.evaluation.metrics[metric].better == "higher" else -settings.max_drop
            if side := fails(metric, value, before - allowed):
                reasons.append(
                    f"{metric} {value:.4f} is more than {settings.max_drop:g} {side} {before:.4f} of the currently"
                    f" pushed model, on {_ALL}"
                )
    if baseline and settings.must_beat:
        reasons += _not_beaten(slices[OVERALL], baseline[OVERALL], settings, task)
    for metric, threshold in settings.slice_thresholds.items():
        judged = {
            name: values
            for name, values in slices.items()
            if name != OVERALL and values[ROWS] >= settings.min_slice_examples
        }
        if math.isnan(slices[OVERALL][metric]):
            if judged and metric not in settings.thresholds:
                reasons.append(_is_undefined(metric, threshold, why))
            continue
        for name, values in judged.items():
            if not math.isnan(values[metric]) and (side := fails(metric, values[metric], threshold)):
                reasons.append(
                    f"{metric} {values[metric]:.4f} is {side} its threshold {threshold:g} on {name}"
                    f" ({values[ROWS]:.0f} examples)"
                )
    return reasons


def _is_undefined(metric: str, threshold: float, why: Mapping[str, str]) -> str:
    reason = why.get(metric, "its value is NaN; check the evaluation examples")
    return f"{metric} is undefined: {reason}, or set a threshold on another metric than {metric} (now {threshold:g})"


def _not_beaten(values: dict[str, float], before: dict[str, float], settings: EvaluationConfig, task: Task) -> list[str]:
    """Why a model does not beat the one that is pushed now: a metric is worse, or none is better. NaN beats nothing, and is
    beaten by any number."""

    def gain(metric: str) -> float:
        if math.isnan(before[metric]) and not math.isnan(values[metric]):
            return math.inf
        difference = values[metric] - before[metric]
        return difference if task.evaluation.metrics[metric].better == "higher" else -difference

    # What is undefined is refused already, in a sentence of its own.
    defined = [metric for metric in settings.thresholds if not math.isnan(values[metric])]
    worse = [metric for metric in defined if not gain(metric) >= 0]
    if not worse and any(gain(metric) > 0 for metric in defined):
        return []
    shown = worse or defined
    how = "is worse than" if worse else "does not beat"
    return [
        f"{metric} {values[metric]:.4f} {how} {before[metric]:.4f} of the currently pushed model, on {_ALL}"
        for metric in shown
    ]


def length_slice(words: int, limits: Sequence[int]) -> str:
    """The name of the slice that a text of so many words belongs to.

    >>> length_slice(12, (10, 20))
    '10-19 words'
    """
    edges = [0, *limits]
    at = bisect_right(edges, words) - 1
    return f"{edges[at]}-{edges[at + 1] - 1} words" if at + 1 < len(edges) else f"{edges[at]}+ words"


def slice_name(column: str, value: object) -> str:
    """What a slice is called in a verdict.

    >>> slice_name("source", b"web"), slice_name("length", "10-19 words")
    ('source=web', '10-19 words')
    """
    text = value.decode() if isinstance(value, bytes) else str(value)
    return text if column == LENGTH else f"{column}={text}"
