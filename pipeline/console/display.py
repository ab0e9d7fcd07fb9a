"""What a person sees while the pipeline runs, and at its end.

TensorFlow, Beam and TFX write a lot to both standard streams, much of it from C++: while the pipeline runs, the streams
themselves lead to a log file, and only what is written here reaches the terminal.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from bertline.models.kinds import without_encoder
from bertline.pipeline.console.summary import Summary
from bertline.pipeline.core import events
from bertline.pipeline.core.paths import from_here
from bertline.pipeline.studies.tables import show_seeds

_SHOWN_CLASSES = 12
_WORST_CLASSES = 5
_COUNTED = {"rows": "examples"}  # what a verdict counts -> how it is shown
_PLAIN_SECONDS = 20.0  # how often a line of progress is printed where there is no terminal


@contextmanager
def noise_to(log: Path) -> Iterator[Console]:
    """Sends both standard streams to `log`; yields a console on the standard output of before."""
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)
    try:
        with os.fdopen(os.dup(kept[0]), "w") as terminal:
            # Where there is no terminal there is no width either: lines are left to whoever reads them.
            yield Console(file=terminal, highlight=False, width=None if terminal.isatty() else 140)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, stream in zip((1, 2), kept, strict=True):
            os.dup2(stream, number)
            os.close(stream)


class Display:
    """Listens to the pipeline: a spinner for the step at work, a bar while training, a line for each step done."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = console.is_terminal
        self._step = TaskID(-1)
        self._said = 0.0
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            TextColumn("{task.fields[detail]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not self._live,
            # Python's own streams lead to the log already; rich would lead them back to the terminal.
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __enter__(self) -> Display:
        self._progress.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._progress.stop()

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """Shows that something goes on which is no step."""
        task = self._progress.add_task(what, total=None, detail="")
        yield
        self._progress.remove_task(task)

    def hear(self, event: events.Event) -> None:
        if isinstance(event, events.StepStarted):
            self._forget_step()
            self._step = self._progress.add_task(event.name, total=None, detail="")
            self._said = time.monotonic()
        elif isinstance(event, events.StepFinished):
            self._forget_step()
            self._console.print(step_line(event))
        elif isinstance(event, events.Note):
            self._console.print(f"  [yellow]note[/] {event.text}")
        elif isinstance(event, events.Training):
            self._show_training(event.record)
        elif isinstance(event, events.Progress):
            self._show_progress(event)

    def _forget_step(self) -> None:
        """Also that of a step which failed, where other runs follow."""
        if self._step in self._progress.task_ids:
            self._progress.remove_task(self._step)

    def _show_progress(self, event: events.Progress) -> None:
        if self._live:
            self._progress.update(self._step, total=event.of, completed=event.done)
        elif time.monotonic() - self._said > _PLAIN_SECONDS:
            self._said = time.monotonic()
            self._console.print(f"  {event.done:,} of {event.of:,}")

    def _show_training(self, record: Any) -> None:
        if hasattr(record, "eval_loss"):
            names = ("accuracy", *(name for name in record.scores if name != "accuracy"))
            found = {name: record.numbers()[f"eval_{name}"] for name in names}
            scores = "".join(f", {name} {value:.4f}" for name, value in found.items() if not math.isnan(value))
            self._console.print(f"  epoch {record.epoch}: evaluation loss {record.eval_loss:.4f}{scores}")
            return
        detail = f"loss {record.loss:.4f}  {record.tokens_per_second:,.0f} tokens/s"
        if self._live:
            self._progress.update(
                self._step,
                description=f"Trainer step {record.step}/{record.total_steps}",
                total=record.total_steps,
                completed=record.step,
                detail=detail,
            )
        elif time.monotonic() - self._said > _PLAIN_SECONDS:
            self._said = time.monotonic()
            self._console.print(f"  step {record.step}/{record.total_steps}  {detail}")


def step_line(event: events.StepFinished) -> str:
    if event.cached:
        return f"[green]✓[/] {event.name:<17} cached: nothing it depends on changed"
    shown = "; ".join(event.reasons[:3]) + (f"; and {len(event.reasons) - 3} more" if len(event.reasons) > 3 else "")
    return f"[green]✓[/] {event.name:<17} {event.seconds:6.1f} s  [dim]{shown}[/]"


def show_summary(console: Console, summary: Summary, next_commands: list[tuple[str, str]]) -> None:
    """The end of a run, for a person."""
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, value in _facts(summary):
        table.add_row(f"[bold]{name}[/]", value)
    console.print()
    console.print(table)
    if summary.seeds:
        show_seeds(console, summary.seeds)
    if next_commands:
        console.print("\nNext:" if summary.pushed_version else "\nNext, for a model that passes:")
        for command, purpose in next_commands:
            line = Text("  ").append(command, "cyan").append("   " if command else "").append(f"# {purpose}")
            console.print(line, soft_wrap=True)


def _facts(summary: Summary) -> Iterator[tuple[str, str]]:
    rows = summary.rows
    tested = f" {rows['test']:,} for test," if "test" in rows else ""
    yield (
        "examples",
        (
            f"{rows.get('read', 0):,} read: {rows.get('train', 0):,} for training, {rows.get('eval', 0):,} for evaluation,"
            f"{tested} {rows.get('excluded', 0):,} left out on purpose{_by_settings(rows.get('left_out', {}))},"
            f" {rows.get('quarantined', 0):,} quarantined"
        ),
    )
    if summary.positive:
        yield "positive class", f"{summary.positive}   ({summary.positive_why}; the class of f1, precision and recall)"
    if fallback := without_encoder(summary.kind, summary.task):
        yield "model", f"[yellow]{fallback}[/], no encoder   ({summary.kind_why})"
    majority = summary.baseline.get("majority") or {}
    for metric, value in summary.metrics.items():
        if metric == "accuracy" and majority:
            yield metric, f"{_number(value)}   (always predicting {majority['label']!r}: {majority['accuracy']:.4f})"
        elif metric != "rows":
            why = summary.undefined.get(metric)
            yield metric, f"undefined: {why}" if why else _number(value)
    for metric, found in summary.test.items():
        yield f"test {metric}", f"{_number(found['value'])}  ({found['low']:.4f} to {found['high']:.4f})"
    yield from summary.decided_how.items()
    for name, found in summary.baselines.items():
        metric, value = next(iter(found.items()))
        yield "  baseline", f"{name}: {metric} {_number(value)}"
    before = summary.baseline.get("pushed")
    if before:
        yield "pushed before", "  ".join(f"{name} {_number(value)}" for name, value in before.items() if name != "rows")
    for name, values in _shown_classes(summary.classes).items():
        scores = "  ".join(f"{score} {_number(values[score])}" for score in ("precision", "recall", "f1"))
        counted = list(values)[-1]
        yield f"  class {name}", f"{scores}  on {values[counted]:.0f} {_COUNTED.get(counted, counted)}"
    if len(summary.classes) > _SHOWN_CLASSES:
        measured = sum(map(_is_measured, summary.classes.values()))
        rest, without = max(0, measured - _WORST_CLASSES), len(summary.classes) - measured
        unmeasured = f"; {without} without evaluation examples" if without else ""
        yield "  …", f"{rest} more with a higher f1; see bertline report --last{unmeasured}"
    first = next(iter(summary.metrics), "")
    for name, values in summary.slices.items():
        yield f"  {name}", f"{first} {_number(values[first])} on {values['rows']:.0f} examples"
    if summary.anomalies_allowed:
        yield "anomalies", "[yellow]allowed by --allow-anomalies[/]"
    if summary.blessed is not None:
        yield "blessed", "[green]yes[/]" if summary.blessed else "[red]no[/]: " + "; ".join(summary.reasons)
    if summary.serve_check.get("blessed"):
        yield "served", _served(summary.serve_check)
    if summary.pushed_version:
        how = "" if summary.fresh_push else "  (already pushed: the same model is not pushed twice)"
        if summary.newest_version != summary.pushed_version:
            how += f"; servers load version {summary.newest_version}, the newest"
        yield "pushed", f"version {summary.pushed_version}  {from_here(summary.pushed_path)}{how}"
    elif summary.withdrawn_version:
        back = f"`bertline rollback --to {summary.withdrawn_version}` restores it"
        yield "pushed", f"nothing: this model is version {summary.withdrawn_version}, which was withdrawn; {back}"
    elif summary.blessed is not None:
        yield "pushed", "nothing"
    if summary.mlflow_run_id:
        yield "MLflow run", f"{summary.mlflow_run_id}  in {from_here(summary.mlflow_uri)}"
    if summary.tracking_problem:
        yield "tracking", f"[yellow]incomplete[/]: {summary.tracking_problem}"
    cached = sum(step["cached"] for step in summary.steps)
    yield "time", f"{summary.seconds:.0f} s, {cached} of {len(summary.steps)} steps cached"
    if summary.log:
        yield "log", from_here(summary.log)


def _shown_classes(classes: Mapping[str, Mapping[str, float]]) -> Mapping[str, Mapping[str, float]]:
    """All of a few classes; of many the worst, because a table of all of them hides just those."""
    if len(classes) <= _SHOWN_CLASSES:
        return classes
    measured = [name for name, values in classes.items() if _is_measured(values)]
    worst = sorted(measured, key=lambda name: -1 if math.isnan(classes[name]["f1"]) else classes[name]["f1"])
    return {name: classes[name] for name in worst[:_WORST_CLASSES]}


def _is_measured(values: Mapping[str, float]) -> bool:
    """Whether evaluation examples have the class; the last number counts them."""
    return list(values.values())[-1] > 0


def _number(value: float) -> str:
    return "undefined" if math.isnan(value) else f"{value:.4f}"


def _by_settings(counts: dict[str, int]) -> str:
    """Which settings have left rows out, or what their source says of them, and how many each; nothing without any.

    >>> _by_settings({"data.max_words": 1200, "rejected in Prodigy": 3})
    ' (1,200 by data.max_words, 3 rejected in Prodigy)'
    """
    by = {reason: f"by {reason}" if reason.startswith("data.") else reason for reason in counts}
    shown = ", ".join(f"{count:,} {by[reason]}" for reason, count in counts.items())
    return f" ({shown})" if shown else ""


def _served(report: dict[str, Any]) -> str:
    if not report["samples"]:
        return f"loaded by {report['server']}; no sample requests"
    alike = f"{report['samples']} sample requests: {report['server']} responds as the trained model does"
    return f"{alike}, median {report['median_ms']:.3g} ms"
