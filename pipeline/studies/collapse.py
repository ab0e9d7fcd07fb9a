"""Which trainings have collapsed: they ended, or broke off, without having learned anything.

Fine-tuning BERT on few rows goes wrong for some seeds, and a mean over all seeds then describes none of them. A collapsed
run is flagged and never hidden: mean and standard deviation are given with it and without it. Each criterion is a sentence
with its numbers, so that a reader may disagree.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

_EDGE_SHARE = 0.1
"""Share of the steps, at either end of a training, whose losses are compared."""
_EDGE_STEPS = 5
"""At least so many steps at either end: the loss of a single batch says little."""
_SURE = 2.0
"""A fall counts when it is larger than so many standard errors; smaller ones come about by the order of the batches."""
_SAME_ANSWER = 0.99
"""Share of answers in one class from which on a model is not telling rows apart …"""
_SAME_LABEL = 0.95
"""… unless as large a share of the evaluation labels is of one class, where that may be right."""
_FAR = 0.25
"""Part of the others' median. Seeds of a sound training differ by a few points in a hundred, never by a quarter."""
_FAR_SPREADS = 3.0
"""Where the others themselves lie far apart, being apart is nothing special: so many of their standard deviations."""
_ENOUGH_OTHERS = 2
"""Of two runs alone nobody knows which one is odd."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What is known of one training."""

    losses: Sequence[float] = ()
    """Training loss of each step."""
    value: float | None = None
    """The metric that runs are compared by, on the evaluation examples; none where the training broke off."""
    confusion: Sequence[Sequence[int]] = ()
    """Evaluation examples of each true class (first index) by answered class; empty for a task without classes."""
    broke_off: str | None = None
    """What stopped the training, as a loss that is not finite does."""


def find_collapsed(
    runs: Mapping[int, Evidence], metric: str, better: Literal["higher", "lower"] = "higher"
) -> dict[int, list[str]]:
    """Seed -> the reasons for which its run counts as collapsed; sound runs are left out."""
    found = {seed: reasons for seed, evidence in runs.items() if (reasons := _alone(evidence, metric))}
    # The others are compared with sound ones only: two collapsed runs would make each other look ordinary.
    sound = {seed: run.value for seed, run in runs.items() if seed not in found and run.value is not None}
    for seed, value in sound.items():
        others = [other for another, other in sound.items() if another != seed]
        if reason := _far_from(value, others, metric, better):
            found[seed] = [reason]
    return {seed: found[seed] for seed in runs if seed in found}


def _alone(run: Evidence, metric: str) -> list[str]:
    """What can be said without looking at other runs."""
    if run.broke_off:
        return [run.broke_off]
    reasons = (_no_number(run.value, metric), _no_fall(run.losses), _one_answer(run.confusion))
    return [reason for reason in reasons if reason]


def _no_number(value: float | None, metric: str) -> str | None:
    """Constant answers have no correlation with anything, and tags that are all `O` no precision."""
    return f"{metric} is {value}" if value is None or not math.isfinite(value) else None


def _no_fall(losses: Sequence[float]) -> str | None:
    if not all(math.isfinite(loss) for loss in losses):
        return "the training loss is not finite"
    steps = max(_EDGE_STEPS, int(len(losses) * _EDGE_SHARE))
    if len(losses) < 2 * steps:
        return None  # too short a training to be judged by its losses
    first, last = losses[:steps], losses[-steps:]
    begin, end = statistics.fmean(first), statistics.fmean(last)
    error = math.sqrt((statistics.variance(first) + statistics.variance(last)) / steps)
    if begin - end > _SURE * error:
        return None
    return f"the training loss did not clearly fall: {begin:.4f} in the first {steps} steps, {end:.4f} in the last"


def _one_answer(confusion: Sequence[Sequence[int]]) -> str | None:
    labels, answers = [sum(row) for row in confusion], [sum(column) for column in zip(*confusion, strict=True)]
    rows = sum(labels)
    if not rows:
        return None
    same_answer, same_label = max(answers) / rows, max(labels) / rows
    if same_answer < _SAME_ANSWER or same_label >= _SAME_LABEL:
        return None
    return f"{same_answer:.1%} of the predictions are one class, but at most {same_label:.1%} of the evaluation labels"


def _far_from(value: float, others: Sequence[float], metric: str, better: str) -> str | None:
    if len(others) < _ENOUGH_OTHERS:
        return None
    middle = statistics.median(others)
    distance = middle - value if better == "higher" else value - middle
    if middle <= 0 or distance <= max(_FAR * middle, _FAR_SPREADS * statistics.stdev(others)):
        return None
    return f"{metric} {value:.4f} is far from {middle:.4f}, the median of the other seeds"
