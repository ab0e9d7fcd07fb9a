"""StatisticsGen: TFX's own, which sums up small data in this process instead of by Beam."""

import os
from typing import Any

from tfx import types
from tfx.components.statistics_gen import executor
from tfx.dsl.components.base import base_beam_component, executor_spec
from tfx.types import artifact_utils, standard_artifacts
from tfx.types.component_spec import ExecutionParameter
from tfx.types.standard_component_specs import StatisticsGenSpec as StockSpec
from tfx.utils import io_utils, json_utils

from bertline.components.compat import beam_args
from bertline.components.small_data import is_small
from bertline.components.statistics.executor import write_statistics


class Executor(executor.Executor):
    """The stock executor, or, of small data, what it would have written (`executor.py`)."""

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        examples = artifact_utils.get_single_instance(input_dict["examples"])
        splits = artifact_utils.decode_split_names(examples.split_names)
        patterns = {split: io_utils.all_files_pattern(artifact_utils.get_split_uri([examples], split)) for split in splits}
        asked = input_dict.get("schema") or any(exec_properties.get(name) for name in StockSpec.PARAMETERS)
        if asked or not is_small(beam_args(self), patterns.values()):
            super().Do(input_dict, output_dict, exec_properties)
            return
        statistics = artifact_utils.get_single_instance(output_dict["statistics"])
        statistics.split_names = artifact_utils.encode_split_names(splits)
        statistics.span = examples.span
        statistics.set_string_custom_property(executor.STATS_DASHBOARD_LINK, "")
        rates = json_utils.dumps(dict.fromkeys(splits, 1.0))
        statistics.set_json_value_custom_property(executor.SAMPLE_RATE_BY_SPLIT_PROPERTY_NAME, rates)
        for split, pattern in patterns.items():
            folder = artifact_utils.get_split_uri([statistics], split)
            write_statistics(pattern, os.path.join(folder, executor.DEFAULT_FILE_NAME))


class StatisticsGenSpec(StockSpec):
    PARAMETERS = {**StockSpec.PARAMETERS, "code": ExecutionParameter(type=str)}


class StatisticsGen(base_beam_component.BaseBeamComponent):
    """Statistics of every split.

    Args:
      examples: Examples, of which each split is summed up.
      code: fingerprint of the sources, so that a change of code is not answered from the cache.
    """

    SPEC_CLASS = StatisticsGenSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(Executor)

    def __init__(self, examples: types.BaseChannel, code: str) -> None:
        statistics = types.Channel(type=standard_artifacts.ExampleStatistics)
        super().__init__(StatisticsGenSpec(examples=examples, code=code, statistics=statistics))
