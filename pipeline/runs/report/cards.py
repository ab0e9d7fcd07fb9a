"""What is read first of a report: what became of the run, and the metrics that this hangs on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bertline.components.reports.cards import card, judged, met, metric_cards
from bertline.pipeline.runs.report.values import Report
from bertline.pipeline.runs.report.wording import size, verdict


def cards_of(report: Report, results: Mapping[str, Any] | None) -> Iterator[dict[str, Any]]:
    """Args: results: of `results_view`, with the changes against the model that was pushed before."""
    yield _verdict_card(report)
    if report.results and results:
        changes = {row["name"]: row["change"] for row in results["metrics"]}
        yield from metric_cards(report.results, changes)
        trained_on = report.data.kept.get("train") if report.data else None
        details = [] if trained_on is None else [f"trained on {trained_on:,}"]
        yield card("Evaluation examples", f"{report.results.rows:,}", details)
    if report.model.parameters is not None:
        yield card("Parameters", _rounded(report.model.parameters), [f"{size(report.model.bytes)} exported"])
    served = report.cost.served or {}
    if served.get("median_ms") is not None:
        details = [f"slowest {served['slowest_ms']:.3g} ms, of {served.get('samples', 0)} requests"]
        yield card("Median latency", f"{served['median_ms']:.3g} ms", details)


def _verdict_card(report: Report) -> dict[str, Any]:
    head = report.head
    if head.status != "succeeded":
        told = verdict(head)
        state = "open" if head.status == "running" else "bad"
        return judged(told[0].upper() + told[1:], state, [head.error] if head.error else [])
    if head.blessed is None:
        return judged("Not judged", "open", ["The run ended without an evaluated model."])
    if not head.blessed:
        reasons = head.reasons or (report.results.reasons if report.results else ())
        return judged("Refused", "bad", ["Not pushed:"] if reasons else [], reasons)
    detail = [met(report.results)] if report.results else []
    if head.pushed_version:
        return judged(f"Pushed as version {head.pushed_version}", "good", detail)
    return judged("Blessed", "good", [*detail, "Not pushed."])


def _rounded(count: int) -> str:
    """
    >>> _rounded(4_400_000), _rounded(950)
    ('4.4 M', '950')
    """
    return f"{count / 1e6:,.3g} M" if 1e6 <= count < 1e9 else f"{count / 1e9:,.3g} B" if count >= 1e9 else f"{count:,}"
