"""`bertline runs` and `bertline compare`: what the record of runs is asked; `report.py` has `bertline report`."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from bertline.pipeline.core import environment
from bertline.pipeline.core.errors import BertlineError

if TYPE_CHECKING:
    from bertline.pipeline.runs.compare.comparison import Comparison
    from bertline.pipeline.runs.store import Run, RunStore


@click.command()
@click.option("--last", type=click.IntRange(1, 1000), default=10, show_default=True, metavar="N", help="How many of them.")
@click.option("--name", metavar="PIPELINE", help="Only those of this pipeline.")
@click.option("--all", "parts", is_flag=True, help="Also the child runs: seeds, or trials of a search.")
@click.option("--json", "as_json", is_flag=True, help="Every metric too, as JSON.")
@click.option("--workspace", default="workspace", show_default=True)
def runs(last: int, name: str | None, parts: bool, as_json: bool, workspace: str) -> None:
    """List recorded runs, newest first.

    The metrics are those with a bound; `changed` is what differs in the settings from the run before of the same pipeline.

    \b
    bertline runs                       the last 10 of the workspace's store
    bertline runs --name reviews --all  of one pipeline, each seed and trial by itself
    bertline runs --last 100 --json     for a program
    """
    from bertline.pipeline.runs import listing
    from bertline.pipeline.runs.store import run_store

    with run_store(workspace, "runs") as store:
        listed = listing.list_runs(store, last, pipeline=name, parts=parts)
    if as_json:
        click.echo(json.dumps(listing.as_json(listed), indent=1, allow_nan=False))
    elif not listed:
        of = f" of {name}" if name else ""
        click.echo(f"no run{of} is recorded yet; `bertline run` creates one.", err=True)
    else:
        listing.show_runs(console(), listed)


@click.command()
@click.argument("references", nargs=-1, metavar="RUN...")
@click.option("--last", type=click.IntRange(2, 20), metavar="N", help="The last N runs of a pipeline, instead of RUN....")
@click.option("--name", metavar="PIPELINE", help="Pipeline of --last, and of versions. [default: that of the newest run]")
@click.option("--html", type=click.Path(dir_okay=False), metavar="FILE", help="Write a page that needs no other file.")
@click.option("--json", "as_json", is_flag=True, help="Everything, as JSON.")
@click.option("--workspace", default="workspace", show_default=True)
def compare(
    references: tuple[str, ...], last: int | None, name: str | None, html: str | None, as_json: bool, workspace: str
) -> None:
    """Compare runs: settings, metrics, slices, learning curves, and predictions that flipped.

    RUN is the id of a run or its first digits, as `bertline runs` lists them, or the version of a model that was pushed, as
    v7. The first one is the reference that the others are measured against; of --last it is the oldest.

    A difference has an interval, by bootstrap over the evaluation examples that both runs have answered: one that holds 0
    may be chance. It is about these rows alone; another seed of the same training may differ by more.

    \b
    bertline compare 3f2a 9c01                     two runs; 3f2a is the reference
    bertline compare v6 v7 --html compare.html     two versions, as a page to send to others
    bertline compare --last 5 --name reviews       how a pipeline went on
    bertline compare 3f2a 9c01 --json              for a program
    """
    if bool(references) == bool(last):
        raise BertlineError("give two runs or more, or --last N; `bertline runs` lists them.")
    if len(references) == 1:
        raise BertlineError(f"{references[0]} is one run; give another one to compare it with.")
    comparison = compared(references, last, name, workspace)
    from bertline.pipeline.runs.compare.comparison import to_json
    from bertline.pipeline.runs.compare.tables import show

    if as_json:
        click.echo(to_json(comparison))
    elif not html:
        show(console(), comparison)
    if html:
        from bertline.pipeline.runs.compare.page import render

        render(comparison).write(Path(html), "--html")
        click.echo(f"written to {html}", err=True)


def compared(references: Sequence[str], last: int | None, name: str | None, workspace: str) -> Comparison:
    """The runs of the references, or the last ones of a pipeline, beside each other."""
    environment.prepare()
    from bertline.pipeline.runs.compare.comparison import compare
    from bertline.pipeline.runs.store import run_store

    with run_store(workspace, "the runs") as store:
        if last:
            return compare(store, _newest(store, last, name))
        return compare(store, [named_run(store, reference, name, workspace) for reference in references])


def _newest(store: RunStore, count: int, name: str | None) -> list[Run]:
    """Of one pipeline; the oldest first, for it is the reference."""
    newest = store.newest(1, pipeline=name)
    runs = store.newest(count, pipeline=name or newest[0].pipeline) if newest else []
    if len(runs) < 2:
        of = f" of {name}" if name else ""
        raise BertlineError(f"fewer than two runs{of} are recorded; `bertline runs` lists them.")
    return runs[::-1]


def named_run(store: RunStore, reference: str, name: str | None, workspace: str) -> Run:
    """The run that RUN of a command line stands for: an id, the first digits of one, or a version such as v7."""
    if not re.fullmatch(r"v[0-9]+", reference):
        return store.find(reference)
    from bertline.pipeline.commands.versions import destination_of
    from bertline.pipeline.runs.lineage import find_lineage

    found = find_lineage(destination_of(name, workspace), int(reference[1:]), workspace)
    if not found["mlflow_run_id"]:
        raise BertlineError(f"the run of version {reference[1:]} is not known: {found['problem']}.")
    return store.find(found["mlflow_run_id"])


def console() -> Console:
    # Where there is no terminal there is no width either: lines are left to whoever reads them.
    return Console(highlight=False, width=None if sys.stdout.isatty() else 160)
