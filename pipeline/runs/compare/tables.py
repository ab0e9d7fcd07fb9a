"""A comparison in a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bertline.pipeline.runs.compare.comparison import Comparison, Measured
from bertline.pipeline.runs.compare.curves import bounds, sparkline
from bertline.pipeline.runs.compare.rows import Change
from bertline.pipeline.runs.listing import number, plain, shown_metrics, when

_SHOWN_FLIPS = 5
_SHOWN_CURVES = 3
_SHOWN_SLICES = 20
_SHOWN_SETTINGS = 40


def show(console: Console, comparison: Comparison) -> None:
    """Each part under a title; a part that is empty says so in a few words or is left out."""
    for title, part in (
        ("Runs", _runs(comparison)),
        ("Settings that differ", _settings(comparison)),
        (f"Metrics, and their change against {titles(comparison)[0]}", _metrics(comparison)),
        ("Slices", _slices(comparison)),
        ("Learning curves, on shared axes", _curves(comparison)),
        ("Predictions that flipped", _flips(comparison)),
    ):
        lines = list(part)
        if lines:
            console.print(f"\n[bold]{title}[/]")
            for line in lines:
                console.print(line, soft_wrap=not isinstance(line, Table))
    for note in comparison.notes:
        console.print(Text.assemble(("note ", "yellow"), plain(note, 400)), soft_wrap=True)


def titles(comparison: Comparison) -> list[str]:
    """What each run is called beside the others: its letter, which is short, and its id."""
    return [f"{letter(at)} {run.short_id}" for at, run in enumerate(comparison.runs)]


def letter(at: int) -> str:
    """A, B, … Z, A1, B1, …"""
    return chr(ord("A") + at % 26) + (str(at // 26) if at >= 26 else "")


def _table(*headings: str, right: Sequence[str] = ()) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in headings:
        table.add_column(heading, justify="right" if heading in right else "left", overflow="fold")
    return table


def _runs(comparison: Comparison) -> Iterator[Table]:
    table = _table("", "run", "name", "when", "status", "blessed", "pushed", "examples shared with A")
    for at, (run, shared) in enumerate(zip(comparison.runs, comparison.shared, strict=True)):
        blessed = {True: "[green]yes[/]", False: "[red]no[/]", None: ""}[run.blessed]
        pushed = f"v{run.pushed_version}" if run.pushed_version else ""
        if at == 0:
            told = "(the reference)"
        elif shared is None:
            told = "–"
        else:
            told = f"{shared.rows:,} of its {shared.of_run:,}"
        table.add_row(letter(at), run.short_id, plain(run.name, 40), when(run), run.status, blessed, pushed, told)
    yield table


def _settings(comparison: Comparison) -> Iterator[Table | str]:
    if not comparison.settings:
        yield "none: all settings are equal"
        return
    table = _table("", *titles(comparison))
    for name, values in comparison.settings[:_SHOWN_SETTINGS]:
        table.add_row(plain(name), *(plain("–" if value is None else value, 40) for value in values))
    yield table
    if len(comparison.settings) > _SHOWN_SETTINGS:
        yield f"… and {len(comparison.settings) - _SHOWN_SETTINGS} more; --json and --html have all"


def _metrics(comparison: Comparison) -> Iterator[Table | str]:
    if not comparison.metrics:
        yield "none: no run was evaluated"
        return
    table = _table("", *_headings(comparison))
    for measured in (*comparison.metrics, *comparison.test, *comparison.baselines):
        table.add_row(plain(measured.name), *_cells(measured))
    yield table
    if less := [measured.name for measured in comparison.metrics if measured.better == "lower"]:
        yield f"Less is better: {', '.join(less)}."
    if any(change for measured in comparison.metrics for change in measured.changes):
        yield (
            f"In brackets the {comparison.level:.0%} interval of the difference on the shared examples, by bootstrap;"
            " * where it excludes 0."
        )


def _headings(comparison: Comparison) -> list[str]:
    reference, *others = titles(comparison)
    return [reference, *(heading for other in others for heading in (other, f"{other[0]} - A"))]


def _cells(measured: Measured) -> Iterator[str]:
    yield number(measured.values[0])
    for at, (value, change) in enumerate(zip(measured.values, measured.changes, strict=True)):
        if at:
            yield number(value)
            yield _change(measured, at, change)


def _change(measured: Measured, at: int, change: Change | None) -> str:
    if change is None:
        return number(measured.difference(at), signed=True)
    told = f"{number(change.difference, signed=True)} {interval(change)}".replace("[", r"\[")
    if not change.is_clear:
        return told
    better = (change.difference > 0) == (measured.better != "lower")
    return f"[{'green' if better else 'red'}]{told} *[/]"


def interval(change: Change) -> str:
    return f"[{number(change.low, signed=True)}, {number(change.high, signed=True)}]"


def _slices(comparison: Comparison) -> Iterator[Table | str]:
    """By the first metric that has a bound; the others are in --json and --html."""
    metrics = shown_metrics(comparison.runs, 1)
    if not comparison.slices or not metrics:
        return
    table = _table(metrics[0], "examples", *_headings(comparison), right=["examples"])
    for kept in comparison.slices[:_SHOWN_SLICES]:
        measured = next((each for each in kept.measured if each.name == metrics[0]), None)
        if measured:
            rows = next((rows for rows in kept.rows if rows is not None), None)
            table.add_row(plain(kept.name, 40), "–" if rows is None else f"{rows:,}", *_cells(measured))
    yield table
    if len(comparison.slices) > _SHOWN_SLICES:
        yield f"… and {len(comparison.slices) - _SHOWN_SLICES} more; --json and --html have all"


def _curves(comparison: Comparison) -> Iterator[Table]:
    for curve in comparison.curves[:_SHOWN_CURVES]:
        steps, values = bounds(curve)
        table = _table(f"{curve.metric}, {values[0]:.4g} to {values[1]:.4g}, to step {steps[1]:.0f}", "first", "last")
        for title, points in zip(titles(comparison), curve.points, strict=True):
            if points:
                drawn = f"{title}  {sparkline(points, steps, values)}"
                table.add_row(drawn, f"{points[0].value:.4g}", f"{points[-1].value:.4g}")
        yield table


def _flips(comparison: Comparison) -> Iterator[Table | str]:
    for title, flips in zip(titles(comparison)[1:], comparison.flips[1:], strict=True):
        if not flips:
            continue
        counted = Counter(flip.became for flip in flips)
        yield f"{title}: " + ", ".join(f"{count:,} became {became}" for became, count in sorted(counted.items()))
        table = _table("became", "label", "A", title[0], "text")
        for flip in flips[:_SHOWN_FLIPS]:
            colour = "green" if flip.became in ("right", "better") else "red"
            told = [plain(text, 24) for text in (flip.label, flip.reference, flip.answer)]
            table.add_row(f"[{colour}]{flip.became}[/]", *told, plain(flip.text, 80))
        yield table
        if len(flips) > _SHOWN_FLIPS:
            yield f"… and {len(flips) - _SHOWN_FLIPS} more; --json and --html have all"
