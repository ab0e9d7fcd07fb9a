"""What `bertline run` and `search` take from the private side of TFX and keras-tuner: no release promises to keep it.

Known to work with TFX 1.16.0 and keras-tuner 1.4.8. After an upgrade
`tests/integration/pipeline/test_private_runner.py` says what of it has changed. What is made leaner in Beam is in
`pipeline/orchestration/lean_beam.py`, and tested there likewise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfx.proto.orchestration import pipeline_pb2


class LocalPipeline:
    """A compiled pipeline, whose steps are launched one by one: what TFX's `LocalDagRunner` does within one loop.

    It takes `runner_utils`, `runtime_parameter_utils` and `Launcher`, which TFX keeps for its own runners. Without them
    there would be its loop alone, which neither says which step is running nor why a cached result was not used.

    Args:
      pipeline: TFX's intermediate representation.
      parameters: what the run is given, by name; filled in at once.
    """

    def __init__(self, pipeline: pipeline_pb2.Pipeline, parameters: Mapping[str, Any]) -> None:
        from tfx.orchestration.local import runner_utils
        from tfx.orchestration.portable import runtime_parameter_utils

        runtime_parameter_utils.substitute_runtime_parameter(pipeline, parameters)
        self._pipeline = pipeline
        self._deployment = runner_utils.extract_local_deployment_config(pipeline)
        which = self._deployment.metadata_connection_config.WhichOneof("connection_config")
        self.metadata_connection: Any = getattr(self._deployment.metadata_connection_config, which)

    def launch(self, node: pipeline_pb2.PipelineNode) -> None:
        """Runs a step, or takes its outputs from the cache, and writes either to ML Metadata."""
        from tfx.orchestration import metadata
        from tfx.orchestration.local import runner_utils
        from tfx.orchestration.portable import launcher

        name = node.node_info.id
        launcher.Launcher(
            pipeline_node=node,
            mlmd_connection=metadata.Metadata(self.metadata_connection),
            pipeline_info=self._pipeline.pipeline_info,
            pipeline_runtime_spec=self._pipeline.runtime_spec,
            executor_spec=runner_utils.extract_executor_spec(self._deployment, name),
            custom_driver_spec=runner_utils.extract_custom_driver_spec(self._deployment, name),
        ).launch()


def keep_in(oracle: Any, folder: str) -> None:
    """Tells an oracle of keras-tuner where it may write: `_set_project_dir`, which keras-tuner's own tuners call.

    An oracle without a tuner has no other way to be given a folder, and fails as soon as it writes.
    """
    oracle._set_project_dir(folder, "oracle")
