"""A report as one page of HTML that asks for nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from bertline.components.reports.charts import bar, chart
from bertline.components.reports.data_page import data_view
from bertline.components.reports.drawing import Scale
from bertline.components.reports.page import SCRIPT, Page
from bertline.components.reports.page import render as rendered
from bertline.components.reports.results_page import results_view
from bertline.components.reports.words import interval, measured, shown
from bertline.pipeline.runs.compare.curves import Curve, Point
from bertline.pipeline.runs.compare.page import chart_data, drawn_run
from bertline.pipeline.runs.report.cards import cards_of
from bertline.pipeline.runs.report.values import Against, Cost, Head, Model, Report, Study
from bertline.pipeline.runs.report.wording import duration, size, verdict

_HERE = Path(__file__).parent
_SIZES = {
    "layers": "layers",
    "decoder_layers": "decoder layers",
    "hidden": "width",
    "heads": "attention heads",
    "intermediate": "width of the inner layer",
    "vocab_size": "tokens in the vocabulary",
    "source_pieces": "tokens of the source",
    "target_pieces": "tokens of the target",
    "max_positions": "limit of tokens",
    "activation": "activation",
}
_SECTIONS = {
    "results": "Results",
    "slices": "Slices",
    "errors": "Errors",
    "curves": "Learning curves",
    "data": "Data",
    "model": "Model",
    "cost": "Cost",
    "lineage": "Lineage",
}


def render(report: Report) -> Page:
    drawn = [drawn_run(at, run.run_id[:8], run.name, cached=run.cached) for at, run in enumerate(report.drawn)]
    if len(drawn) == 1:  # no letter has to tell it apart
        drawn[0]["letter"] = ""
    curves = [
        Curve(metric, tuple(tuple(Point(*point) for point in run) for run in runs))
        for metric, runs in report.curves.items()
    ]
    sections = {"overview": "Overview", **({"study": "Runs"} if report.study else {}), **_SECTIONS}
    results = results_view(report.results) if report.results else None
    if results and report.against:
        _tell_changes(results, report.against)
    view = {
        "title": f"{report.head.pipeline or report.head.name}: {verdict(report.head)}",
        "parts": list(sections.items()),
        "head": list(_head(report)),
        "lead": list(_lead(report.head)),
        "cards": list(cards_of(report, results)),
        "notes": {section: report.notes.get(section, ()) for section in ("run", *_SECTIONS)},  # type: ignore[call-overload]
        "study": _study(report.study) if report.study else None,
        "data_view": data_view(report.data) if report.data else None,
        "model": list(_model(report.model)),
        "results_view": results,
        "against": _against(report.against) if report.against else "",
        "runs": drawn,
        "curves": curves,
        "cost": list(_cost(report.cost, report.model)),
        "steps": _step_chart(report.cost),
        "lineage": list(_lineage(report)),
        "settings": list(report.lineage.settings.items()),
        "versions": list(report.lineage.versions.items()),
    }
    return rendered(_HERE / "page.html", view, scripts=[SCRIPT], data=chart_data(drawn, curves))


def _lead(head: Head) -> Iterator[str]:
    """The run in the line below the title."""
    if head.task:
        yield head.task
    if head.started:
        yield f"started {_time(head.started)}"
    yield f"took {duration(head.seconds)}" if head.seconds is not None else "has not ended"
    yield f"run {head.run_id[:8]}"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M %Z")


def _head(report: Report) -> Iterator[tuple[str, str]]:
    head = report.head
    yield "run", f"{head.name} ({head.run_id})"
    if head.parent:
        yield "one of the runs of", head.parent
    yield "task", head.task or "not recorded"
    yield "status", head.status
    if head.started:
        yield "began", _time(head.started)
    yield "took", duration(head.seconds) if head.seconds is not None else "has not ended"
    if report.results:
        first = report.results.scores[0] if report.results.scores else None
        if first:
            yield first.metric, f"{measured(first.value)} {interval(first.low, first.high)}".strip()


def _study(study: Study) -> dict[str, Any]:
    names = list(dict.fromkeys(name for part in study.parts for name in part.scores))[:6]
    settings = list(dict.fromkeys(name for part in study.parts for name in part.settings))

    def spread(title: str, mean: Mapping[str, float | None], std: Mapping[str, float | None]) -> dict[str, Any]:
        cells = [f"{shown(mean[name])} ± {shown(std.get(name))}" if name in mean else "" for name in names]
        return {"title": title, "cells": cells}

    return {
        "kind": study.kind,
        "metrics": names,
        "settings": settings,
        "rows": [
            {
                "title": part.title,
                "short_id": part.run_id[:8],
                "is_best": part.run_id == study.best,
                "settings": [part.settings.get(name, "") for name in settings],
                "cells": [shown(part.scores.get(name)) for name in names],
                "status": part.status,
                "blessed": {True: "yes", False: "no", None: ""}[part.blessed],
                "pushed": f"v{part.pushed_version}" if part.pushed_version else "",
                "seconds": duration(part.seconds),
                "note": part.error or (f"collapsed: {part.collapsed}" if part.collapsed else ""),
            }
            for part in study.parts
        ],
        "spreads": [
            spread(title, mean, std)
            for title, mean, std in (
                ("mean ± std", study.mean, study.deviation),
                ("without collapsed runs", study.mean_of_sound, study.deviation_of_sound),
            )
            if mean
        ],
    }


def _model(model: Model) -> Iterator[tuple[str, str]]:
    yield "task", model.task or "not recorded"
    if model.instead:
        yield "model", model.instead
    yield "started from", model.start
    for name, title in _SIZES.items():
        if model.sizes.get(name) is not None:
            yield title, f"{model.sizes[name]:,}" if isinstance(model.sizes[name], int) else str(model.sizes[name])
    if any(model.sizes.get("pruned") or ()):
        yield "heads that were removed", f"{sum(map(len, model.sizes['pruned'])):,}"
    yield "parameters", "not recorded" if model.parameters is None else f"{model.parameters:,}"
    yield "size of the exported model", size(model.bytes)
    yield from model.settings.items()


def _tell_changes(results: dict[str, Any], against: Against) -> None:
    """Differences on the examples that both models have answered take the place of plain ones."""
    for row in results["metrics"]:
        if change := against.changes.get(row["name"]):
            row["change"] = {
                "told": shown(change.difference, signed=True),
                "interval": interval(change.low, change.high, signed=True),
                "verdict": change.verdict,
            }


def _against(against: Against) -> str:
    before = f"The previously pushed model is {against.path}"
    if not against.changes:
        return f"{before}; its own predictions are not recorded, so a change has no interval."
    return (
        f"{before}, and comes from the run {(against.run_id or '')[:8]}. A change is measured on the {against.rows:,}"
        " examples that both have predicted, with its interval; it is coloured where that excludes 0."
    )


def _cost(cost: Cost, model: Model) -> Iterator[tuple[str, str]]:
    yield "time in all", duration(cost.seconds)
    if cost.steps:
        cached = sum(step.cached for step in cost.steps)
        yield "steps", f"{len(cost.steps)}, {cached} of them from the cache"
    named = {"cores": "{} cores", "memory_gb": "{} GB of memory"}
    machine = [named.get(name, f"{name} {{}}").format(value) for name, value in cost.machine.items()]
    yield "machine", ", ".join(machine) or "not recorded"
    if cost.peak_megabytes is not None:
        yield "peak memory of the pipeline", f"{cost.peak_megabytes:,.0f} MB"
    if cost.tokens_per_second is not None:
        yield "training", f"{cost.tokens_per_second:,.0f} tokens/s on average"
    yield "size of the exported model", size(model.bytes)
    if served := cost.served:
        asked = f"{served.get('samples', 0)} sample requests to {served.get('server') or 'a server'}"
        if served.get("median_ms") is not None:
            asked += f": median {served['median_ms']:.3g} ms, slowest {served['slowest_ms']:.3g} ms"
        yield "latency", asked


def _step_chart(cost: Cost) -> dict[str, Any]:
    longest = max((step.seconds for step in cost.steps), default=0.0) or 1.0
    scale = Scale(0.0, longest)
    rows = [
        {
            "name": step.name,
            "seconds": f"{step.seconds:,.1f}",
            "cached": step.cached,
            "bar": bar(scale, step.seconds),
            "execution": "" if step.execution is None else str(step.execution),
            "artifacts": ", ".join(f"{name} {number}" for name, number in step.artifacts.items()),
        }
        for step in cost.steps
    ]
    return {**chart(scale, rows), "seen": rows, "folded": []}


def _lineage(report: Report) -> Iterator[tuple[str, str]]:
    lineage = report.lineage
    yield "MLflow store", lineage.store
    yield "MLflow run", report.head.run_id
    if report.study and report.study.best:
        yield "MLflow run of the best", report.study.best
    if lineage.line_run_id:
        yield "TFX run", lineage.line_run_id
    commit = lineage.commit or "not recorded"
    yield "code", commit + (" (changed since)" if lineage.is_dirty else "")
    for split, digest in (report.data.digests if report.data else {}).items():
        yield f"digest of the examples, {split}", digest
    if lineage.encoder_run:
        yield "encoder from the run", lineage.encoder_run
    if report.head.pushed_version:
        yield "pushed version", f"{report.head.pushed_version}  {lineage.pushed_path or ''}"
    if lineage.pushed_digest:
        yield "digest of the model", lineage.pushed_digest
    registered = [
        f"{one.name} {one.version}" + f" ({', '.join(one.aliases)})" * bool(one.aliases) for one in lineage.registered
    ]
    yield "MLflow's registry", ", ".join(registered) or "not registered"
    for what, name in lineage.pages.items():
        yield f"page of the {what}", f"{name}, among the files of the run"
    yield "config", "config.json, among the files of the run; all settings are below"
