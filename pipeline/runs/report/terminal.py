"""A report in a few lines of a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table

from bertline.components.reports.data_page import told
from bertline.components.reports.words import interval, measured, shown
from bertline.pipeline.runs.listing import plain
from bertline.pipeline.runs.report.values import Report
from bertline.pipeline.runs.report.wording import duration, size, verdict

_MAX_REASONS = 3


def show(console: Console, report: Report) -> None:
    """What a person wants to know before opening the page."""
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, value in _facts(report):
        table.add_row(plain(name), plain(value, 300))
    console.print(table)


def _facts(report: Report) -> Iterator[tuple[str, str]]:
    head, results = report.head, report.results
    yield head.pipeline or "run", f"{head.run_id[:8]}  {verdict(head)}"
    if head.error:
        yield "why", head.error
    for reason in head.reasons[:_MAX_REASONS]:
        yield "refused", reason
    if report.study:
        yield report.study.kind, f"{len(report.study.parts)} runs; the rest is of the best of them"
    if report.data:
        yield "data", told(report.data)
        if report.data.anomalies:
            yield "anomalies", f"{len(report.data.anomalies)}, {report.data.judged}"
    for score in results.scores if results else ():
        asked = "" if score.bound is None else f"  threshold {score.bound:g} {'met' if score.keeps else 'not met'}"
        before = "" if score.before is None else f"  pushed before {shown(score.before)}"
        yield score.metric, f"{measured(score.value)} {interval(score.low, score.high)}".rstrip() + asked + before
    for name, score in results.test.items() if results else ():
        yield f"test {name}", f"{measured(score.value)} {interval(score.low, score.high)}".rstrip()
    yield from results.decided_how.items() if results else ()
    for name, found in results.baselines.items() if results else ():
        metric, value = next(iter(found.items()))
        yield f"baseline {name}", f"{metric} {measured(value)}"
    if report.model.instead:
        yield "model", report.model.instead
    if report.model.parameters is not None:
        yield "model", f"{report.model.parameters:,} parameters, {size(report.model.bytes)}"
    yield "time", duration(head.seconds)
    for section, sentences in report.notes.items():
        for sentence in sentences:
            yield f"note: {section}", sentence
