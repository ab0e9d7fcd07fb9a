"""`bertline watch`: the pipeline again, whenever there is new data."""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
import time
from pathlib import Path

import click

from bertline.pipeline.config import Config
from bertline.pipeline.core.child_process import environment_of_child
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.core.machine import require_workspace

STATE = "watched.json"
Look = list[list[str | int]]
"""Path, size and time of change of each raw file."""


@click.command()
@click.argument("config")
@click.option(
    "--every",
    type=click.FloatRange(min=0.1),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="How often to check.",
)
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change a setting of the config.")
@click.option("--workspace", metavar="DIR", help="Folder for everything the runs write. [default: ./workspace]")
@click.option("--once", is_flag=True, help="Check once, run if there is something new, and exit: for cron and the like.")
def watch(config: str, every: float, overrides: tuple[str, ...], workspace: str | None, once: bool) -> None:
    """Run the pipeline whenever its data changes, and push only what beats the currently pushed model.

    Files are read when they have not changed between two checks, so that a file is not read while it is written; --once
    takes them as they are. After a run that is refused or fails, watching continues. The files of the last run are
    remembered in the workspace.

    \b
    data:
      path: incoming/rows-{SPAN}.csv     rows-1.csv, rows-2.csv, … as they arrive
      spans: 30                          only the newest 30; all by default

    \b
    bertline watch my.yaml                       until Ctrl-C
    bertline watch my.yaml --once                from cron; exit code as of `bertline run`, 0 where nothing is new
    """
    from bertline.pipeline.settings.loader import load

    asked = (*overrides, "evaluation.must_beat=true")
    loaded = load(config, asked, workspace=workspace)
    require_workspace(loaded.workspace)  # or else each run would be refused, and the next data waited for
    if once:
        sys.exit(_once(loaded, config, asked))
    click.echo(f"watching {_watched(loaded)}, every {every:g} s; Ctrl-C to stop", err=True)
    seen, told = None, ""
    while True:
        try:
            now = look(loaded)
        except BertlineError as error:  # there is nothing yet, perhaps
            now = None
            if told != str(error):
                click.echo(f"{error} Waiting.", err=True)
            told = str(error)
        if now and now == seen and now != _done(loaded):
            _run(loaded, config, asked, now)
            click.echo("waiting for new data", err=True)
        seen = now
        time.sleep(every)


def look(config: Config) -> Look:
    """The raw files as they are now."""
    from bertline.components.ingest.files import find_files

    if config.data.query is not None:
        raise BertlineError("data.query: watch waits for files; for a database, run `bertline run` from a scheduler.")

    paths = sorted({path for file in find_files(config.data) for path in file.paths})
    try:
        return [[path, (found := Path(path).stat()).st_size, found.st_mtime_ns] for path in paths]
    except OSError as error:
        raise BertlineError(f"{error.filename}: removed while it was read.") from None


def _once(config: Config, source: str, overrides: tuple[str, ...]) -> int:
    now = look(config)
    if now == _done(config):
        click.echo("nothing new", err=True)
        return 0
    return _run(config, source, overrides, now)


def _run(config: Config, source: str, overrides: tuple[str, ...], now: Look) -> int:
    """In a process of its own: what a training took of memory is given back, and a crash ends that run alone."""
    stamp = datetime.datetime.now().strftime("%Y-%m-%d %H:%M:%S")
    click.echo(f"{stamp}  {len(now)} {'file' if len(now) == 1 else 'files'}: running the pipeline", err=True)
    settings = [part for override in overrides for part in ("--set", override)]
    command = [sys.executable, "-m", "bertline.pipeline.cli", "run", source, "--workspace", config.workspace, *settings]
    code = subprocess.run(command, env=environment_of_child()).returncode
    if code in (130, -2):
        raise KeyboardInterrupt
    if code >= 0:  # one that was killed has said nothing about its data, and is run again
        config.home.mkdir(parents=True, exist_ok=True)
        (config.home / STATE).write_text(json.dumps(now))
    told = {0: "pushed", 3: "refused; the pushed model is unchanged"}.get(code, f"failed ({code})")
    click.echo(told, err=True)
    return code


def _done(config: Config) -> Look | None:
    """What the last run was on."""
    try:
        return list(json.loads((config.home / STATE).read_text()))
    except (OSError, ValueError):
        return None


def _watched(config: Config) -> str:
    return ", ".join(path for path in (config.data.path, config.data.train, config.data.eval, config.data.test) if path)
