"""A comparison as one page of HTML that asks for nothing else: no script, font or picture of another file or host."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bertline.components.reports.cards import unbroken
from bertline.components.reports.charts import chart
from bertline.components.reports.confusion import Confusion, matrix
from bertline.components.reports.drawing import Scale, whisker
from bertline.components.reports.page import COLOURS, DASHES, SCRIPT, Page
from bertline.components.reports.page import render as rendered
from bertline.pipeline.runs.compare.comparison import Comparison, Measured, Slice
from bertline.pipeline.runs.compare.curves import Curve
from bertline.pipeline.runs.compare.tables import interval, letter
from bertline.pipeline.runs.listing import number, shown_metrics, when

_HERE = Path(__file__).parent
_MAX_FLIPS = 300  # of each run


def render(comparison: Comparison) -> Page:
    view, data = _view(comparison)
    return rendered(_HERE / "page.html", view, scripts=[SCRIPT, _HERE / "flips.js"], data=data)


def _view(comparison: Comparison) -> tuple[dict[str, Any], dict[str, Any]]:
    """All that the template shows, ready to be shown, and what the scripts read."""
    runs = [_run(comparison, at) for at in range(len(comparison.runs))]
    pipelines = list(dict.fromkeys(run.pipeline for run in comparison.runs if run.pipeline))
    confusions = [_matrix(run, found) for run, found in zip(runs, comparison.confusions, strict=True) if found]
    slices = list(_slice_charts(comparison))
    flips = [
        {"run": at, "text": flip.text, **flip._asdict()}
        for at, found in enumerate(comparison.flips)
        for flip in found[:_MAX_FLIPS]
    ]
    parts = {
        "overview": "Overview",
        "metrics": "Metrics",
        "settings": "Settings",
        **({"slices": "Slices"} if slices else {}),
        **({"flips": "Flipped predictions"} if any(comparison.flips) else {}),
        **({"confusions": "Confusion matrices"} if confusions else {}),
        **({"curves": "Learning curves"} if comparison.curves else {}),
        "runs": "Runs",
    }
    metrics = [_row(measured) for measured in (*comparison.metrics, *comparison.test, *comparison.baselines)]
    view = {
        "title": f"{len(runs)} runs of {', '.join(pipelines) or 'a store'}",
        "parts": list(parts.items()),
        "runs": runs,
        "notes": comparison.notes,
        "cards": [_run_card(run, metrics[0] if metrics else None, at) for at, run in enumerate(runs)],
        "metrics": metrics,
        "explanation": _explanation(comparison),
        "settings": comparison.settings,
        "curves": comparison.curves,
        "slices": slices,
        "flips": flips,
        "became": sorted({flip["became"] for flip in flips}),
        "flips_left_out": sum(max(0, len(found) - _MAX_FLIPS) for found in comparison.flips),
        "confusions": [matrix for matrix in confusions if matrix["rows"]],
        "confusion_notes": [matrix["note"] for matrix in confusions if matrix["note"]],
    }
    return view, chart_data(runs, comparison.curves)


def chart_data(runs: Sequence[Mapping[str, Any]], curves: Sequence[Curve]) -> dict[str, Any]:
    """What the script draws learning curves from."""
    return {
        "runs": [{name: run[name] for name in ("letter", "colour", "dash", "cached")} for run in runs],
        "curves": [{"metric": curve.metric, "points": curve.points} for curve in curves],
    }


def _run(comparison: Comparison, at: int) -> dict[str, Any]:
    run, shared = comparison.runs[at], comparison.shared[at]
    told = "the reference" if at == 0 else "none shared with A"
    if shared:
        told = f"{shared.rows:,} of its {shared.of_run:,} shared with A"
    return {
        **drawn_run(at, run.short_id, run.name, cached=run.was_cached),
        "when": when(run),
        "seconds": "" if run.seconds is None else f"{run.seconds:,.0f}",
        "status": run.status,
        "blessed": {True: "yes", False: "no", None: ""}[run.blessed],
        "pushed": f"v{run.pushed_version}" if run.pushed_version else "",
        "shared": told,
    }


def drawn_run(at: int, short_id: str, name: str, *, cached: bool) -> dict[str, Any]:
    """What tells a run among others apart: by letter, colour and dashes.

    Args:
      cached: whether its training came from the cache, so that the times of its curves are not known.
    """
    return {
        "letter": letter(at),
        "colour": at % COLOURS,
        "dash": at % DASHES,
        "short_id": short_id,
        "name": name,
        "cached": cached,
    }


def _explanation(comparison: Comparison) -> str:
    if not any(change for measured in comparison.metrics for change in measured.changes):
        return "Differences are between what the evaluators measured; there are no intervals, see above."
    return (
        "A difference is measured on the examples that both runs were evaluated on, and has its"
        f" {comparison.level:.0%} interval, by bootstrap over these examples; ▲ and ▼ where it excludes 0. Another"
        " seed of the same training may differ by more."
    )


def _row(measured: Measured) -> dict[str, Any]:
    return {"name": measured.name, "better": measured.better, "cells": list(_cells(measured))}


def _cells(measured: Measured) -> Iterator[dict[str, Any]]:
    for at, (value, change) in enumerate(zip(measured.values, measured.changes, strict=True)):
        difference = change.difference if change else measured.difference(at)
        clear = change is not None and change.is_clear
        rises = difference is not None and difference > 0
        good = rises == (measured.better != "lower")
        yield {
            "value": number(value),
            "change": number(difference, signed=True) if at else "",
            "interval": interval(change) if change else "",
            "verdict": ("better" if good else "worse") if clear else "",
            "rises": rises,
        }


def _slice_charts(comparison: Comparison) -> Iterator[dict[str, Any]]:
    """One a metric; that which has a threshold comes first, and the slices that became worst come first."""
    measured = dict.fromkeys(each.name for kept in comparison.slices for each in kept.measured)
    first = [name for name in shown_metrics(comparison.runs) if name in measured]
    for name in dict.fromkeys((*first, *measured)):
        found = [(kept, each) for kept in comparison.slices for each in kept.measured if each.name == name]
        reach = max((abs(end) for _, each in found for end in _ends(each)), default=0.0) or 1.0
        scale = Scale(-1.05 * reach, 1.05 * reach)
        found.sort(key=lambda pair: _worst(pair[1]))
        yield {
            **chart(scale, [_slice_row(kept, each, scale) for kept, each in found], [("zero", 0.0)]),
            "metric": name,
            "headings": [("slice", "name"), *((of, "number") for of in ("examples", "run", name, "against A"))],
            "key": [("interval", "difference from A with its interval"), ("zero", "no difference")],
        }


def _worst(measured: Measured) -> float:
    """The largest loss of any run against the reference; a gain is less than none."""
    differences = [change.difference if change else measured.difference(at) for at, change in enumerate(measured.changes)]
    known = [found for found in differences[1:] if found is not None and math.isfinite(found)]
    sign = -1 if measured.better == "lower" else 1
    return min((sign * found for found in known), default=math.inf)


def _slice_row(kept: Slice, measured: Measured, scale: Scale) -> dict[str, Any]:
    counts = list(dict.fromkeys(f"{rows:,}" for rows in kept.rows if rows is not None))
    bars = [_bar(measured, at, scale) for at in range(len(measured.values))]
    cells = [{**cell, "bar": bar} for cell, bar in zip(_cells(measured), bars, strict=True)]
    return {"name": kept.name, "count": " / ".join(counts), "cells": cells}


def _ends(measured: Measured) -> Iterator[float]:
    """How far the bars and whiskers reach."""
    for at, change in enumerate(measured.changes):
        ends = (change.low, change.high, change.difference) if change else (measured.difference(at),)
        yield from (end for end in ends if end is not None and math.isfinite(end))


def _bar(measured: Measured, at: int, scale: Scale) -> dict[str, Any] | None:
    change = measured.changes[at]
    if at == 0:
        return None
    if change:
        return whisker(scale, change.difference, change.low, change.high, 100)
    return whisker(scale, measured.difference(at), None, None, 100)


def _run_card(run: Mapping[str, Any], first: Mapping[str, Any] | None, at: int) -> dict[str, Any]:
    """A run by what its first metric is, and how that differs from the reference."""
    cell = first["cells"][at] if first else None
    if cell is None:
        details = []
    elif at == 0:
        details = ["the reference"]
    else:
        sign = ("▲ " if cell["rises"] else "▼ ") if cell["verdict"] else ""
        told = f"{sign}{cell['change']} {cell['interval']}".strip()
        details = [f"{told}, {cell['verdict']}" if cell["verdict"] else told]
    became = run["status"] if run["status"] != "succeeded" else {"yes": "blessed", "no": "refused", "": ""}[run["blessed"]]
    pushed = f"pushed as {run['pushed']}" if run["pushed"] else ""
    return {
        "run": run,
        "metric": first["name"] if first else "",
        "value": cell["value"] if cell else "",
        "verdict": cell["verdict"] if cell else "",
        "details": [*map(unbroken, details), ", ".join(filter(None, (became, pushed)))],
    }


def _matrix(run: dict[str, Any], found: Confusion) -> dict[str, Any]:
    shown = matrix(found)
    if shown is None:
        note = f"{run['letter']} has {len(found.labels)} classes: too many for a matrix; --json has it."
        return {"run": run, "labels": (), "rows": (), "note": note}
    return {"run": run, **shown, "note": ""}
