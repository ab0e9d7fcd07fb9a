"""The Trainer's step: TFX's stock executor, given the raw rows as well.

`components/trainer/executor.py` holds the work. It is a module of its own because the executor loads it anew by its dotted
path.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from tfx import types
from tfx.components.trainer.executor import GenericExecutor
from tfx.components.trainer.fn_args_utils import FnArgs
from tfx.dsl.components.base import base_component, executor_spec
from tfx.proto import trainer_pb2
from tfx.types import artifact_utils, standard_artifacts
from tfx.types.component_spec import ChannelParameter, ExecutionParameter
from tfx.types.standard_component_specs import TrainerSpec as StockSpec
from tfx.utils import json_utils

from bertline.components.compat import TrainerHook
from bertline.pipeline.core.storage import join, origin

GIVEN_AT_RUN = ("epochs", "learning_rate")
"""Settings of `training` that may be given when a run is started."""


class Executor(TrainerHook, GenericExecutor):
    """The stock executor, which knows of no artifacts beyond its own: the others reach the function as config."""

    def fn_args(self, made: FnArgs, inputs: Mapping[str, list[types.Artifact]], properties: Mapping[str, Any]) -> FnArgs:
        raw = {
            name: [os.path.join(folder, "*") for folder in artifact_utils.get_split_uris(inputs["raw_examples"], split)]
            for name, split in (("raw_files", "eval"), ("raw_train_files", "train"))
        }
        given = {name: properties[name] for name in GIVEN_AT_RUN if properties.get(name)}
        made.custom_config = {
            **made.custom_config,
            **raw,
            "training": json.dumps({**json.loads(made.custom_config["training"]), **given}),
            # A step that is tried again has the same outputs: what it left of its training is found there.
            "checkpoints": made.custom_config["checkpoints"] or join(origin(made.model_run_dir), "checkpoints"),
        }
        return made


class TrainerSpec(StockSpec):
    PARAMETERS = {
        **StockSpec.PARAMETERS,
        "epochs": ExecutionParameter(type=int, optional=True),
        "learning_rate": ExecutionParameter(type=float, optional=True),
    }
    INPUTS = {**StockSpec.INPUTS, "raw_examples": ChannelParameter(type=standard_artifacts.Examples)}


class Trainer(base_component.BaseComponent):
    """Trains and exports a model.

    Args:
      examples: transformed Examples with the splits `train` and `eval`.
      raw_examples: the rows as they were read; some of the evaluation examples go with the model as sample requests, and a
        fallback learns from the others.
      transform_graph: the output of Transform.
      schema: names the classes.
      settings: what `trainer.run_fn` is told.
      given_at_run: RuntimeParameters of TFX, in place of the settings of `training` that GIVEN_AT_RUN names.
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
        **given_at_run: Any,
    ) -> None:
        super().__init__(
            TrainerSpec(
                examples=examples,
                raw_examples=raw_examples,
                transform_graph=transform_graph,
                schema=schema,
                train_args=trainer_pb2.TrainArgs(),
                eval_args=trainer_pb2.EvalArgs(),
                run_fn="bertline.components.trainer.executor.run_fn",
                custom_config=json_utils.dumps(dict(settings)),
                **given_at_run,
                model=types.Channel(type=standard_artifacts.Model),
                model_run=types.Channel(type=standard_artifacts.ModelRun),
            )
        )
