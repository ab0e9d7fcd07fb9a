"""`bertline run`: the line, with a display and a log file around it."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import asdict, replace
from pathlib import Path

from pipeline.config import Config
from pipeline.errors import BertlineError
from pipeline.fingerprints import InputDigests
from pipeline.stage import Stage, stage
from pipeline.summary import Summary
from pipeline.unchanged import fingerprint, run_from_cache

_LOADING = "loading TensorFlow and TFX"


def run_line(config: Config, source: str, *, again_from: str | None = None, as_json: bool = False) -> Summary:
    """Runs the line for `config`, which was read from `source`, once or for each of its seeds; returns the summary."""
    with stage(config, as_json=as_json) as at:
        try:
            summary = _run(config, again_from, at)
        except BertlineError as error:
            _write_failure(config, at.log, error)
            raise
        if as_json:
            at.print_json(asdict(summary))
        else:
            from pipeline.display import show_summary

            show_summary(at.console, summary, _next_commands(config, source))
    return summary


def _run(config: Config, again_from: str | None, at: Stage) -> Summary:
    with at.working() as display:
        if config.seeds:
            with display.waiting(_LOADING):
                from pipeline.seeds import run_seeds
            return run_seeds(config, at, again_from)
        with display.waiting("looking at the data"):
            digests = InputDigests.of(config)
            known_by = fingerprint(config, digests)
        if not again_from and (unchanged := run_from_cache(config, known_by, at.log)):
            return unchanged
        with display.waiting(_LOADING):
            from pipeline.build import create_pipeline
            from pipeline.engine import LocalEngine
        engine = LocalEngine(config, again_from, fingerprint=known_by)
        engine.record.summary.log = str(at.log)
        engine.run(create_pipeline(config, digests=digests))
        return engine.record.summary


def _write_failure(config: Config, log: Path, error: BertlineError) -> None:
    """A failure before the engine took over (a missing file, say) is in the summary all the same."""
    path = Path(config.workspace) / "summary.json"
    current = json.loads(path.read_text()) if path.exists() else {}
    if current.get("log") != str(log):
        failed = Summary(name=config.name, task=config.task, status="failed", error=str(error), log=str(log))
        replace(failed, destination=str(config.push_path)).write(config)


def program(name: str) -> str:
    """How a command of ours is called from where the user stands."""
    return name if shutil.which(name) else f"{Path(sys.executable).parent}/{name}".replace(f"{Path.cwd()}/", "")


def _next_commands(config: Config, source: str) -> list[tuple[str, str]]:
    """Three commands that work as they are, from where the user stands."""
    here = f"{Path.cwd()}/"
    bertline = program("bertline")
    elsewhere = "" if config.workspace == f"{here}workspace" else f" --workspace {config.workspace.replace(here, '')}"
    again = f"run {source}{elsewhere} --set training.epochs={config.training.epochs + 1}"
    asked = '"A film to remember."'
    if config.task == "pretraining":
        asked = '--mask "The [MASK] is over."'
    elif config.task == "tagging":
        asked = '"Ada Lovelace lived in London."'
    elif config.task == "answering":
        asked = '"Who ate?" --second "A man ate an apple."'
    elif len(config.data.text_columns) == 2:
        asked = '"A man is eating." --second "Somebody eats."'
    if config.task in ("matching", "similarity"):
        asked = '--embed "A man is eating."'
    if config.data.choices:
        asked += ' --choice "It is good." --choice "It is over."'
    return [
        (f"{bertline} predict{elsewhere} {asked}", "ask the pushed model"),
        (f"{bertline} ui{elsewhere}", "curves, slices and the confusion matrix, beside other runs"),
        (f"{bertline} {again}", "train longer; only the Trainer and what follows run"),
    ]
