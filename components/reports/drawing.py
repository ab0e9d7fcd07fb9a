"""Where bars, whiskers and ticks stand in a plot; templates only write down what is worked out here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from bertline.components.reports.statistics import Bucket, Numbers

WIDTH, HEIGHT = 400, 48  # of a histogram, without its texts
_TOP = 16
_PARTS = 60  # of a plot's width; a bar is not narrower than one
_LONG_TAIL = 3.0
_MAX_TICKS = 5


class Scale(NamedTuple):
    """Which numbers a plot reaches from and to."""

    begin: float
    end: float

    def place(self, value: float, width: float) -> float:
        """Of a value that lies within, in the units of the plot."""
        return round(min(1.0, max(0.0, (value - self.begin) / (self.end - self.begin))) * width, 1)


def percents(scale: Scale, *, as_fraction: bool = False) -> list[dict[str, Any]]:
    """Round numbers of a scale, in percents of its width.

    Args:
      as_fraction: whether they are fractions, which are read as percents.

    >>> [tick["text"] for tick in percents(Scale(0.0, 1.0))]
    ['0', '0.25', '0.5', '0.75', '1']
    """
    rough = (scale.end - scale.begin) / _MAX_TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(size * power for size in (1, 2, 2.5, 5, 10) if size * power >= rough * (1 - 1e-9))
    first, last = math.ceil(scale.begin / step - 1e-9), math.floor(scale.end / step + 1e-9)
    found = []
    for at in range(first, last + 1):
        value = at * step + 0.0  # no minus before a zero
        x = scale.place(value, 100)
        text = f"{value:.3g}" if not as_fraction else f"{100 * value:.3g}%"
        found.append({"x": x, "text": text, "anchor": "start" if x < 4 else "end" if x > 96 else "middle"})
    return found


def scale_of(values: Iterable[float | None], margin: float = 0.05) -> Scale:
    """One that holds all values, with a little room on either side."""
    known = [value for value in values if value is not None and math.isfinite(value)] or [0.0]
    low, high = min(known), max(known)
    room = (high - low or abs(high) or 1.0) * margin
    return Scale(low - room, high + room)


def histogram(found: Mapping[str, Numbers], *, whole: bool) -> dict[str, Any]:
    """The plot of a number in every split, on one scale: the area of a bar is its share of the rows.

    Where a tenth of the values reaches far beyond the rest, the plot ends before, and says so.

    Args:
      whole: whether the values are whole numbers.
    """
    least, most = min(numbers.least for numbers in found.values()), max(numbers.most for numbers in found.values())
    late = max(numbers.buckets[-1].low if numbers.buckets else numbers.most for numbers in found.values())
    is_cut = late > least and most - least > _LONG_TAIL * (late - least)
    end = least + 2 * (late - least) if is_cut else most
    room = 0.5 if whole or end == least else 0.0
    scale = Scale(least - room, end + room)
    splits = {split: _bars(numbers, scale, whole) for split, numbers in found.items()}
    tallest = max((height for bars in splits.values() for *_, height in bars), default=0.0) or 1.0
    return {
        "splits": [
            {
                "name": split,
                "colour": at,
                "told": told(found[split]),
                "bars": [
                    {
                        "x": x,
                        "width": width,
                        "y": round(_TOP + HEIGHT * (1 - height / tallest), 1),
                        "height": round(HEIGHT * height / tallest, 1),
                    }
                    for x, width, height in bars
                ],
            }
            for at, (split, bars) in enumerate(splits.items())
        ],
        "ticks": [
            {"x": scale.place(value, WIDTH), "text": f"{value:,g}", "anchor": anchor}
            for value, anchor in _ticks(scale, least, end)
        ],
        "note": f"The plot ends before the largest, {most:,g}." if is_cut else "",
    }


def told(numbers: Numbers) -> str:
    """A histogram in words."""
    return (
        f"from {numbers.least:,g} to {numbers.most:,g}, median {numbers.median:,g},"
        f" mean {numbers.mean:,.4g} ± {numbers.deviation:,.4g}"
    )


def _bars(numbers: Numbers, scale: Scale, whole: bool) -> list[tuple[float, float, float]]:
    """Place, width and height (a density) of each bar."""
    least_width = max((scale.end - scale.begin) / _PARTS, 1.0 if whole else 0.0)
    given = numbers.buckets or (Bucket(low=numbers.least, high=numbers.most, count=1.0),)
    buckets = joined([bucket for bucket in given if bucket.count > 0], least_width)
    rows = sum(count for *_, count in buckets) or 1.0
    found = []
    for low, high, count in buckets:
        if low >= scale.end:
            continue
        width = max(high - low, least_width)
        middle = (low + high) / 2
        begin, end = (low, high) if high - low >= least_width else (middle - width / 2, middle + width / 2)
        x, right = scale.place(begin, WIDTH), scale.place(end, WIDTH)
        found.append((x, round(max(1.0, right - x - 0.5), 1), count / rows / width))
    return found


def joined(buckets: Sequence[Bucket], least_width: float) -> list[tuple[float, float, float]]:
    """Buckets of at least a width, where there are so wide ones: a number that many rows have fills several of no width.

    >>> joined([Bucket(low=1, high=1, count=5), Bucket(low=1, high=4, count=5), Bucket(low=4, high=9, count=5)], 1.0)
    [(1.0, 4.0, 10.0), (4.0, 9.0, 5.0)]
    """
    found: list[tuple[float, float, float]] = []
    for bucket in buckets:
        low, count = bucket.low, bucket.count
        if found and found[-1][1] - found[-1][0] < least_width:
            low, _, before = found.pop()
            count += before
        found.append((low, bucket.high, count))
    if len(found) > 1 and found[-1][1] - found[-1][0] < least_width:
        (low, _, before), (_, high, count) = found[-2:]
        found[-2:] = [(low, high, before + count)]
    return found


def _ticks(scale: Scale, least: float, end: float) -> list[tuple[float, str]]:
    """Both ends, and round numbers between them that have room."""
    if end == least:
        return [(least, "middle")]
    rough = (end - least) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(size * power for size in (1, 2, 5, 10) if size * power >= rough)
    first = math.ceil(least / step)
    round_ones = [at * step for at in range(first, first + 6)]
    room = (end - least) / 7
    between = [(value, "middle") for value in round_ones if least + room < value < end - room]
    return [(least, "start"), *between, (end, "end")]


def whisker(
    scale: Scale, value: float | None, low: float | None, high: float | None, width: float
) -> dict[str, Any] | None:
    """A value with its interval; None without a value."""
    if value is None or not math.isfinite(value):
        return None
    has_interval = low is not None and high is not None and math.isfinite(low) and math.isfinite(high)
    return {
        "at": scale.place(value, width),
        "low": scale.place(low, width) if has_interval and low is not None else None,
        "high": scale.place(high, width) if has_interval and high is not None else None,
    }
