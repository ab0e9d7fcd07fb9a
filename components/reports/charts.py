"""Charts as tables: a row has a name, its numbers and a plot of them, and all plots of a chart share one axis.

Places are percents of a plot's width, so that it is as wide as there is room while its dots stay round and its text
readable; `charts.html` writes them down. The first rows are seen, and the rest is folded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from bertline.components.reports.drawing import Scale, percents, scale_of, whisker
from bertline.components.reports.results import Results, Score, Slice
from bertline.components.reports.words import interval, measured, shown

SEEN = 10
"""Rows that stand unfolded."""
_FULL = 100
_MAX_SLICES, _MAX_CLASSES = 100, 200  # that a page shows, the largest ones
Found = TypeVar("Found")


def chart(
    scale: Scale,
    rows: Sequence[Mapping[str, Any]],
    lines: Iterable[tuple[str, float | None]] = (),
    *,
    as_fraction: bool = False,
) -> dict[str, Any]:
    """Rows with an axis for them.

    Args:
      lines: kind and value of each line that goes through all rows, as `threshold`; None is not drawn.
    """
    return {
        "ticks": percents(scale, as_fraction=as_fraction),
        "lines": [
            {"kind": kind, "x": scale.place(value, _FULL)}
            for kind, value in lines
            if value is not None and math.isfinite(value)
        ],
        "seen": rows[:SEEN],
        "folded": rows[SEEN:],
    }


def bar(scale: Scale, value: float | None, low: float | None = None, high: float | None = None) -> dict[str, Any] | None:
    """From 0, or from where the scale begins, to a value, with its interval."""
    found = whisker(scale, value, low, high, _FULL)
    if found is None:
        return None
    begin, end = sorted((scale.place(0.0, _FULL), found["at"]))
    return {**found, "x": begin, "width": round(max(0.4, end - begin), 1)}


def scale_from_zero(values: Iterable[float | None]) -> Scale:
    """For bars: one that ends at 1 where all values are fractions, and more than a half is among them."""
    known = [value for value in values if value is not None and math.isfinite(value)] or [0.0]
    low, high = min(0.0, *known), max(0.0, *known)
    if 0.5 < high <= 1:
        high = 1.0
    return Scale(low, high if high > low else low + 1.0)


def score_chart(score: Score) -> dict[str, Any]:
    """One metric by itself: its interval, its threshold and the model that was pushed before."""
    scale = scale_of([score.value, score.low, score.high, score.bound, score.before], margin=0.15)
    return {
        **chart(scale, (), [("threshold", score.bound), ("before", score.before)]),
        "bar": whisker(scale, score.value, score.low, score.high, _FULL),
    }


def baseline_chart(results: Results) -> dict[str, Any] | None:
    """The first metric that a baseline has: of this model, of the one before and of simple baselines; None without any."""
    measured_ones = {name for found in results.baselines.values() for name in found}
    score = next((score for score in results.scores if score.metric in measured_ones), None)
    if score is None:
        return None
    others = {name: found.get(score.metric) for name, found in results.baselines.items()}
    if score.before is not None:
        others["pushed before"] = score.before
    known = {name: value for name, value in others.items() if value is not None}
    is_lower = score.metric in results.less_is_better
    scale = scale_from_zero([score.value, score.low, score.high, score.bound, *known.values()])
    rows = [
        {
            "name": "this model",
            "value": measured(score.value),
            "interval": interval(score.low, score.high),
            "bar": bar(scale, score.value, score.low, score.high),
            "colour": 0,
        },
        *(
            {"name": name, "value": shown(value), "interval": "", "bar": bar(scale, value), "colour": 7}
            for name, value in sorted(known.items(), key=lambda item: item[1] if is_lower else -item[1])
        ),
    ]
    return {
        **chart(scale, rows, [("threshold", score.bound)]),
        "metric": score.metric,
        "is_lower": is_lower,
        "headings": [("", "name"), (score.metric, "number")],
        "key": [] if score.bound is None else [("threshold", f"threshold, {score.bound:g}")],
    }


def slice_charts(results: Results) -> Iterator[dict[str, Any]]:
    """One a metric, those with a threshold first, each on a scale of its own; the worst slices first."""
    slices = largest(results.slices, [part.rows for part in results.slices], _MAX_SLICES)
    for overall in results.scores:
        is_lower = overall.metric in results.less_is_better
        found = [(part, score) for part in slices for score in part.scores if score.metric == overall.metric]
        if not found:
            continue
        ends = [end for _, score in found for end in (score.value, score.low, score.high)]
        thresholds = [score.bound for _, score in found if score.bound is not None]
        scale = scale_of([*ends, overall.value, *thresholds])
        # What is too small to be judged is mostly noise, and is no worst slice.
        found.sort(key=lambda pair: (not pair[0].judged, badness(pair[1].value, is_lower)))
        yield {
            **chart(
                scale,
                [_slice_row(part, score, scale) for part, score in found],
                [("overall", overall.value), ("threshold", thresholds[0] if thresholds else None)],
            ),
            "metric": overall.metric,
            "is_lower": is_lower,
            "headings": [("slice", "name"), ("examples", "number"), (overall.metric, "number")],
            "key": [
                ("interval", "value with its interval"),
                ("overall", f"all examples, {measured(overall.value)}"),
                *([("threshold", f"threshold of slices, {thresholds[0]:g}")] if thresholds else []),
            ],
        }


def slices_left_out(results: Results) -> int:
    return max(0, len(results.slices) - _MAX_SLICES)


def _slice_row(part: Slice, score: Score, scale: Scale) -> dict[str, Any]:
    return {
        "name": part.name,
        "count": f"{part.rows:,}",
        "is_small": not part.judged,
        "value": measured(score.value),
        "interval": interval(score.low, score.high),
        "keeps": score.keeps,
        "bar": whisker(scale, score.value, score.low, score.high, _FULL),
    }


def class_chart(results: Results) -> dict[str, Any] | None:
    """Precision, recall and F1 of each class, the worst first; None for a task without classes."""
    if not results.classes:
        return None
    counts = [list(found.values())[-1] or 0 for found in results.classes.values()]
    kept = largest(tuple(results.classes.items()), counts, _MAX_CLASSES)
    names = list(kept[0][1])
    scale = Scale(0.0, 1.0)
    rows = []
    for name, scores in sorted(kept, key=_class_badness):
        *values, counted = scores.values()
        rows.append(
            {
                "name": name,
                "cells": [*map(measured, values), "–" if counted is None else f"{counted:,.0f}"],
                "marks": [
                    {"name": of, "x": scale.place(value, _FULL)}
                    for of, value in zip(names, values, strict=False)
                    if value is not None
                ],
            }
        )
    return {
        **chart(scale, rows),
        "headings": [("class", "name"), *((name, "number") for name in [*names[:-1], "examples"])],
        "key": [(name, name) for name in names[:-1]],
        "left_out": len(results.classes) - len(kept),
    }


def _class_badness(item: tuple[str, Mapping[str, float | None]]) -> tuple[bool, float]:
    """By the last score before the count, which is F1; of a class without an example nothing is known, so it comes last."""
    *values, counted = item[1].values()
    return not counted, badness(values[-1] if values else None, False)


def badness(value: float | None, is_lower: bool) -> float:
    """Sorts the worst first; what is undefined goes before all."""
    if value is None:
        return -math.inf
    return -value if is_lower else value


def largest(found: Sequence[Found], counts: Sequence[float], most: int) -> list[Found]:
    """Those that count most, in their own order."""
    kept = set(sorted(range(len(found)), key=lambda at: -counts[at])[:most])
    return [each for at, each in enumerate(found) if at in kept]


def fractions(
    caption: str,
    heading: str,
    splits: Sequence[str],
    rows: Sequence[tuple[str, Sequence[tuple[str, float | None]]]],
    note: str = "",
) -> dict[str, Any]:
    """How often names are there, with a bar for each split.

    Args:
      rows: a name, and for each split its count and which fraction of all that is; None where it is not known.
    """
    most = max((fraction for _, cells in rows for _, fraction in cells if fraction is not None), default=0.0)
    scale = Scale(0.0, most or 1.0)

    def row(name: str, cells: Sequence[tuple[str, float | None]]) -> dict[str, Any]:
        return {
            "name": name,
            "cells": [
                {"count": count, "share": "" if fraction is None else f"{fraction:.1%}"} for count, fraction in cells
            ],
            "bars": [(bar(scale, fraction), colour) for colour, (_, fraction) in enumerate(cells)],
        }

    return {
        **chart(scale, [row(*each) for each in rows], as_fraction=True),
        "caption": caption,
        "heading": heading,
        "splits": list(splits),
        "headings": [(heading, "name"), *((split, "number") for split in splits)],
        "key": [(f"run-{colour}", split) for colour, split in enumerate(splits)],
        "left_out": note,
    }
