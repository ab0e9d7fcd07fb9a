"""`bertline run`: the pipeline, with a display and a log file around it."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from bertline.pipeline.config import Config
from bertline.pipeline.console.session import Stage, stage
from bertline.pipeline.console.summary import Summary
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.orchestration.fingerprints import InputDigests
from bertline.pipeline.orchestration.unchanged import fingerprint, run_from_cache

_LOADING = "loading TensorFlow and TFX"


@dataclass(frozen=True)
class Started:
    """How the user started the run."""

    source: str | None
    """The config file or preset; None where the settings were given from Python, which no command can name."""
    overrides: Sequence[str] = ()
    """Of --set."""
    at: float = field(default_factory=time.perf_counter)
    """When, by the clock of `time.perf_counter`: TensorFlow takes longer to load than a small model to train."""


def run_line(
    config: Config, started: Started, *, again_from: str | None = None, as_json: bool = False, quiet: bool = False
) -> Summary:
    """Runs the pipeline for `config` once, or for each of its seeds; returns the summary.

    Args:
      started: how the user asked for it, for what is suggested at the end.
      quiet: nothing is printed.
    """
    with stage(config, as_json=as_json or quiet) as at:
        try:
            summary = _run(config, again_from, at)
        except BertlineError as error:
            _write_failure(config, at.log, error)
            raise
        summary.seconds = round(time.perf_counter() - started.at, 1)
        summary.write(config)
        if as_json:
            at.print_json(asdict(summary))
        else:
            from bertline.pipeline.console.display import show_summary
            from bertline.pipeline.console.next_steps import next_steps

            steps = [] if quiet or started.source is None else next_steps(config, started, summary)
            show_summary(at.console, summary, steps)
    return summary


def _run(config: Config, again_from: str | None, at: Stage) -> Summary:
    with at.working() as display:
        if config.seeds:
            with display.waiting(_LOADING):
                from bertline.pipeline.studies.seeds import run_seeds
            return run_seeds(config, at, again_from)
        with display.waiting("checking the data"):
            digests = InputDigests.of(config)
            known_by = fingerprint(config, digests)
        if not again_from and (unchanged := run_from_cache(config, known_by, at.log)):
            return unchanged
        with display.waiting(_LOADING):
            from bertline.pipeline.orchestration.builder import create_pipeline
            from bertline.pipeline.orchestration.runner import LocalEngine
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
