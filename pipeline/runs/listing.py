"""`bertline runs`: the runs of a store, newest first, and what each changed against the one before."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bertline.pipeline.runs.diff import in_short
from bertline.pipeline.runs.store import Run, RunStore

_SHOWN_METRICS = 3
# What moves a terminal's cursor, or turns the direction in which a line is read.
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]+")


class Listed(NamedTuple):
    run: Run
    changed: str | None
    """Of its settings against those of the run before of the same pipeline; None for the first one."""


def list_runs(store: RunStore, count: int, *, pipeline: str | None = None, parts: bool = False) -> list[Listed]:
    """The newest runs with what each changed."""
    # One of the runs before is read for each pipeline that has its oldest run here: more are not asked for.
    runs = store.newest(count + 1, pipeline=pipeline, parts=parts)
    return compared_with_before(runs)[:count]


def compared_with_before(runs: Sequence[Run]) -> list[Listed]:
    """Each of the runs, which are the newest first, beside the one before it that is of the same pipeline."""
    listed = []
    for at, run in enumerate(runs):
        before = next((other for other in runs[at + 1 :] if other.pipeline == run.pipeline), None)
        listed.append(Listed(run, in_short(before.params, run.params) if before else None))
    return listed


def as_json(listed: Sequence[Listed]) -> list[dict[str, Any]]:
    return [
        {
            "run_id": run.run_id,
            "name": run.name,
            "pipeline": run.pipeline,
            "task": run.task,
            "started": datetime.fromtimestamp(run.started).astimezone().isoformat() if run.started else None,
            "seconds": run.seconds,
            "status": run.status,
            "metrics": {name: finite(value) for name, value in run.scores.items()},
            "blessed": run.blessed,
            "reasons": run.tags.get("reasons") or None,
            "pushed_version": run.pushed_version,
            "parent": run.tags.get("mlflow.parentRunId"),
            "changed": changed,
        }
        for run, changed in listed
    ]


def show_runs(console: Console, listed: Sequence[Listed]) -> None:
    metrics = shown_metrics([run for run, _ in listed])
    table = Table(box=None, padding=(0, 2, 0, 0))
    for title in ("run", "name", "when", "seconds", "status", *metrics, "blessed", "pushed", "changed"):
        table.add_column(
            title,
            justify="right" if title in ("seconds", *metrics) else "left",
            no_wrap=title in ("run", "when", *metrics),
            overflow="fold" if title == "run" else "ellipsis",
        )
    for run, changed in listed:
        scores = run.scores
        table.add_row(
            run.short_id,
            plain(run.name),
            when(run),
            "" if run.seconds is None else f"{run.seconds:.0f}",
            Text(run.status, style={"failed": "red", "interrupted": "yellow", "running": "cyan"}.get(run.status, "")),
            *(number(scores.get(name)) for name in metrics),
            {True: "[green]yes[/]", False: "[red]no[/]", None: ""}[run.blessed],
            f"v{run.pushed_version}" if run.pushed_version else "",
            plain(changed or ""),
        )
    console.print(table)


def shown_metrics(runs: Sequence[Run], limit: int = _SHOWN_METRICS) -> list[str]:
    """Those with a bound, and where no run has any, the first that were measured."""
    bounded = [name for run in runs for name in run.bounded]
    measured = [name for run in runs for name in run.scores if name != "rows"]
    return list(dict.fromkeys(bounded or measured))[:limit]


def when(run: Run) -> str:
    return datetime.fromtimestamp(run.started).strftime("%Y-%m-%d %H:%M") if run.started else ""


def plain(text: str, limit: int = 60) -> Text:
    """A text of somebody else's, in one line, that means nothing to a terminal."""
    line = _CONTROLS.sub(" ", text)
    return Text(line if len(line) <= limit else f"{line[: limit - 1]}…")


def number(value: float | None, signed: bool = False) -> str:
    if value is None:
        return "–"
    if math.isnan(value):
        return "undefined"
    return f"{value:+.4f}" if signed else f"{value:.4f}"


def finite(value: float | None) -> float | None:
    """JSON has no NaN and no infinity."""
    return value if value is not None and math.isfinite(value) else None
