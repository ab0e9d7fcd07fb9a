"""The Trainer's step: TFX's stock executor, given the raw rows as well.

`components/trainer.py` holds the work. It is a module of its own because the executor loads it anew by its dotted path.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from tfx import types
from tfx.components.trainer.executor import GenericExecutor
from tfx.components.trainer.fn_args_utils import FnArgs
from tfx.dsl.components.base import base_component, executor_spec
from tfx.proto import trainer_pb2
from tfx.types import artifact_utils, standard_artifacts
from tfx.types.component_spec import ChannelParameter
from tfx.types.standard_component_specs import TrainerSpec as StockSpec
from tfx.utils import json_utils


class Executor(GenericExecutor):
    """The stock executor, which knows of no artifacts beyond its own: the others reach the function as config."""

    def _GetFnArgs(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> FnArgs:
        made = super()._GetFnArgs(input_dict, output_dict, exec_properties)
        folders = artifact_utils.get_split_uris(input_dict["raw_examples"], "eval")
        made.custom_config = {**made.custom_config, "raw_files": [os.path.join(folder, "*") for folder in folders]}
        return made


class TrainerSpec(StockSpec):
    INPUTS = {**StockSpec.INPUTS, "raw_examples": ChannelParameter(type=standard_artifacts.Examples)}


class Trainer(base_component.BaseComponent):
    """Trains and exports a model.

    Args:
      examples: transformed Examples with the splits `train` and `eval`.
      raw_examples: the rows as they were read; some of the held-out ones go with the model as sample requests.
      transform_graph: the output of Transform.
      schema: names the classes.
      settings: what `trainer.run_fn` is told.
    """

    SPEC_CLASS = TrainerSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(Executor)

    def __init__(
        self,
        examples: types.BaseChannel,
        raw_examples: types.BaseChannel,
        transform_graph: types.BaseChannel,
        schema: types.BaseChannel,
        settings: Mapping[str, Any],
    ) -> None:
        super().__init__(
            TrainerSpec(
                examples=examples,
                raw_examples=raw_examples,
                transform_graph=transform_graph,
                schema=schema,
                train_args=trainer_pb2.TrainArgs(),
                eval_args=trainer_pb2.EvalArgs(),
                run_fn="components.trainer.run_fn",
                custom_config=json_utils.dumps(dict(settings)),
                model=types.Channel(type=standard_artifacts.Model),
                model_run=types.Channel(type=standard_artifacts.ModelRun),
            )
        )
