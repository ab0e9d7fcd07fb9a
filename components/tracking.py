"""The record of a run in MLflow; `encoder_run.py` reads it again.

A `Tracker` listens to the line's events and writes them to MLflow from a thread of its own: a store that is slow, down or
full never delays or fails a step. What could not be written is said once, at the end.
"""

from __future__ import annotations

import json
import logging
import math
import platform
import queue
import re
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from components import events
from components.encoder_run import open_store
from components.plots import confusion_matrix, learning_curves
from components.verdict import Verdict
from pipeline.config import Config

_START_SECONDS = 60  # creating a new sqlite store takes MLflow several seconds on two busy cores
_FINISH_SECONDS = 30
_FLUSH_SECONDS = 2.0
_MAX_PARAM = 6000
_MAX_TAG = 5000
_MAX_KEY = 250
_BATCH = 100
_PARENT = "mlflow.parentRunId"  # by which MLflow's own pages show one run under another


@dataclass(frozen=True, kw_only=True)
class Part:
    """What a run is among several, as of seeds: one of them, or the one that they stand under."""

    title: str
    tags: Mapping[str, str] = field(default_factory=dict)
    parent: str | None = None
    """The id of the MLflow run that it stands under."""


class Tracker:
    """One MLflow run for one run of the line.

    Example:
      tracker = Tracker(config, run_id); tracker.start()
      with events.listening(tracker.hear): …
      tracker.finish("FINISHED", verdict, tags)
    """

    def __init__(self, config: Config, run_id: str, part: Part | None = None) -> None:
        self._config, self._line_run_id = config, run_id
        self._part = part or Part(title=f"{config.name} {run_id[:19]}")
        self.mlflow_run_id: str | None = None
        """None until the run is open, and for good where it could not be opened."""
        self.problem: str | None = None
        self._work: queue.Queue[Callable[[], None] | None] = queue.Queue()
        self._buffer: list[tuple[str, float, int, int]] = []  # key, value, milliseconds, step
        self._flushed = time.monotonic()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tracking", daemon=True)

    def start(self) -> None:
        """Opens the run; returns when it is open, or when waiting longer would hold up the line."""
        if not self._config.tracking.enabled:
            return
        self._thread.start()
        self._work.put(self._open)
        self._started.wait(_START_SECONDS)

    def hear(self, event: events.Event) -> None:
        """Takes an event in microseconds; the thread writes it."""
        if isinstance(event, events.Training):
            self._log_record(event.record.numbers())
        elif isinstance(event, events.StepFinished):
            self._measure(f"step/{event.name}/seconds", event.seconds, 0)
            self._work.put(lambda: self._tag(f"step.{event.name}", "cached" if event.cached else "run"))

    def log_history(self, history: Path) -> None:
        """The learning curve of a training that came from the cache, so that the run can be compared all the same."""
        for line in history.read_text().splitlines():
            self._log_record(json.loads(line))

    def measure(self, values: Mapping[str, float | None]) -> None:
        """Numbers of the run as a whole; what is not known is left out."""
        for name, value in values.items():
            if value is not None:
                self._measure(name, value, 0)

    def keep(self, name: str, text: str) -> None:
        """A text as a file of the run."""
        self._work.put(lambda: self._client.log_text(self._run_id, text, name))

    def tag_part(self, run_id: str | None, tags: Mapping[str, str]) -> None:
        """Tags of a run that stands under this one, which has ended."""
        if run_id:
            self._work.put(lambda: self._tag_all(tags, run_id))

    def finish(self, status: str, tags: Mapping[str, str], verdict: Verdict | None, history: Path | None) -> None:
        """Closes the run. `status` is MLflow's: FINISHED, FAILED or KILLED."""
        if not self._thread.is_alive():
            return
        if verdict:
            for metric, value in verdict.metrics.items():
                self._measure(f"eval/{metric}", value, 0)
            for name, values in verdict.slices.items():
                for metric, value in values.items():
                    self._measure(f"slice/{name}/{metric}", value, 0)
            for name, values in verdict.classes.items():
                for metric, value in values.items():
                    self._measure(f"class/{name}/{metric}", value, 0)
        self._flush()
        self._work.put(lambda: self._close(status, dict(tags), verdict, history))
        self._work.put(None)
        self._thread.join(_FINISH_SECONDS)
        if self._thread.is_alive():
            self.problem = self.problem or f"it did not answer within {_FINISH_SECONDS} s"

    # What follows runs in the tracker's thread.

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            try:
                if self.problem is None or self.mlflow_run_id:  # nothing more to write where no run could be opened
                    work()
            except Exception as error:
                logging.exception("tracking")
                self.problem = self.problem or f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
            finally:
                self._started.set()

    def _open(self) -> None:
        config = self._config
        self._client = open_store(config.tracking_uri)
        name = config.tracking.experiment or config.name
        experiment = self._client.get_experiment_by_name(name)
        # A local store keeps its files in the workspace; a server decides for itself.
        local = config.tracking_uri.startswith("sqlite:")
        location = (Path(config.workspace) / "mlflow-artifacts").as_uri() if local else None
        experiment_id = experiment.experiment_id if experiment else self._client.create_experiment(name, location)
        run = self._client.create_run(experiment_id, run_name=self._part.title)
        self._client.log_text(run.info.run_id, json.dumps(config.model_dump(mode="json"), indent=1), "config.json")
        self._log_params(run.info.run_id, {**config.flat(), **_environment()})
        self.mlflow_run_id = self._run_id = run.info.run_id
        tags = {"pipeline": config.name, "line_run_id": self._line_run_id, **self._part.tags, **_commit()}
        if self._part.parent:
            tags[_PARENT] = self._part.parent
        if config.tracking.encoder_run:
            tags["encoder_run"] = config.tracking.encoder_run
        self._tag_all(tags)

    def _log_params(self, run_id: str, values: Mapping[str, Any]) -> None:
        from mlflow.entities import Param

        params = [Param(_key(key), str(value)[:_MAX_PARAM]) for key, value in values.items()]
        for begin in range(0, len(params), _BATCH):
            self._client.log_batch(run_id, params=params[begin : begin + _BATCH])

    def _tag(self, key: str, value: str) -> None:
        self._tag_all({key: value})

    def _tag_all(self, tags: Mapping[str, str], run_id: str | None = None) -> None:
        for key, value in tags.items():
            self._client.set_tag(run_id or self._run_id, _key(key), value[:_MAX_TAG])

    def _close(self, status: str, tags: Mapping[str, str], verdict: Verdict | None, history: Path | None) -> None:
        self._tag_all(tags)
        if verdict:
            self._client.log_text(self._run_id, verdict.to_json(), "verdict.json")
            if verdict.confusion:
                self._client.log_figure(self._run_id, confusion_matrix(verdict), "confusion_matrix.png")
        if history and history.exists():
            records = [json.loads(line) for line in history.read_text().splitlines()]
            self._client.log_figure(self._run_id, learning_curves(records), "learning_curves.png")
        self._client.set_terminated(self._run_id, status)

    # Metrics are gathered, and sent together every few seconds.

    def _log_record(self, record: Mapping[str, Any]) -> None:
        kind = "eval_epoch" if "eval_loss" in record else "train"
        for key, value in record.items():
            if key not in ("step", "total_steps") and not math.isnan(value):  # a task without right and wrong answers
                self._measure(f"{kind}/{key.removeprefix('eval_')}", value, record["step"])
        if time.monotonic() - self._flushed > _FLUSH_SECONDS:
            self._flush()

    def _measure(self, key: str, value: float, step: int) -> None:
        self._buffer.append((_key(key), float(value), int(time.time() * 1000), step))

    def _flush(self) -> None:
        ready, self._buffer = self._buffer, []
        self._flushed = time.monotonic()
        if ready:
            self._work.put(lambda: self._send(ready))

    def _send(self, ready: list[tuple[str, float, int, int]]) -> None:
        from mlflow.entities import Metric

        metrics = [Metric(*measured) for measured in ready]
        for begin in range(0, len(metrics), 1000):
            self._client.log_batch(self._run_id, metrics=metrics[begin : begin + 1000])


def _key(name: str) -> str:
    """MLflow takes letters, digits and `_-. :/` in a name."""
    return re.sub(r"[^\w\-. :/]", "_", name)[:_MAX_KEY]


def _environment() -> dict[str, str]:
    packages = ("tensorflow-cpu", "tensorflow", "keras", "tfx", "apache-beam", "tensorflow-text")
    found = {f"version.{name}": _version(name) for name in packages}
    return {"version.python": platform.python_version(), **{key: value for key, value in found.items() if value}}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _commit() -> dict[str, str]:
    """The commit of the code, and whether it was changed since; nothing outside a git checkout."""
    folder = Path(__file__).parent

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10, check=True
        ).stdout.strip()

    try:
        return {"git.commit": git("rev-parse", "HEAD"), "git.dirty": str(bool(git("status", "--porcelain"))).lower()}
    except (OSError, subprocess.SubprocessError):
        return {}
