"""A study: several runs of one line that are looked at together, under one parent run in MLflow.

Only what differs between the runs is done again, the rest comes from TFX's cache; so does a study that broke off, when the
same command is given again.
"""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import keras

from bertline.components.evaluator.verdict import Verdict
from bertline.components.tracking.tracker import Part, Tracker, identity_of
from bertline.pipeline.config import Config, without_password
from bertline.pipeline.console.summary import Summary
from bertline.pipeline.core import events
from bertline.pipeline.orchestration.builder import create_pipeline
from bertline.pipeline.orchestration.fallback import without_fallback
from bertline.pipeline.orchestration.runner import LocalEngine
from bertline.pipeline.runs.record import only_run


@dataclass(frozen=True)
class Outcome:
    """What one run of a study came to."""

    summary: Summary
    verdict: Verdict
    losses: list[float]
    """Training loss of each step."""


class Study:
    """Runs the pipeline several times; `recorded` keeps the parent run true, however the study ends.

    Args:
      config: of the study as a whole.
      kind: what the runs differ in, in a word.
    """

    def __init__(self, config: Config, kind: str) -> None:
        self._config, self._kind = config, kind
        self._began = time.perf_counter()
        run_id = datetime.datetime.now().isoformat()
        part = Part(title=f"{config.name} {kind} {run_id[:19]}", tags={"study": kind})
        self.tracker = Tracker(config, run_id, part, identity=identity_of(kind, config.to_json()))
        self.tags: dict[str, str] = {}
        """What is to be known of the study at a glance; tags of the parent run."""
        self.summary = Summary(
            name=config.name,
            task=config.task,
            mlflow_uri=without_password(config.tracking_uri),
            destination=str(config.push_path),
        )
        """Of all runs together."""
        self.step = ""
        """The step at which the last run is, or stopped."""
        self.last: Summary | None = None
        """Of the last run, whether it came to an end or not."""
        self.has_begun = False

    @contextmanager
    def recorded(self) -> Iterator[None]:
        status = "FAILED"
        with only_run(self._config, ".study-lock"), events.listening(self._note_step):
            self.has_begun = True
            self.tracker.start()
            try:
                yield
                status, self.summary.status = "FINISHED", "succeeded"
            except KeyboardInterrupt:
                status, self.summary.status = "KILLED", "interrupted"
                raise
            except BaseException as error:
                self.summary.status, self.summary.error = "failed", str(error)
                self.summary.failed_step = self.step or None
                raise
            finally:
                self.tracker.finish(status, {"status": self.summary.status, **self.summary.failure_tags(), **self.tags})
                self.summary.mlflow_run_id = self.tracker.mlflow_run_id
                self.summary.tracking_problem = self.tracker.problem
                self.summary.seconds = round(time.perf_counter() - self._began, 1)

    def run(
        self, config: Config, title: str, tags: Mapping[str, str], *, again_from: str | None = None, push: bool = False
    ) -> Outcome:
        """Runs the pipeline once, as a part of the study, and raises what the pipeline raises."""
        config = without_fallback(config)
        # Layers then get the names that they have in a process of their own, by which the checkpoint of a training that
        # was killed is found again; and the memory of the run before is free.
        keras.utils.clear_session()
        self.step = ""
        part = Part(title=f"{config.name} {title}", tags={"study": self._kind, **tags}, parent=self.tracker)
        engine = LocalEngine(config, again_from, part)
        record = engine.record
        try:
            engine.run(create_pipeline(config, push=push))
        finally:
            self.last = record.summary
            self.summary.steps += [{**step, "run": title} for step in record.summary.steps]
        if record.verdict is None or record.history is None:
            raise AssertionError("a line that has run to its end has trained and judged a model")
        lines = map(json.loads, record.history.read_text().splitlines())
        return Outcome(record.summary, record.verdict, [line["loss"] for line in lines if "loss" in line])

    def _note_step(self, event: events.Event) -> None:
        if isinstance(event, events.StepStarted):
            self.step = event.name
