"""Running the line on this machine: TFX's local runner, told step by step.

TFX's own loop neither says which step is running nor why a cached result was not used. This one does both, through
`components.events`, and keeps the run's record: MLflow, and the summary. The steps themselves are run by TFX's launcher.
Both `bertline run` and `tfx run create` come through here.
"""

from __future__ import annotations

import datetime
import fcntl
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from absl import logging
from ml_metadata.proto import metadata_store_pb2 as mlmd
from tfx.dsl.compiler.constants import PIPELINE_RUN_ID_PARAMETER_NAME
from tfx.orchestration import metadata
from tfx.orchestration.local import runner_utils
from tfx.orchestration.local.local_dag_runner import LocalDagRunner
from tfx.orchestration.portable import launcher, runtime_parameter_utils
from tfx.proto.orchestration import pipeline_pb2
from tfx.utils.path_utils import serving_model_path

from components import events
from components.publish import latest, pushed_by
from components.serve_check import FILE_NAME as SERVE_CHECK
from components.tracking.models import candidate, champion, facts
from components.tracking.tracker import Part, Tracker, identity_of
from components.trainer import HISTORY
from components.verdict import FILE_NAME as VERDICT
from components.verdict import Verdict
from models.task import get_task
from pipeline.beam import look_at_dofns_once
from pipeline.config import Config, without_password
from pipeline.data_sight import DataSight
from pipeline.errors import AnomaliesError, BertlineError, cause_of
from pipeline.executions import Output, StepExecutions, why_again
from pipeline.summary import Summary, majority


class LocalEngine(LocalDagRunner):
    """Runs a pipeline's steps one after the other, tells what happens, and keeps the record of the run.

    Args:
      config: the config that the pipeline was made from.
      again_from: step that is run again with all that depends on it, even if nothing changed.
      part: what the run is among several; the workspace's summary is then left to who started them.
    """

    def __init__(self, config: Config, again_from: str | None = None, part: Part | None = None) -> None:
        super().__init__()
        look_at_dofns_once()
        self._config, self._again_from, self._part = config, again_from, part
        self.verdict: Verdict | None = None
        """What the evaluator found; none before it has run."""
        self.history: Path | None = None
        """The learning curve; none before the Trainer has run."""
        self._step: str | None = None  # that is at work
        self._data_sight = DataSight(config, self._say)
        self.run_id = datetime.datetime.now().isoformat()
        self.summary = Summary(
            name=config.name,
            task=config.task,
            anomalies_allowed=config.validation.allow_anomalies,
            destination=str(config.push_path),
        )

    def run_with_ir(self, pipeline: pipeline_pb2.Pipeline, run_options: Any = None) -> None:
        # The IR has the code's fingerprints, the settings and the digest of the data: all that a run follows from.
        identity = identity_of(pipeline.SerializeToString(deterministic=True))
        with only_run(self._config, ".lock"), self._recorded(identity):
            for name, outputs in self._run_steps(pipeline):
                self._learn_from(name, outputs)

    def _run_steps(self, pipeline: pipeline_pb2.Pipeline) -> Iterator[tuple[str, dict[str, Output]]]:
        """Yields each step's outputs as it is done."""
        runtime_parameter_utils.substitute_runtime_parameter(pipeline, {PIPELINE_RUN_ID_PARAMETER_NAME: self.run_id})
        deployment = runner_utils.extract_local_deployment_config(pipeline)
        which = deployment.metadata_connection_config.WhichOneof("connection_config")
        connection = getattr(deployment.metadata_connection_config, which)
        nodes = [node.pipeline_node for node in pipeline.nodes]
        self._forget_cache(nodes)
        for node in nodes:
            name = node.node_info.id
            context_name = f"{pipeline.pipeline_info.id}.{name}"
            events.emit(events.StepStarted(name))
            began = time.perf_counter()
            with metadata.Metadata(connection) as handle:
                reason = why_again(handle.store, context_name)
            if reason:
                node.execution_options.caching_options.enable_cache = False
            step = launcher.Launcher(
                pipeline_node=node,
                mlmd_connection=metadata.Metadata(connection),
                pipeline_info=pipeline.pipeline_info,
                pipeline_runtime_spec=pipeline.runtime_spec,
                executor_spec=runner_utils.extract_executor_spec(deployment, name),
                custom_driver_spec=runner_utils.extract_custom_driver_spec(deployment, name),
            )
            with pushed_by(self._tracker.mlflow_run_id):
                step.launch()
            seconds = time.perf_counter() - began
            with metadata.Metadata(connection) as handle:
                record = StepExecutions(handle.store, context_name)
                outputs = record.outputs()
                cached = record.now.last_known_state == mlmd.Execution.CACHED
                demanded = reason or "run again on demand"
                reasons = () if cached else tuple(record.changes(None if _uses_cache(node) else demanded))
                execution, artifacts = record.now.id, {key: output.id for key, output in outputs.items()}
            events.emit(events.StepFinished(name, seconds, cached, reasons, execution, artifacts))
            yield name, outputs

    @contextmanager
    def _recorded(self, identity: str) -> Iterator[None]:
        """Keeps MLflow and the summary true, however the run ends."""
        summary, began = self.summary, time.perf_counter()
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
                self._data_sight.refused(refused.judgement, self._tracker)
            raise
        finally:
            self._tracker.finish(status, summary.tags())
            summary.mlflow_run_id, summary.tracking_problem = self._tracker.mlflow_run_id, self._tracker.problem
            summary.seconds = round(time.perf_counter() - began, 1)
            if not self._part:
                summary.write(self._config)

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

    def _learn_from(self, step: str, outputs: Mapping[str, Output]) -> None:
        """Takes into the summary what a step has found out; a cached step has found out the same."""
        summary, tracker = self.summary, self._tracker
        folders = {key: output.uri for key, output in outputs.items()}
        tracker.keep_outputs(step, folders)
        self._data_sight.learn_from(step, folders, tracker)
        if step == "Ingest":
            report = json.loads(Path(outputs["report"].uri, "report.json").read_text())
            tracker.log_data(report)
            summary.rows = {
                "read": report["rows"],
                **report["kept"],
                "excluded": report["excluded"],
                "left_out": report["left_out"],
                "quarantined": report["quarantined"],
            }
            if get_task(self._config.task).label != "classes":  # of several at once no one is always right
                summary.baseline["majority"] = majority(report["labels"]["eval"])
        elif step == "Trainer":
            self.history = Path(outputs["model_run"].uri, HISTORY)
            if summary.steps[-1]["cached"]:
                tracker.log_history(self.history)
            folder = serving_model_path(outputs["model"].uri)
            size = facts(folder)
            tracker.keep("model.json", json.dumps(size, indent=1))
            tracker.measure({"model/parameters": size["parameters"], "model/bytes": size["bytes"]})
            tracker.register(lambda: candidate(self._config, folder))
        elif step == "Evaluator":
            self.verdict = verdict = Verdict.from_json(Path(outputs["evaluation"].uri, VERDICT).read_text())
            tracker.log_verdict(verdict)
            summary.metrics, summary.slices, summary.classes = verdict.metrics, verdict.slices, verdict.classes
            summary.blessed, summary.reasons = verdict.blessed, verdict.reasons
            summary.baseline["pushed"] = verdict.baseline_metrics
        elif step == "ServeCheck":
            report = json.loads(Path(outputs["served"].uri, SERVE_CHECK).read_text())
            if not report["skipped"]:
                summary.serve_check = report
                summary.blessed, summary.reasons = report["blessed"], report["reasons"]
        elif step == "Pusher":
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

    def _forget_cache(self, nodes: list[pipeline_pb2.PipelineNode]) -> None:
        """Switches the cache off for `again_from` and everything downstream of it."""
        names = [node.node_info.id for node in nodes]
        if self._again_from and self._again_from not in names:
            raise BertlineError(
                f"--from: the task {self._config.task} has no step {self._again_from}; its steps: {', '.join(names)}."
            )
        affected = {self._again_from} if self._again_from else set()
        for node in nodes:  # in topological order
            if affected & {node.node_info.id, *node.upstream_nodes}:
                affected.add(node.node_info.id)
                node.execution_options.caching_options.enable_cache = False


@contextmanager
def only_run(config: Config, file_name: str) -> Iterator[None]:
    """Two runs of one pipeline at once would write over each other's checkpoints and versions."""
    config.home.mkdir(parents=True, exist_ok=True)
    with (config.home / file_name).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BertlineError(
                f"another run of the pipeline {config.name} is under way in {config.workspace};"
                " wait for it, or give this one another name or --workspace."
            ) from None
        yield


def _uses_cache(node: pipeline_pb2.PipelineNode) -> bool:
    return node.execution_options.caching_options.enable_cache
