"""What is tuned on evaluation examples when a training is over: a temperature, a threshold, a confidence.

Everything follows from the probabilities that the model gave and from what is true, as arrays: `true` is [examples] ids of
classes, of which one is right, or [examples, labels] flags, of which any may be. Each choice is one number, so that few
examples determine it; what it is worth is measured on examples that it was not chosen on (`cross_fitted`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bertline.models.decisions.decision import CONFIDENCE, EVEN, TEMPERATURE, THRESHOLD, Decision
from bertline.pipeline.config import DecisionConfig
from bertline.pipeline.core.errors import BertlineError

if TYPE_CHECKING:
    from bertline.models.tasks.base.task import Task

MIN_EXAMPLES = 50
"""From which anything is tuned."""
MIN_OF_EACH = 10
"""Examples with the positive class (or any label) and without, from which a threshold is tuned."""
MIN_ANSWERS = 20
"""That are to be left where the model abstains: of fewer, a precision says little."""
FOLDS = 5
_COLDEST, _HOTTEST = 0.05, 20.0
_MAX_NUMBERS = 500_000
"""Probabilities that a temperature is fitted on: one number needs no more, and the search takes a second."""
_LEAST = 1e-30
"""A probability of 0 in float32 was a little more."""


class Abstention(NamedTuple):
    """What becomes of the answers above a confidence."""

    confidence: float
    precision: float
    coverage: float
    """Fraction of the examples that are answered."""


def logits_of(probabilities: np.ndarray, several: bool) -> np.ndarray:
    """Logits that have these probabilities.

    Args:
      several: whether any number of labels may be true.
    """
    logs = np.log(np.clip(probabilities.astype(np.float64), _LEAST, 1))
    return logs - np.log(np.clip(1 - probabilities.astype(np.float64), 1e-8, 1)) if several else logs


def tempered(probabilities: np.ndarray, temperature: float, several: bool) -> np.ndarray:
    """The probabilities of a model whose logits are divided by the temperature.

    >>> tempered(np.asarray([[0.8, 0.2]]), 2.0, several=False).round(3).tolist()
    [[0.667, 0.333]]
    """
    logits = logits_of(probabilities, several) / temperature
    if several:
        return 1 / (1 + np.exp(-logits))
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def best_temperature(probabilities: np.ndarray, true: np.ndarray) -> float | None:
    """That with the least cross entropy; None where none is, as where every answer is right: the surer, the better."""
    from scipy.optimize import minimize_scalar

    several = true.ndim == 2
    right = (probabilities > EVEN) == (true > 0) if several else probabilities.argmax(axis=1) == true
    if right.all():  # rounding would still find a least cross entropy, by which the model is surer than it can know
        return None
    step = max(1, probabilities.size // _MAX_NUMBERS)
    logits, true = logits_of(probabilities[::step], several), true[::step]

    def cross_entropy(log_temperature: float) -> float:
        scaled = logits / np.exp(log_temperature)
        if several:
            return float(np.logaddexp(0, np.where(true > 0, -scaled, scaled)).mean())
        top = scaled.max(axis=1)
        of_true = scaled[np.arange(len(true)), true]
        return float((np.log(np.exp(scaled - top[:, np.newaxis]).sum(axis=1)) + top - of_true).mean())

    ends = np.log([_COLDEST, _HOTTEST])
    found = float(minimize_scalar(cross_entropy, bounds=ends, method="bounded", options={"xatol": 1e-4}).x)
    return float(np.exp(found)) if ends[0] + 0.01 < found < ends[1] - 0.01 else None


def best_threshold(probabilities: np.ndarray, true: np.ndarray) -> float:
    """That above which answers have the highest F1, midway between two probabilities; of equals that nearest 0.5.

    Args:
      probabilities, true: of any shape: of the positive class, or of all labels together.

    >>> best_threshold(np.asarray([0.9, 0.4, 0.3, 0.1]), np.asarray([1, 1, 0, 0]))
    0.35
    """
    given = probabilities.ravel().astype(np.float64)
    order = np.argsort(-given, kind="stable")
    given, hits = given[order], np.cumsum(true.ravel()[order] > 0)
    f1 = 2 * hits / (np.arange(1, len(given) + 1) + hits[-1])
    below = np.append(given[1:], 0.0)
    f1 = np.where(given > below, f1, -1.0)  # equal probabilities cannot be told apart
    middles = (given + below) / 2
    best = np.flatnonzero(f1 >= f1.max() - 1e-12)
    return float(middles[best[np.argmin(np.abs(middles[best] - EVEN))]])


def abstentions(confidence: np.ndarray, right: np.ndarray) -> list[Abstention]:
    """Every confidence that parts the examples, the highest first; the last one answers all of them."""
    order = np.argsort(-confidence, kind="stable")
    given = confidence[order].astype(np.float64)
    precision = np.cumsum(right[order]) / np.arange(1, len(given) + 1)
    below = np.append(given[1:], -1.0)
    places = np.flatnonzero(given > below)
    return [
        Abstention(max(0.0, float(given[at] + below[at]) / 2), float(precision[at]), (at + 1) / len(given)) for at in places
    ]


def best_abstention(confidence: np.ndarray, right: np.ndarray, precision: float) -> Abstention | None:
    """The one that answers most, of those with the precision; None where none has it."""
    fitting = [one for one in enough_answered(confidence, right) if one.precision >= precision]
    return fitting[-1] if fitting else None


def enough_answered(confidence: np.ndarray, right: np.ndarray) -> list[Abstention]:
    return [one for one in abstentions(confidence, right) if one.coverage * len(right) >= MIN_ANSWERS - 0.5]


def cross_fitted(
    count: int, choose: Callable[[np.ndarray], Any], apply: Callable[[np.ndarray, Any], np.ndarray]
) -> np.ndarray:
    """What comes of a choice on examples that it was not made on: each fifth by what the other four choose.

    Args:
      choose: (places of examples) -> what is chosen on them.
      apply: (places of examples, what was chosen) -> a value for each of them.
    """
    folds = np.arange(count) % FOLDS
    parts = {fold: np.flatnonzero(folds == fold) for fold in range(FOLDS)}
    found = [apply(places, choose(np.flatnonzero(folds != fold))) for fold, places in parts.items()]
    return np.concatenate(found)[np.argsort(np.concatenate(list(parts.values())), kind="stable")]


def lacking(true: np.ndarray, positive: int = -1) -> dict[str, str]:
    """What cannot be tuned by so few examples -> why."""
    if len(true) < MIN_EXAMPLES:
        few = f"there are {len(true)} evaluation examples, and it takes {MIN_EXAMPLES}"
        return {TEMPERATURE: few, THRESHOLD: few, CONFIDENCE: few}
    flags = true.ravel() > 0 if true.ndim == 2 else true == positive % 2
    least = min(int(flags.sum()), int((~flags).sum()))
    if least < MIN_OF_EACH:
        what = "of any label" if true.ndim == 2 else "of one of the classes"
        return {THRESHOLD: f"there are {least} evaluation examples {what}, and it takes {MIN_OF_EACH}"}
    return {}


def tune(probabilities: np.ndarray, true: np.ndarray, settings: DecisionConfig, positive: int) -> dict[str, float]:
    """What the settings ask for, as far as the examples determine it, by the names of `models/decisions/decision.py`.

    Args:
      probabilities: [examples, classes], of a model that nothing was tuned for.
      positive: the place of the positive class of two.
    """
    several, lack = true.ndim == 2, lacking(true, positive)
    found: dict[str, float] = {}
    if settings.calibration and TEMPERATURE not in lack and (temperature := best_temperature(probabilities, true)):
        found[TEMPERATURE] = temperature
        probabilities = tempered(probabilities, temperature, several)
    if settings.decision == "tuned" and THRESHOLD not in lack:
        threshold = tried_threshold(probabilities, true, positive)
        if threshold.cross_fitted > threshold.at_half:
            found[THRESHOLD] = threshold.value
    if settings.abstain and CONFIDENCE not in lack:
        decision = Decision(positive=positive, threshold=found.get(THRESHOLD))
        confidence, right = answers_of(probabilities, true, decision)
        if abstention := best_abstention(confidence, right, settings.abstain.precision):
            found[CONFIDENCE] = abstention.confidence
    return found


def threshold_of(probabilities: np.ndarray, true: np.ndarray, positive: int) -> float:
    """The best one of the positive class of two, or of all labels together.

    One for all labels: a rare label has too few examples for a threshold of its own, and would fit their noise.
    """
    return best_threshold(*_of_positive(probabilities, true, positive))


def _of_positive(probabilities: np.ndarray, true: np.ndarray, positive: int) -> tuple[np.ndarray, np.ndarray]:
    if true.ndim == 2:
        return probabilities, true > 0
    return probabilities[:, positive % 2], true == positive % 2


class Tried(NamedTuple):
    """A threshold, and F1 by it: of the positive class, or over all labels."""

    value: float
    at_half: float
    """F1 at 0.5."""
    at_value: float
    """On the examples that it was chosen on."""
    cross_fitted: float
    """On examples that it was not chosen on: what decides whether it is taken."""


def tried_threshold(probabilities: np.ndarray, true: np.ndarray, positive: int, value: float | None = None) -> Tried:
    """What the best threshold gives.

    Args:
      value: the threshold, where it has been chosen.
    """
    given, flags = _of_positive(probabilities, true, positive)

    def f1(taken: np.ndarray) -> float:
        return float(2 * (taken & flags).sum() / max(1, taken.sum() + flags.sum()))

    def taken(places: np.ndarray, above: float) -> np.ndarray:
        return given[places] > np.float32(above)

    every = np.arange(len(true))
    value = best_threshold(given, flags) if value is None else value
    apart = cross_fitted(len(true), lambda some: best_threshold(given[some], flags[some]), taken)
    return Tried(value, f1(taken(every, EVEN)), f1(taken(every, value)), f1(apart))


def answers_of(probabilities: np.ndarray, true: np.ndarray, decision: Decision) -> tuple[np.ndarray, np.ndarray]:
    """Of each example the probability of the class that is answered, and whether it is right."""
    chosen = replace(decision, confidence=None).classes(probabilities)
    return probabilities[np.arange(len(true)), chosen], chosen == true


def check_deciding(task: Task, settings: DecisionConfig, labels: int = 0) -> None:
    """Refuses what a task cannot decide by.

    Args:
      labels: how many there are; 0 before they are known.
    """
    one_of_several = task.serving.decides and task.preprocessing.label == "class"
    if settings.abstain and not one_of_several:
        several = "; of several labels none is answered where none is likely" if task.serving.decides else ""
        raise BertlineError(
            f"evaluation.abstain: the task {task.name} does not answer one of several classes{several}; leave it out."
        )
    if settings.decision == "tuned" and not task.serving.decides:
        raise BertlineError(f"evaluation.decision: the task {task.name} has no threshold; leave it out.")
    if settings.decision == "tuned" and one_of_several and labels > 2:
        raise BertlineError(
            f"evaluation.decision: a threshold is of two classes, and there are {labels}; leave it out. Where no class is"
            " likely, evaluation.abstain answers none of them."
        )


def gathered(batches: Iterable[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities and what is true of all examples with a weight.

    Args:
      batches: probabilities, what is true, and weights.
    """
    parts = [(given[weight > 0], true[weight > 0]) for given, true, weight in batches]
    return np.concatenate([given for given, _ in parts]), np.concatenate([true for _, true in parts])
