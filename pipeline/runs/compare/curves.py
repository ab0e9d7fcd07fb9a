"""Learning curves: short enough to be drawn, and drawn in a line of a terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

_BLOCKS = "▁▂▃▄▅▆▇█"
_MAX_POINTS = 400  # a screen has not many more


class Point(NamedTuple):
    step: float
    seconds: float
    """Since the first point of the curve."""
    value: float


class Curve(NamedTuple):
    """One metric over the training, in every run."""

    metric: str
    points: tuple[tuple[Point, ...], ...]
    """Of each run; none where it did not measure this."""


def thinned(measured: Sequence[tuple[int, float, float]], limit: int = _MAX_POINTS) -> tuple[Point, ...]:
    """At most so many points: each is the mean of those that it stands for.

    Args:
      measured: step, seconds since any time, and value, in order. What is not finite is left out.
    """
    finite = [point for point in measured if math.isfinite(point[2])]
    if not finite:
        return ()
    begin = min(seconds for _, seconds, _ in finite)
    size = -(-len(finite) // limit)
    groups = [finite[at : at + size] for at in range(0, len(finite), size)]
    return tuple(
        Point(
            _mean([step for step, _, _ in group]), _mean([at for _, at, _ in group]) - begin, _mean([v for *_, v in group])
        )
        for group in groups
    )


def sparkline(points: Sequence[Point], steps: tuple[float, float], values: tuple[float, float], width: int = 40) -> str:
    """A curve in one line. `steps` and `values` are the bounds of what is drawn, so that several curves can be compared.

    >>> sparkline([Point(1, 0, 3.0), Point(2, 0, 2.0), Point(4, 0, 1.0)], (1, 4), (1.0, 3.0), width=4)
    '█▅▃▁'
    """
    cells: dict[int, list[float]] = {}
    for point in points:
        cells.setdefault(_place(point.step, steps, width), []).append(point.value)
    means = {at: _mean(values) for at, values in cells.items()}
    # Between two points a line is drawn, as in any plot; before the first and after the last there is nothing.
    drawn = [_between(means, at) for at in range(max(means) + 1)] if means else []
    return "".join(" " if value is None else _BLOCKS[_place(value, values, len(_BLOCKS))] for value in drawn)


def _between(means: Mapping[int, float], at: int) -> float | None:
    before = max((place for place in means if place <= at), default=None)
    after = min((place for place in means if place >= at), default=None)
    if before is None or after is None:
        return None
    fraction = (at - before) / (after - before) if after > before else 0.0
    return means[before] + fraction * (means[after] - means[before])


def bounds(curve: Curve) -> tuple[tuple[float, float], tuple[float, float]]:
    """The least and the largest step, and value, of any run."""
    points = [point for run in curve.points for point in run]
    steps, values = [point.step for point in points], [point.value for point in points]
    return (min(steps), max(steps)), (min(values), max(values))


def _place(value: float, between: tuple[float, float], places: int) -> int:
    low, high = between
    if high <= low:
        return 0
    return min(places - 1, max(0, int((value - low) / (high - low) * places)))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
