"""What a model's probabilities are worth, drawn: how often answers of each are right, and coverage against precision."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from bertline.components.evaluator.predictions.curves import calibration
from bertline.components.evaluator.predictions.decisions import Examples, coverage_curve
from bertline.components.evaluator.predictions.rows import EvaluationPredictions
from bertline.components.reports.drawing import Scale
from bertline.pipeline.config import Frozen

Point = tuple[float, float]
WIDTH, HEIGHT = 320, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 8, 8, 40


class Line(Frozen):
    name: str
    points: tuple[Point, ...]


class Certainty(Frozen):
    reliability: tuple[Line, ...]
    """Mean probability of the answers of each bin, and the fraction of them that is right; before and after calibration."""
    coverage: tuple[Point, ...] = ()
    """Fraction of the examples that are answered, and the precision of these answers; none of several labels."""
    chosen: Point | None = None
    """Of the confidence that `evaluation.abstain` has chosen."""

    @classmethod
    def of(cls, rows: EvaluationPredictions) -> Certainty | None:
        """None of a task that gives no probabilities of classes."""
        examples = Examples.of(rows)
        if examples is None:
            return None
        is_calibrated = examples.decision.temperature != 1
        lines = {"before calibration": examples.uncalibrated()} if is_calibrated else {}
        lines["after calibration" if is_calibrated else "not calibrated"] = examples.probabilities
        chosen = None
        if examples.decision.confidence is not None and not examples.several:
            given, right = examples.answers()
            answered = given >= examples.decision.confidence
            chosen = (float(answered.mean()), float(right[answered].mean())) if answered.any() else None
        return cls(
            reliability=tuple(Line(name=name, points=_bins(*examples.reliability(given))) for name, given in lines.items()),
            coverage=tuple(coverage_curve(rows)),
            chosen=chosen,
        )


def _bins(probabilities: np.ndarray, right: np.ndarray) -> tuple[Point, ...]:
    found = calibration(probabilities, right)
    return tuple(
        (float(x), float(y)) for x, y, count in zip(found.confidence, found.accuracy, found.counts, strict=True) if count
    )


def charts(found: Certainty) -> list[dict[str, Any]]:
    """Each ready to be drawn: lines, ticks, what the axes are, and the same in words."""
    whole = Scale(0.0, 1.0)
    after = found.reliability[-1].points
    reliability = _chart(
        "Reliability: on the diagonal, a probability is how often such an answer is right",
        "probability of the answer",
        "fraction that is right",
        whole,
        [Line(name="as it should be", points=((0.0, 0.0), (1.0, 1.0))), *found.reliability],
    )
    reliability["told"] = "; ".join(f"{x:.2f}: {y:.2f} right" for x, y in after)
    if not found.coverage:
        return [reliability]
    least = min(y for _, y in found.coverage)
    scale = Scale(min(0.95, math.floor(least * 20) / 20), 1.0)
    coverage = _chart(
        "Coverage against precision, as the confidence that it takes to be answered falls",
        "coverage: fraction of the examples that is answered",
        "precision of these answers",
        scale,
        [Line(name="precision", points=found.coverage)],
        found.chosen,
    )
    some = [found.coverage[at] for at in sorted({0, len(found.coverage) // 2, len(found.coverage) - 1})]
    coverage["told"] = "; ".join(f"{x:.0%} answered, {y:.3f} of them right" for x, y in some)
    return [reliability, coverage]


def _chart(
    title: str, x_label: str, y_label: str, scale: Scale, lines: Sequence[Line], chosen: Point | None = None
) -> dict[str, Any]:
    """Args: scale: of the y-axis; the x-axis is from 0 to 1."""

    def place(point: Point) -> Point:
        x = _LEFT + point[0] * (WIDTH - _LEFT - _RIGHT)
        return round(x, 1), round(HEIGHT - _BOTTOM - scale.place(point[1], HEIGHT - _TOP - _BOTTOM), 1)

    first_is_ideal = len(lines) > 1
    drawn = [
        {
            "name": line.name,
            "is_ideal": first_is_ideal and at == 0,
            "colour": max(0, at - first_is_ideal),
            "points": " ".join(f"{x},{y}" for x, y in map(place, line.points)),
            "dots": [place(point) for point in line.points]
            if len(line.points) <= 10 and (at or not first_is_ideal)
            else [],
        }
        for at, line in enumerate(lines)
    ]
    steps = np.linspace(scale.begin, scale.end, 5)
    return {
        "title": title,
        "x_label": x_label,
        "y_label": y_label,
        "lines": drawn,
        "legend": [line for line in drawn if len(lines) > 1],
        "x_ticks": [{"at": place((value, scale.begin))[0], "text": f"{value:g}"} for value in (0, 0.25, 0.5, 0.75, 1)],
        "y_ticks": [{"at": place((0, float(value)))[1], "text": f"{value:.3g}"} for value in steps],
        "chosen": place(chosen) if chosen else None,
        "chosen_told": f"what was chosen: {chosen[0]:.1%} answered, {chosen[1]:.4f} of them right" if chosen else "",
        "box": {"left": _LEFT, "right": WIDTH - _RIGHT, "top": _TOP, "bottom": HEIGHT - _BOTTOM},
    }
