"""What is kept of one run: MLflow's record and the summary, from what its steps tell and leave behind.

It imports neither TensorFlow nor TFX: a run that finds every step in the cache is recorded by this alone.
"""

from __future__ import annotations

import datetime
import fcntl
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from absl import logging

from bertline.components.evaluator.verdict import FILE_NAME as VERDICT
from bertline.components.evaluator.verdict import Verdict
from bertline.components.pusher.executor import latest
from bertline.components.step_files import HISTORY, RECIPE, SERVE_CHECK, SERVING_MODEL
from bertline.components.steps import Step
from bertline.components.tracking.backend.models import candidate, champion, facts
from bertline.components.tracking.journal import Operation
from bertline.components.tracking.tracker import Part, Tracker
from bertline.pipeline.config import Config, LabelKind, without_password
from bertline.pipeline.console.summary import Summary, majority
from bertline.pipeline.core import events
from bertline.pipeline.core.errors import AnomaliesError, BertlineError, cause_of
from bertline.pipeline.orchestration.executions import Output
from bertline.pipeline.runs.data_report import DataReport


class RunRecord:
    """Listens to the steps of a run, and keeps MLflow and the summary true.

    Args:
      config: the config of the run.
      label: what the task's label is.
      part: what the run is among several; the workspace's summary is then left to who started them.
      registered: what the registry is told of the trained model, where that is known already.
    """

    def __init__(
        self, config: Config, label: LabelKind | None, part: Part | None = None, registered: Operation | None = None
    ) -> None:
        self._config, self._label, self._part = config, label, part
        self.registered = registered
        """What the registry was told of the trained model; none before the Trainer has run."""
        self.verdict: Verdict | None = None
        """What the evaluator found; none before it has run."""
        self.history: Path | None = None
        """The learning curve; none before the Trainer has run."""
        self._step: str | None = None  # that is at work
        self._data_report = DataReport(config, self._say)
        self.run_id = datetime.datetime.now().isoformat()
        self.summary = Summary(
            name=config.name,
            task=config.task,
            anomalies_allowed=config.validation.allow_anomalies,
            destination=str(config.push_path),
        )

    def mlflow_run_id(self, step: str) -> str | None:
        """What a step is told of the MLflow run; None until MLflow has it. The metadata of a pushed model names it for
        good."""
        return self._tracker.await_mlflow_run_id() if step == Step.PUSHER else self._tracker.mlflow_run_id

    @contextmanager
    def kept(self, identity: str) -> Iterator[None]:
        """Records what goes on inside, however it ends. One run of a pipeline does so at a time.

        Args:
          identity: what makes two runs the same, so that one that was killed is gone on with.
        """
        summary, began = self.summary, time.perf_counter()
        with only_run(self._config, ".lock"):
            self._tracker = Tracker(self._config, self.run_id, self._part, identity=identity)
            status = "FAILED"
            self._tracker.start()
            summary.mlflow_uri, summary.run_id = without_password(self._config.tracking_uri), self._tracker.key
            try:
                with events.listening(self._tracker.hear), events.listening(self._note_step):
                    yield
                status, summary.status = "FINISHED", "succeeded"
            except KeyboardInterrupt:
                status, summary.status = "KILLED", "interrupted"
                raise
            except BaseException as error:
                summary.status, summary.error, summary.failed_step = "failed", str(error), self._step
                if refused := cause_of(error, AnomaliesError):
                    self._data_report.refused(refused.judgement, self._tracker)
                raise
            finally:
                self._tracker.finish(status, summary.tags())
                summary.mlflow_run_id, summary.tracking_problem = self._tracker.mlflow_run_id, self._tracker.problem
                summary.seconds = round(time.perf_counter() - began, 1)
                if not self._part:
                    summary.write(self._config)

    def learn_from(self, step: str, outputs: Mapping[str, Output]) -> None:
        """Takes into the summary what a step has found out; a cached step has found out the same."""
        summary, tracker = self.summary, self._tracker
        folders = {key: output.uri for key, output in outputs.items()}
        tracker.keep_outputs(step, folders)
        self._data_report.learn_from(step, folders, tracker)
        if step == Step.INGEST:
            report = json.loads(Path(outputs["report"].uri, "report.json").read_text())
            tracker.log_data(report)
            for note in report.get("notes", ()):
                self._say(note)
            summary.rows = {
                "read": report["rows"],
                **report["kept"],
                "excluded": report["excluded"],
                "left_out": report["left_out"],
                "quarantined": report["quarantined"],
            }
            if self._label != "classes":  # of several at once no one is always right
                summary.baseline["majority"] = majority(report["labels"]["eval"])
        elif step == Step.TRAINER:
            self.history = Path(outputs["model_run"].uri, HISTORY)
            if (chosen := self.history.with_name(RECIPE)).is_file():
                tracker.keep(RECIPE, chosen.read_text())
            summary.eval_losses = _eval_losses(self.history)
            if summary.steps[-1]["cached"]:
                tracker.log_history(self.history)
            folder = Path(outputs["model"].uri, SERVING_MODEL)
            size = facts(folder)
            tracker.keep("model.json", json.dumps(size, indent=1))
            tracker.measure({"model/parameters": size["parameters"], "model/bytes": size["bytes"]})
            tracker.register(lambda: self._candidate(folder))
        elif step == Step.EVALUATOR:
            summary.evaluation = outputs["evaluation"].uri
            self.verdict = verdict = Verdict.from_json(Path(outputs["evaluation"].uri, VERDICT).read_text())
            tracker.log_verdict(verdict)
            summary.metrics, summary.slices, summary.classes = verdict.metrics, verdict.slices, verdict.classes
            summary.undefined, summary.test = verdict.undefined, verdict.test
            summary.positive, summary.positive_why = verdict.positive, verdict.positive_why
            summary.kind, summary.kind_why = verdict.kind, verdict.kind_why
            summary.decided, summary.decided_how = verdict.decided, verdict.decided_how
            summary.blessed, summary.reasons = verdict.blessed, verdict.reasons
            summary.baseline["pushed"] = verdict.baseline_metrics
            summary.baselines, summary.baseline_seconds = verdict.baselines, verdict.baseline_seconds
        elif step == Step.SERVE_CHECK:
            report = json.loads(Path(outputs["served"].uri, SERVE_CHECK).read_text())
            if not report["skipped"]:
                summary.serve_check = report
                summary.blessed, summary.reasons = report["blessed"], report["reasons"]
        elif step == Step.PUSHER:
            pushed = outputs["pushed_model"].properties
            if pushed.get("pushed"):
                summary.pushed_version = int(pushed["pushed_version"])
                summary.pushed_path, summary.pushed_digest = pushed["pushed_destination"], pushed["digest"]
                summary.fresh_push = not summary.steps[-1]["cached"] and bool(pushed.get("fresh"))
            summary.withdrawn_version = pushed.get("withdrawn")
            newest = latest(self._config.push_path)
            if newest:
                summary.newest_version = newest.version
                tracker.register(lambda: champion(self._config.name, newest))

    def _candidate(self, folder: Path) -> Operation:
        self.registered = self.registered or candidate(self._config, folder)
        return self.registered

    def _note_step(self, event: events.Event) -> None:
        if isinstance(event, events.StepStarted):
            self._step = event.name
        elif isinstance(event, events.StepFinished):
            self._step = None
            logging.info("step %s: %s", event.name, "cached" if event.cached else "; ".join(event.reasons))
            self.summary.steps.append(
                {
                    "name": event.name,
                    "seconds": round(event.seconds, 1),
                    "cached": event.cached,
                    "reasons": list(event.reasons),
                }
            )

    def _say(self, sentence: str) -> None:
        """A note; but of several runs over the same data, one is enough."""
        steps = self.summary.steps
        if not (self._part and steps and steps[-1]["cached"]):
            events.emit(events.Note(sentence))


def _eval_losses(history: Path) -> list[float]:
    """The loss on the evaluation examples after each epoch, from what the Trainer has left; not that of a probe before."""
    if not history.is_file():
        return []
    records = (json.loads(line) for line in history.read_text().splitlines())
    return [float(record["eval_loss"]) for record in records if record.get("eval_loss") is not None and record["epoch"]]


@contextmanager
def only_run(config: Config, file_name: str) -> Iterator[None]:
    """Two runs of one pipeline at once would write over each other's checkpoints and versions."""
    config.home.mkdir(parents=True, exist_ok=True)
    with (config.home / file_name).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BertlineError(
                f"another run of the pipeline {config.name} is in progress in {config.workspace};"
                " wait for it, or give this one another name or --workspace."
            ) from None
        yield
