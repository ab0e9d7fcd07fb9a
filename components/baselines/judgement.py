"""Whether a model loses to a baseline, by more than chance would have it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from bertline.components.baselines.data import MIN_EXAMPLES
from bertline.components.baselines.measurement import Measured
from bertline.components.baselines.probe import NAME as PROBE
from bertline.components.baselines.scores import Baseline, Score, only
from bertline.components.evaluator.predictions.scores import scorer
from bertline.models.tasks.base.task import Metric, Task
from bertline.pipeline.config import EvaluationConfig

_DRAWS = 200


def lost_to(
    measured: Measured, task: Task, settings: EvaluationConfig, *, long_enough: bool = False, itself: str = ""
) -> list[str]:
    """A sentence where the model is worse than the best baseline, and none otherwise.

    Judged is the metric that the thresholds name first. The difference must be larger than its standard error, by a paired
    bootstrap: of evaluation examples that are drawn again, the same ones for both.

    Args:
      long_enough: whether the model was trained until nothing became better, so that more epochs are no way out.
      itself: the baseline that the model is, where it is one: it cannot lose to that.
    """
    metric = next(iter(settings.thresholds))
    others = replace(measured, baselines=tuple(one for one in measured.baselines if one.name != itself))
    best = best_by(others, metric, task.evaluation.metrics[metric])
    if best is None or measured.rows is None:
        return []
    described = task.evaluation.metrics[metric]
    source = task.evaluation.metrics[described.of] if described.of else described
    counted = int(np.count_nonzero(measured.rows.weight(source.output) > 0))
    if counted < MIN_EXAMPLES:
        return []
    of_model = scorer(only(measured.rows, metric))
    value = of_model(np.ones(len(measured.rows), np.int64))[metric]
    limit = measured.metrics[best.name][metric]
    behind = limit - value if described.better == "higher" else value - limit
    if not behind > 0:  # NaN keeps no threshold, and is refused by that
        return []
    error = standard_error(of_model, best.score, metric, len(measured.rows))
    if not behind > error:
        return []
    return [
        f"{metric} {value:.4f} is {'below' if described.better == 'higher' else 'above'} {limit:.4f} of the baseline"
        f" {best.name} on the same {counted:,} examples, by more than the standard error of the difference, {error:.4f}"
        f" (paired bootstrap); {_ways_out(task, best.name, long_enough)}, or push anyway with"
        " evaluation.must_beat_baselines: false"
    ]


def best_by(measured: Measured, metric: str, described: Metric) -> Baseline | None:
    """The best baseline by a metric; None where none has it."""
    able = [baseline for baseline in measured.baselines if metric in measured.metrics.get(baseline.name, {})]
    sign = 1 if described.better == "higher" else -1
    return max(able, key=lambda baseline: sign * measured.metrics[baseline.name][metric], default=None)


def standard_error(one: Score, other: Score, metric: str, rows: int) -> float:
    """Of the difference of two scores on the same rows, by drawing as many rows as there are, with repetition."""
    chance = np.random.default_rng(0)
    differences = []
    for _ in range(_DRAWS):
        counts = np.bincount(chance.integers(rows, size=rows), minlength=rows)
        differences.append(one(counts)[metric] - other(counts)[metric])
    known = [difference for difference in differences if math.isfinite(difference)]
    return float(np.std(known)) if known else math.inf


def _ways_out(task: Task, baseline: str, long_enough: bool) -> str:
    if baseline == PROBE:
        return (
            "that is the linear model that fine-tuning began with, so fine-tuning has done harm: leave out"
            " training.restore_best and training.monitor, or set them to true and to this metric"
        )
    if long_enough:
        return "try a checkpoint of this language and kind of text (model.checkpoint), more labelled examples"
    checkpoint = "" if task.model.make_encoder else "a checkpoint (model.checkpoint), "
    return f"try {checkpoint}more epochs (training.epochs)"
