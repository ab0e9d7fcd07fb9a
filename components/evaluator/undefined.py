"""Why a metric has no value on the evaluation examples, and what can be done about it.

The scores themselves say when they are undefined (`models/metrics/scores.py`); what the examples lack is said here, for the
summary, the report and the sentence that refuses a threshold.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from bertline.models.metrics.accumulators import family_of
from bertline.models.tasks.base.task import Task

_SHOWN_CLASSES = 5
_WHY = {
    "values": "the labels of the evaluation examples, or the predictions, are all equal; add examples that differ",
    "HasAnswerF1": "no evaluation example has an answer; add some that have",
    "HasAnswerExactMatch": "no evaluation example has an answer; add some that have",
    "NoAnswerExactMatch": "every evaluation example has an answer; add some without",
    "entities": "no evaluation example has an entity; add examples with entities to the evaluation data",
    "decisions": "no evaluation example has any class; add labelled examples to the evaluation data",
}
"""A score, or a family of scores -> what is wrong where it has no value."""
_OTHERWISE = "no evaluation example can be measured by it; add evaluation examples with a usable label"


def undefined_metrics(
    metrics: Mapping[str, float],
    task: Task,
    confusion: Sequence[Sequence[int]],
    labels: Sequence[str],
    per_class: Mapping[str, Mapping[str, float]],
) -> dict[str, str]:
    """Each metric without a value -> why, and what to do.

    Args:
      metrics: on all evaluation examples.
      confusion: examples of each true class by predicted class; empty for a task without.
      labels: the classes.
      per_class: scores of each class, the last of which counts its examples, where they do not follow from `confusion`.
    """
    counts: dict[str, float] = {label: sum(row) for label, row in zip(labels, confusion, strict=False)}
    counts = counts or {label: list(scores.values())[-1] for label, scores in per_class.items()}
    absent = [label for label, count in counts.items() if not count]
    found = {}
    for name, value in metrics.items():
        if name in task.evaluation.metrics and math.isnan(value):
            of = task.evaluation.metrics[name].tfma
            found[name] = _WHY.get(of) or _without(absent, len(counts), str(family_of(of)))
    return found


def _without(absent: Sequence[str], classes: int, family: str) -> str:
    if family == "confusion" and 0 < len(absent) < classes:
        listed = ", ".join(map(repr, absent[:_SHOWN_CLASSES]))
        more = f" and {len(absent) - _SHOWN_CLASSES} more" if len(absent) > _SHOWN_CLASSES else ""
        what = f"the class {listed}" if len(absent) == 1 else f"any of the classes {listed}{more}"
        return f"no evaluation example has {what}; add examples of {'it' if len(absent) == 1 else 'them'}"
    return _WHY.get(family, _OTHERWISE)
