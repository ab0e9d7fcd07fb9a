"""The TFX door to `run.ingest`. It has no driver of its own, which Kubeflow could not run."""

import json
from collections.abc import Mapping
from typing import Any

from tfx import types
from tfx.components.util import examples_utils
from tfx.dsl.components.base import base_beam_component, base_beam_executor, executor_spec
from tfx.proto import example_gen_pb2
from tfx.types import artifact_utils, standard_artifacts
from tfx.types.component_spec import ChannelParameter, ComponentSpec, ExecutionParameter

from bertline.components.artifacts import IngestReport
from bertline.components.compat import make_beam_pipeline
from bertline.components.ingest.executor import ingest
from bertline.components.ingest.rows import SPLITS
from bertline.pipeline.config import DataConfig, LabelKind

GIVEN_AT_RUN = ("path", "train", "eval", "test")
"""Settings of `data` that may be given when a run is started."""


class IngestSpec(ComponentSpec):
    PARAMETERS = {
        "data": ExecutionParameter(type=str),
        "slices": ExecutionParameter(type=str),
        "lists": ExecutionParameter(type=str),
        "label": ExecutionParameter(type=str),
        "inputs": ExecutionParameter(type=str),
        "code": ExecutionParameter(type=str),
        "quarantine_path": ExecutionParameter(type=str),
        **{name: ExecutionParameter(type=str, optional=True) for name in GIVEN_AT_RUN},
    }
    INPUTS: dict[str, ChannelParameter] = {}
    OUTPUTS = {
        "examples": ChannelParameter(type=standard_artifacts.Examples),
        "report": ChannelParameter(type=IngestReport),
    }


class Executor(base_beam_executor.BaseBeamExecutor):
    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        examples = artifact_utils.get_single_instance(output_dict["examples"])
        ingest(
            lambda: make_beam_pipeline(self),
            data_at_run(exec_properties),
            json.loads(exec_properties["slices"]),
            examples.uri,
            artifact_utils.get_single_uri(output_dict["report"]),
            exec_properties["quarantine_path"] or None,
            exec_properties["label"],
            json.loads(exec_properties["lists"]),
        )
        examples.split_names = artifact_utils.encode_split_names(list(SPLITS))
        examples_utils.set_payload_format(examples, example_gen_pb2.PayloadFormat.FORMAT_TF_EXAMPLE)
        examples_utils.set_file_format(examples, "tfrecords_gzip")


def data_at_run(properties: Mapping[str, Any]) -> DataConfig:
    """The section `data`, with the files that this run was given."""
    compiled = DataConfig.model_validate_json(properties["data"])
    given = {name: properties[name] for name in GIVEN_AT_RUN if properties.get(name)}
    return DataConfig.model_validate({**compiled.model_dump(), **given})


class Ingest(base_beam_component.BaseBeamComponent):
    """Reads raw files into Examples, and keeps count of every row.

    Component `outputs` contains:
      - `examples`: standard Examples with the splits `train` and `eval`, and a folder of test examples beside them;
        features `text` (and `text_2`),
        `label`, `words`, slices and lists.
      - `report`: `report.json` with the counts and `quarantine.jsonl` with the bad rows.
    """

    SPEC_CLASS = IngestSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(Executor)

    def __init__(
        self,
        data: str,
        slices: str,
        inputs: str,
        code: str,
        quarantine_path: str,
        label: LabelKind = "class",
        lists: str = "[]",
        **given_at_run: Any,
    ) -> None:
        """Makes the component; every parameter is part of TFX's cache key.

        Args:
          data: the DataConfig as JSON.
          slices: further columns that become features, as a JSON list.
          inputs: `files.digest` of the raw files: TFX sees a change of their content by it.
          code: fingerprint of the code: TFX sees a change of the code by it.
          quarantine_path: file that receives the bad rows even if the step fails; none if it is empty.
          label: what the labels are.
          lists: further columns, with any number of values in a row, as a JSON list.
          given_at_run: RuntimeParameters of TFX, in place of the settings of `data` that GIVEN_AT_RUN names.
        """
        spec = IngestSpec(
            data=data,
            slices=slices,
            lists=lists,
            label=label,
            inputs=inputs,
            code=code,
            quarantine_path=quarantine_path,
            **given_at_run,
            examples=types.Channel(type=standard_artifacts.Examples),
            report=types.Channel(type=IngestReport),
        )
        super().__init__(spec=spec)
