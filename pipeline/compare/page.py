"""A comparison as one page of HTML that asks for nothing else: no script, font or picture of another file or host."""

from __future__ import annotations

import base64
import hashlib
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jinja2

from pipeline.compare.comparison import Comparison, Confusion, Measured, Slice
from pipeline.compare.tables import interval, letter
from pipeline.errors import BertlineError
from pipeline.runs import number, shown_metrics, when

_HERE = Path(__file__).parent
_COLOURS, _DASHES = 8, 4  # that page.css has
_MOST_FLIPS = 300  # of each run
_MOST_CLASSES = 40
_MIDDLE = 100  # of a bar, in the units of its picture


def write(comparison: Comparison, path: Path) -> None:
    """Replaces the file in one go: a browser never sees half of it."""
    page = render(comparison)
    unfinished = path.with_name(f".{path.name}.part")
    try:
        unfinished.write_text(page, encoding="utf-8", errors="replace")
        os.replace(unfinished, path)
    except OSError as error:
        raise BertlineError(f"--html {path}: {error.strerror}; name a file in a folder that can be written to.") from error


def render(comparison: Comparison) -> str:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE), autoescape=True, undefined=jinja2.StrictUndefined, keep_trailing_newline=True
    )
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False}
    script, style = ((_HERE / name).read_text(encoding="utf-8") for name in ("page.js", "page.css"))
    return environment.get_template("page.html").render(
        **_view(comparison),
        script=script,
        style=style,
        # The browser runs this very script and no other, whatever else the page may come to hold.
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def _view(comparison: Comparison) -> dict[str, Any]:
    """All that the template shows, ready to be shown."""
    runs = [_run(comparison, at) for at in range(len(comparison.runs))]
    pipelines = list(dict.fromkeys(run.pipeline for run in comparison.runs if run.pipeline))
    confusions = [_matrix(run, found) for run, found in zip(runs, comparison.confusions, strict=True) if found]
    slices = list(_slice_tables(comparison))
    flips = [
        {"run": at, "text": flip.text, **flip._asdict()}
        for at, found in enumerate(comparison.flips)
        for flip in found[:_MOST_FLIPS]
    ]
    parts = {
        "runs": "Runs",
        "metrics": "Metrics",
        "settings": "Settings",
        **({"curves": "Learning curves"} if comparison.curves else {}),
        **({"slices": "Slices"} if slices else {}),
        **({"flips": "Flipped answers"} if any(comparison.flips) else {}),
        **({"confusions": "Confusion matrices"} if confusions else {}),
    }
    return {
        "title": f"{len(runs)} runs of {', '.join(pipelines) or 'a store'}",
        "parts": list(parts.items()),
        "runs": runs,
        "notes": comparison.notes,
        "metrics": [_row(measured) for measured in comparison.metrics],
        "explanation": _explanation(comparison),
        "settings": comparison.settings,
        "curves": comparison.curves,
        "slices": slices,
        "flips": flips,
        "became": sorted({flip["became"] for flip in flips}),
        "flips_left_out": sum(max(0, len(found) - _MOST_FLIPS) for found in comparison.flips),
        "confusions": [matrix for matrix in confusions if matrix["rows"]],
        "confusion_notes": [matrix["note"] for matrix in confusions if matrix["note"]],
        "data": {
            "runs": [{name: run[name] for name in ("letter", "colour", "dash", "cached")} for run in runs],
            "curves": [{"metric": curve.metric, "points": curve.points} for curve in comparison.curves],
        },
    }


def _run(comparison: Comparison, at: int) -> dict[str, Any]:
    run, shared = comparison.runs[at], comparison.shared[at]
    told = "the reference" if at == 0 else "none shared with A"
    if shared:
        told = f"{shared.rows:,} of its {shared.of_run:,} shared with A"
    return {
        "letter": letter(at),
        "colour": at % _COLOURS,
        "dash": at % _DASHES,
        "short_id": run.short_id,
        "name": run.name,
        "when": when(run),
        "seconds": "" if run.seconds is None else f"{run.seconds:,.0f}",
        "status": run.status,
        "blessed": {True: "yes", False: "no", None: ""}[run.blessed],
        "pushed": f"v{run.pushed_version}" if run.pushed_version else "",
        "shared": told,
        "cached": run.tags.get("step.Trainer") == "cached",
    }


def _explanation(comparison: Comparison) -> str:
    if not any(change for measured in comparison.metrics for change in measured.changes):
        return "Differences are between what the evaluators measured; there are no intervals, see above."
    return (
        f"A difference is measured on the rows that both runs held out, and has its {comparison.level:.0%} interval, by"
        " bootstrap over these rows; ▲ and ▼ stand where it leaves out 0. Another seed of the same training may differ by"
        " more."
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


def _slice_tables(comparison: Comparison) -> Iterator[dict[str, Any]]:
    """One a metric; that which is bound comes first."""
    measured = dict.fromkeys(each.name for kept in comparison.slices for each in kept.measured)
    first = [name for name in shown_metrics(comparison.runs) if name in measured]
    for name in dict.fromkeys((*first, *measured)):
        found = [(kept, each) for kept in comparison.slices for each in kept.measured if each.name == name]
        scale = max((abs(end) for _, each in found for end in _ends(each)), default=0.0) or 1.0
        yield {"metric": name, "scale": f"{scale:.3g}", "rows": [_slice_row(kept, each, scale) for kept, each in found]}


def _slice_row(kept: Slice, measured: Measured, scale: float) -> dict[str, Any]:
    counts = list(dict.fromkeys(f"{rows:,}" for rows in kept.rows if rows is not None))
    bars = [_bar(measured, at, scale) for at in range(len(measured.values))]
    cells = [{**cell, "bar": bar} for cell, bar in zip(_cells(measured), bars, strict=True)]
    return {"name": kept.name, "count": " / ".join(counts), "cells": cells}


def _ends(measured: Measured) -> Iterator[float]:
    """How far the bars and whiskers reach."""
    for at, change in enumerate(measured.changes):
        ends = (change.low, change.high, change.difference) if change else (measured.difference(at),)
        yield from (end for end in ends if end is not None and math.isfinite(end))


def _bar(measured: Measured, at: int, scale: float) -> dict[str, Any] | None:
    change = measured.changes[at]
    difference = change.difference if change else measured.difference(at)
    if at == 0 or difference is None or not math.isfinite(difference):
        return None

    def place(value: float) -> float:
        return round(_MIDDLE + value / scale * (_MIDDLE - 4), 1)

    begin, end = sorted((place(0), place(difference)))
    has_interval = change and math.isfinite(change.low) and math.isfinite(change.high)
    low, high = (place(change.low), place(change.high)) if change and has_interval else (None, None)
    return {"x": begin, "width": round(max(1.0, end - begin), 1), "low": low, "high": high}


def _matrix(run: dict[str, Any], found: Confusion) -> dict[str, Any]:
    if len(found.labels) > _MOST_CLASSES:
        note = f"{run['letter']} tells {len(found.labels)} classes apart: too many for a matrix; --json has it."
        return {"run": run, "labels": (), "rows": (), "note": note}
    rows = [
        {"label": label, "cells": [{"count": count, "share": round(count / max(1, sum(counts)), 3)} for count in counts]}
        for label, counts in zip(found.labels, found.counts, strict=True)
    ]
    return {"run": run, "labels": _short(found.labels), "rows": rows, "note": ""}


def _short(labels: Sequence[str], most: int = 24) -> list[str]:
    return [label if len(label) <= most else f"{label[: most - 1]}…" for label in labels]
