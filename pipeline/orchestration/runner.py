"""Running the pipeline on this machine: TFX's local runner, told step by step.

TFX's own loop neither says which step is running nor why a cached result was not used. This one does both, through
`bertline.pipeline.core.events`, and has the run recorded (`pipeline/runs/record.py`). The steps themselves are run by
TFX's launcher. Both `bertline run` and `tfx run create` come through here.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ml_metadata.proto import metadata_store_pb2 as mlmd
from tfx.dsl.compiler.constants import PIPELINE_RUN_ID_PARAMETER_NAME
from tfx.orchestration import metadata
from tfx.orchestration.local.local_dag_runner import LocalDagRunner
from tfx.proto.orchestration import pipeline_pb2

from bertline.components.pusher.executor import pushed_by
from bertline.components.serve_check.executor import started_early
from bertline.components.step_files import SERVING_MODEL
from bertline.components.tracking.tracker import Part, identity_of
from bertline.models.tasks.base.task import get_task
from bertline.pipeline.compat import LocalPipeline
from bertline.pipeline.config import Config
from bertline.pipeline.core import events
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.orchestration import lean_beam
from bertline.pipeline.orchestration.executions import Output, StepExecutions, why_again
from bertline.pipeline.orchestration.unchanged import Remembered
from bertline.pipeline.runs.record import RunRecord


class LocalEngine(LocalDagRunner):
    """Runs a pipeline's steps one after the other, tells what happens, and keeps the record of the run.

    Args:
      config: the config that the pipeline was made from.
      again_from: step that is run again with all that depends on it, even if nothing changed.
      part: what the run is among several; the workspace's summary is then left to who started them.
      fingerprint: of all that the run follows from, by which the next one knows that nothing changed; none where no run
        is to be known by it.
    """

    def __init__(
        self, config: Config, again_from: str | None = None, part: Part | None = None, fingerprint: str | None = None
    ) -> None:
        super().__init__()
        lean_beam.install()
        self._config, self._again_from, self._fingerprint = config, again_from, fingerprint
        self._label = get_task(config.task).preprocessing.label
        self.record = RunRecord(config, self._label, part)

    def run_with_ir(self, pipeline: pipeline_pb2.Pipeline, run_options: Any = None) -> None:
        # The IR has the code's fingerprints, the settings and the digest of the data: all that a run follows from.
        identity = identity_of(pipeline.SerializeToString(deterministic=True))
        executions: dict[str, int] = {}
        is_served = any(node.pipeline_node.node_info.id == "ServeCheck" for node in pipeline.nodes)
        with self.record.kept(identity), ExitStack() as server:
            for name, outputs, execution in self._run_steps(pipeline):
                self.record.learn_from(name, outputs)
                executions[name] = execution
                if name == "Trainer" and is_served and not self.record.summary.steps[-1]["cached"]:
                    model = Path(outputs["model"].uri, SERVING_MODEL)
                    server.enter_context(started_early(model, self._config.name))
        if self._fingerprint:
            Remembered(identity, self._label, executions, self.record.registered).write(self._config, self._fingerprint)

    def _run_steps(self, pipeline: pipeline_pb2.Pipeline) -> Iterator[tuple[str, dict[str, Output], int]]:
        """Yields each step's outputs, and its number in ML Metadata, as it is done."""
        steps = LocalPipeline(pipeline, {PIPELINE_RUN_ID_PARAMETER_NAME: self.record.run_id})
        connection = steps.metadata_connection
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
            with pushed_by(self.record.mlflow_run_id(name)):
                steps.launch(node)
            seconds = time.perf_counter() - began
            with metadata.Metadata(connection) as handle:
                found = StepExecutions(handle.store, context_name)
                outputs = found.outputs()
                cached = found.now.last_known_state == mlmd.Execution.CACHED
                demanded = reason or "run again on request"
                reasons = () if cached else tuple(found.changes(None if _uses_cache(node) else demanded))
                execution, artifacts = found.now.id, {key: output.id for key, output in outputs.items()}
            events.emit(events.StepFinished(name, seconds, cached, reasons, execution, artifacts))
            yield name, outputs, execution

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


def _uses_cache(node: pipeline_pb2.PipelineNode) -> bool:
    return node.execution_options.caching_options.enable_cache
