"""What `bertline prune` shows in a terminal. It is read without colours as well: shades only repeat the numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.color import Color
from rich.console import Console
from rich.style import Style
from rich.table import Table
from rich.text import Text

from bertline.pipeline.core.paths import from_here
from bertline.pipeline.prune.report import PruneReport

_PALE, _DEEP = (222, 235, 247), (8, 48, 107)
_BAR = 30
_GONE = "–"
_INTERVALS = "In brackets the 95% bootstrap interval of the difference on these examples; * where it excludes 0."


def show(console: Console, report: PruneReport) -> None:
    # Titles stand above the tables, and not in them: rich would break them to a narrow table's width.
    for by in report.importance:
        console.print(f"\n[bold]Importance of each head, by {by}[/]")
        console.print(importance_table(report, by))
        console.print(_legend(report, by), style="dim")
    console.print(f"\n[bold]{report.metric} by heads kept[/]")
    console.print(curve_table(report))
    if report.compared:
        console.print("\n[bold]The original and the pruned model[/]")
        console.print(compared_table(report))
        console.print(
            "In brackets the 95% bootstrap interval of the difference on these examples; * where it excludes 0.",
            style="dim",
        )
        console.print(report.caution, style="dim")
    console.print()
    facts = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, value in _facts(report):
        facts.add_row(f"[bold]{name}[/]", value)
    console.print(facts)


def importance_table(report: PruneReport, by: str) -> Table:
    """Layers by heads; a head that goes is marked by an x. Twelve heads fit into 80 columns."""
    values = report.importance[by]
    numbers = [[_GONE if value is None else _shown(value, by) for value in row] for row in values]
    width = 1 + max(len(number) for row in numbers for number in row)
    known = [value for row in values for value in row if value is not None]
    low, high = min(known), max(known)
    table = Table(box=None, padding=(0, 0))
    table.add_column("layer")
    for head in range(len(values[0])):  # of one width, to the left: to the right, rich would cut off the room for a mark
        table.add_column(f"{head:>{width}}", no_wrap=True)
    for layer, row in enumerate(values):
        lost = report.lost.get(str(layer), ())
        cells = [
            Text(f"{number:>{width}}{'x' if head in lost else ' '}", style=_shade(value, low, high))
            for head, (number, value) in enumerate(zip(numbers[layer], row, strict=True))
        ]
        table.add_row(f"{layer:>5}", *cells)
    return table


def _shown(value: float, by: str) -> str:
    """Those of an ablation are differences of a metric, in hundredths."""
    return f"{value:.2f}".removeprefix("0") if by == "gradient" else f"{100 * value:+.1f}"


def _shade(value: float | None, low: float, high: float) -> Style:
    if value is None:
        return Style(dim=True)
    fraction = (value - low) / (high - low) if high > low else 0.0
    shade = tuple(round(pale + fraction * (deep - pale)) for pale, deep in zip(_PALE, _DEEP, strict=True))
    return Style(color="white" if fraction > 0.5 else "black", bgcolor=Color.from_rgb(*shade))


def _legend(report: PruneReport, by: str) -> str:
    what = "|d loss / d mask|, summed over the examples, each layer scaled to length 1"
    if by == "ablation":
        what = f"{report.metric} lost without the head, in hundredths; below 0: better without it"
    gone = "; x: removed" if report.lost else ""
    return f"{what}{gone}. {report.rows:,} evaluation examples."


def curve_table(report: PruneReport) -> Table:
    """The metric with fewer and fewer heads, the others masked."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for title in ("kept", "heads", report.metric, ""):
        table.add_column(title, justify="right" if title else "left")
    known = [point["value"] for point in report.curve if point["value"] is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    for point in report.curve:
        value = point["value"]
        filled = 0 if value is None or high == low else round(_BAR * (value - low) / (high - low))
        table.add_row(f"{point['keep']:.0%}", str(point["heads"]), _number(value), "█" * filled)
    return table


def compared_table(report: PruneReport) -> Table:
    """The original beside the pruned one, in one table."""
    found = report.compared
    table = Table(box=None, padding=(0, 2, 0, 0))
    for title in ("", "original", "pruned", "change"):
        table.add_column(title, justify="left" if title in ("", "change") else "right")
    table.add_row("heads", f"{report.heads_before:,}", f"{report.heads_after:,}", "")
    sizes = {"parameters": "{:,}", "bytes": "{:,}", "rows_per_second": "{:,.1f}"}
    for name, form in sizes.items():
        before, after = found[name]["original"], found[name]["pruned"]
        shown = (form.format(value) for value in (before, after))
        table.add_row({"rows_per_second": "examples/second"}.get(name, name), *shown, f"{after / before:.2f}×")
    for name, values in found["metrics"].items():
        table.add_row(name, _number(values["original"]), _number(values["pruned"]), _change(values))
    return table


def _change(values: dict[str, Any]) -> str:
    if values["difference"] is None:
        return ""
    if values["low"] is None or values["high"] is None:
        return f"{values['difference']:+.4f}"
    sure = " *" if values["low"] > 0 or values["high"] < 0 else ""
    return rf"{values['difference']:+.4f} \[{values['low']:+.4f}, {values['high']:+.4f}]{sure}"


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4f}"


def _facts(report: PruneReport) -> Iterator[tuple[str, str]]:
    yield "model", from_here(report.model)
    if report.folder:
        yield "pruned", from_here(report.folder)
    if report.pushed_version:
        yield "pushed", f"version {report.pushed_version}  {from_here(report.pushed_path)}"
    elif report.refused:
        yield "pushed", "[red]nothing[/]: " + "; ".join(report.refused)
    elif report.folder:
        yield "pushed", "nothing; --push pushes it"
    if report.mlflow_run_id:
        yield "MLflow run", f"{report.mlflow_run_id}  in {from_here(report.mlflow_uri)}"
    elif report.mlflow_uri is None:
        yield "MLflow run", "none: the workspace has no store"
    if report.tracking_problem:
        yield "tracking", f"[yellow]incomplete[/]: {report.tracking_problem}"
    yield "time", f"{report.seconds:.0f} s"
    if report.log:
        yield "log", from_here(report.log)
