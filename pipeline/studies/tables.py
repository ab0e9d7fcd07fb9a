"""The tables at the end of several runs, for a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from bertline.pipeline.core.paths import from_here
from bertline.pipeline.studies.statistics import Spread

if TYPE_CHECKING:
    from bertline.pipeline.studies.search import SearchReport

_SHOWN_METRICS = 5  # more do not fit beside each other; summary.json has all


def show_seeds(console: Console, seeds: Mapping[str, Any]) -> None:
    """A line a seed, then mean and standard deviation; `seeds` is the summary's."""
    metrics = _chosen(seeds["metric"], seeds["spread"]["mean"])
    table = Table(box=None, padding=(0, 2, 0, 0))
    for title in ("seed", *metrics, "collapsed", "blessed", "pushed"):
        table.add_column(title, justify="right" if title in metrics else "left")
    for run in seeds["runs"]:
        values = [f"{run['metrics'][name]:.4f}" if run["metrics"] else "–" for name in metrics]
        collapsed = "[red]yes[/]" if run["collapsed"] else "no"
        table.add_row(str(run["seed"]), *values, collapsed, _yes_or_no(run["blessed"]), _yes_or_no(run["pushed"]))
    rows = [("mean ± std", seeds["spread"]), ("without collapsed", seeds["without_collapsed"])]
    for title, values in rows:
        if values:
            spread = Spread(**values)
            table.add_row(f"[bold]{title}[/]", *(spread.shown(name) for name in metrics))
    console.print()
    console.print(table)
    for run in seeds["runs"]:
        if run["collapsed"]:
            console.print(f"[yellow]seed {run['seed']} learned nothing[/]: {'; '.join(run['collapsed'])}", soft_wrap=True)


def show_search(console: Console, report: SearchReport) -> None:
    """A line a trial, the best first, and the command that trains with its settings."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column(report.metric, justify="right")
    names = list(report.trials[0].settings)
    for title in (*names, "trial", "blessed"):
        table.add_column(title)
    for trial in report.trials:
        value = "[red]failed[/]" if trial.value is None else f"{trial.value:.4f}"
        settings = [str(trial.settings[name]) for name in names]
        table.add_row(value, *settings, str(trial.number), "" if trial.value is None else _yes_or_no(trial.blessed))
    console.print()
    console.print(table)
    console.print()
    if report.mlflow_run_id:
        console.print(f"MLflow run  {report.mlflow_run_id}  in {from_here(report.mlflow_uri)}", soft_wrap=True)
    if report.tracking_problem:
        console.print(f"tracking    [yellow]incomplete[/]: {report.tracking_problem}", soft_wrap=True)
    console.print(f"time        {report.seconds:.0f} s")
    console.print(f"[yellow]note[/] {report.caution}", soft_wrap=True)
    console.print("\nNext:")
    console.print(
        f"  [cyan]{report.command}[/]   # train with them; the trial is cached, and a blessed model is pushed",
        soft_wrap=True,
    )


def _chosen(first: str, metrics: Mapping[str, float]) -> list[str]:
    return [first, *(name for name in metrics if name != first)][:_SHOWN_METRICS]


def _yes_or_no(value: bool) -> str:
    return "[green]yes[/]" if value else "no"
