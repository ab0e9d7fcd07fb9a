"""`bertline report`: one run for somebody who was not there."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import click

from bertline.pipeline.commands.runs import console, named_run
from bertline.pipeline.core import environment
from bertline.pipeline.core.errors import BertlineError


@click.command()
@click.argument("reference", required=False, metavar="RUN")
@click.option("--last", is_flag=True, help="The newest run, instead of RUN.")
@click.option("--name", metavar="PIPELINE", help="Pipeline of --last, and of a version.")
@click.option(
    "-o", "--out", type=click.Path(dir_okay=False), metavar="FILE", help="[default: WORKSPACE/reports/PIPELINE-RUN.html]"
)
@click.option("--open", "opens", is_flag=True, help="Show the page in a browser.")
@click.option("--json", "as_json", is_flag=True, help="Everything on the page, as JSON; the page is written only with -o.")
@click.option("--workspace", default="workspace", show_default=True)
def report(
    reference: str | None,
    last: bool,
    name: str | None,
    out: str | None,
    opens: bool,
    as_json: bool,
    workspace: str,
) -> None:
    """Write a report of a run as one page: data, model, results with intervals, slices, errors, curves, cost, lineage.

    RUN is the id of a run or its first digits, as `bertline runs` lists them, or the version of a model that was pushed, as
    v7. A run that failed, or whose model was refused, says why. Of several seeds, or a search, all stand side by side, and
    the rest is about the best.

    The page needs no other file and no network; it holds texts of your evaluation examples. What a run has not recorded,
    its section says.

    \b
    bertline report --last --open        the newest run, in a browser
    bertline report 3f2a -o report.html  to be sent to others
    bertline report v7                   the run that made version 7
    bertline report --last --json        for a program
    """
    if bool(reference) == last:
        raise BertlineError("give one run, or --last for the newest; `bertline runs` lists them.")
    environment.prepare()
    from bertline.pipeline.runs.report.report import newest, report_of
    from bertline.pipeline.runs.store import run_store

    with run_store(workspace, "the run") as store:
        run = named_run(store, reference, name, workspace) if reference else newest(store, name)
        made = report_of(store, run)
    if as_json:
        click.echo(made.to_json())
    if out or opens or not as_json:
        from bertline.pipeline.runs.report.page import render

        path = Path(out) if out else _default(workspace, run.pipeline or "run", run.short_id)
        render(made).write(path, "-o")
        if not as_json:
            from bertline.pipeline.runs.report.terminal import show

            show(console(), made)
        click.echo(f"written to {path}", err=True)
        if opens and not webbrowser.open(path.absolute().as_uri()):
            click.echo(f"no browser was found; open {path} in one.", err=True)


def _default(workspace: str, pipeline: str, short_id: str) -> Path:
    folder = Path(workspace) / "reports"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BertlineError(f"{folder}: {error.strerror}; name a file by -o.") from error
    return folder / f"{Path(pipeline).name}-{short_id}.html"
