"""What the probabilities of a model are worth, and what was tuned to decide by them: numbers and sentences.

All of it follows from the evaluation examples that are kept. What was chosen on them is measured on parts that it was not
chosen on (cross-fitted), beside what it gives on all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bertline.components.evaluator.predictions.curves import calibration
from bertline.components.evaluator.predictions.rows import EvaluationPredictions
from bertline.models.decisions.decision import CONFIDENCE, EVEN, TEMPERATURE, THRESHOLD, Decision
from bertline.models.decisions.tuning import (
    MIN_ANSWERS,
    answers_of,
    best_abstention,
    best_temperature,
    cross_fitted,
    enough_answered,
    lacking,
    tempered,
    tried_threshold,
)
from bertline.models.tasks.base.task import get_task
from bertline.pipeline.config import DecisionConfig

_UNFIT = "no temperature fits the evaluation examples, as where every prediction is right"


@dataclass(frozen=True)
class Decided:
    """What is reported of it."""

    numbers: dict[str, float]
    sentences: dict[str, str]
    """What it is about -> how it is, in words."""
    refusal: str | None = None
    """Why the model may not be pushed."""


@dataclass(frozen=True)
class Examples:
    """Those with a label: what the model gave, and what is true."""

    probabilities: np.ndarray
    true: np.ndarray
    decision: Decision

    @classmethod
    def of(cls, rows: EvaluationPredictions) -> Examples | None:
        """None of a task that gives no probabilities of classes."""
        if not get_task(rows.description.task).serving.decides:
            return None
        kept = rows.weight() > 0
        if not kept.any():
            return None
        return cls(rows.prediction()[kept].astype(np.float64), rows.label()[kept], rows.description.decision)

    @property
    def several(self) -> bool:
        return self.true.ndim == 2

    def uncalibrated(self) -> np.ndarray:
        """As they were before the logits were divided."""
        return tempered(self.probabilities, 1 / self.decision.temperature, self.several)

    def reliability(self, probabilities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of each answer its probability, and whether it is right; of several labels, each is an answer."""
        if self.several:
            return probabilities.ravel(), self.true.ravel() > 0
        return probabilities.max(axis=1), probabilities.argmax(axis=1) == self.true

    def error(self, probabilities: np.ndarray) -> float:
        return calibration(*self.reliability(probabilities)).error

    def answers(self) -> tuple[np.ndarray, np.ndarray]:
        """Of each example the probability of the class that is answered, and whether it is right."""
        return answers_of(self.probabilities, self.true, self.decision)


def decided(rows: EvaluationPredictions, settings: DecisionConfig) -> Decided:
    """Args: settings: what was asked for."""
    examples = Examples.of(rows)
    if examples is None:
        return Decided({}, {})
    numbers: dict[str, float] = {}
    sentences: dict[str, str] = {}
    lack = lacking(examples.true, examples.decision.positive)
    for what, found in (
        ("calibration", _calibration(examples, settings, lack.get(TEMPERATURE, _UNFIT))),
        ("threshold", _threshold(examples, settings, lack.get(THRESHOLD, ""))),
    ):
        if found:
            numbers |= found[0]
            sentences[what] = found[1]
    refusal = None
    if settings.abstain:
        told, sentence, refusal = _abstention(examples, settings.abstain.precision, lack.get(CONFIDENCE))
        numbers |= told
        sentences["abstention"] = sentence
    return Decided(numbers, sentences, refusal)


def _calibration(examples: Examples, settings: DecisionConfig, why_not: str) -> tuple[dict[str, float], str]:
    temperature = examples.decision.temperature
    before = examples.uncalibrated()
    numbers = {"temperature": temperature, "ece_before": examples.error(before)}
    if temperature == 1.0:
        why = why_not if settings.calibration else "evaluation.calibration is off"
        return numbers, f"temperature 1: {why}; expected calibration error {numbers['ece_before']:.4f}"

    def fitted(places: np.ndarray) -> float:
        return best_temperature(before[places], examples.true[places]) or 1.0

    apart = cross_fitted(len(before), fitted, lambda places, found: tempered(before[places], found, examples.several))
    numbers |= {"ece_after": examples.error(examples.probabilities), "ece_after_cross_fitted": examples.error(apart)}
    return numbers, (
        f"temperature {temperature:.3f}; expected calibration error {numbers['ece_before']:.4f} before, and"
        f" {numbers['ece_after']:.4f} after on the examples that it was fitted on"
        f" ({numbers['ece_after_cross_fitted']:.4f} cross-fitted)"
    )


def _threshold(examples: Examples, settings: DecisionConfig, why_not: str) -> tuple[dict[str, float], str] | None:
    if settings.decision == "argmax":
        return None
    threshold = examples.decision.threshold
    if threshold is None and why_not:
        return {}, f"0.5: {why_not}"
    tried = tried_threshold(examples.probabilities, examples.true, examples.decision.positive, threshold)
    name = "micro_f1" if examples.several else "f1"
    numbers = {
        "threshold": EVEN if threshold is None else threshold,
        f"{name}_at_0.5": tried.at_half,
        f"{name}_at_threshold": tried.at_half if threshold is None else tried.at_value,
        f"{name}_cross_fitted": tried.cross_fitted,
    }
    if threshold is None:
        return numbers, (
            f"0.5: no other is better cross-fitted ({name} {tried.cross_fitted:.4f} cross-fitted,"
            f" {tried.at_half:.4f} at 0.5)"
        )
    return numbers, (
        f"{threshold:.4f} instead of 0.5; {name} {tried.at_half:.4f} at 0.5, and {tried.at_value:.4f} at it on the"
        f" examples that it was chosen on ({tried.cross_fitted:.4f} cross-fitted)"
    )


def _abstention(examples: Examples, precision: float, why_not: str | None) -> tuple[dict[str, float], str, str | None]:
    """Numbers, how it is in words, and why the model is refused."""
    if why_not:
        sentence = f"no confidence can be chosen for a precision of {precision:g}: {why_not}"
        return {}, sentence, f"evaluation.abstain: {sentence}; add evaluation examples"
    given, right = examples.answers()
    confidence = examples.decision.confidence
    if confidence is None:
        best = max(enough_answered(given, right), key=lambda one: (one.precision, one.coverage))
        sentence = (
            f"no confidence reaches a precision of {precision:g} with {MIN_ANSWERS} predictions or more: the best is"
            f" {best.precision:.4f}, on the {best.coverage:.1%} of the evaluation examples with a confidence above"
            f" {best.confidence:.4f}"
        )
        return {}, sentence, f"evaluation.abstain: {sentence}; lower it, or train a better model"

    def chosen(places: np.ndarray) -> float:
        found = best_abstention(given[places], right[places], precision)
        return found.confidence if found else np.inf

    answered = given >= confidence
    apart = cross_fitted(len(given), chosen, lambda places, above: given[places] >= above)
    numbers = {
        "confidence": confidence,
        "coverage": float(answered.mean()),
        "precision": float(right[answered].mean()) if answered.any() else float("nan"),
        "coverage_cross_fitted": float(apart.mean()),
        "precision_cross_fitted": float(right[apart].mean()) if apart.any() else float("nan"),
    }
    return (
        numbers,
        (
            f"none of these below a confidence of {confidence:.4f}: {numbers['coverage']:.1%} of the evaluation examples"
            f" are predicted, {numbers['precision']:.4f} of them right (target {precision:g}; cross-fitted"
            f" {numbers['coverage_cross_fitted']:.1%} and {numbers['precision_cross_fitted']:.4f})"
        ),
        None,
    )


def coverage_curve(rows: EvaluationPredictions, limit: int = 200) -> Iterator[tuple[float, float]]:
    """Coverage and precision at falling confidence, from where enough are answered; none where several labels are."""
    examples = Examples.of(rows)
    if examples is None or examples.several:
        return
    points = enough_answered(*examples.answers())
    for at in np.unique(np.linspace(0, len(points) - 1, min(limit, len(points))).astype(int)) if points else ():
        yield points[at].coverage, points[at].precision
