"""The SentencePairs step: the pipeline's entry to `executor.py`."""

import os
from typing import Any

from google.protobuf import text_format
from tfx import types
from tfx.dsl.components.base import base_beam_component, base_beam_executor, executor_spec
from tfx.types import artifact_utils, standard_artifacts
from tfx.types.component_spec import ChannelParameter, ComponentSpec, ExecutionParameter
from tfx.utils import io_utils

from bertline.components.artifacts import Vocabulary
from bertline.components.compat import make_beam_pipeline
from bertline.components.sentence_pairs.executor import make_schema, make_splits
from bertline.components.vocabulary.executor import VOCABULARY_FILE
from bertline.pipeline.config import PretrainingConfig, TextConfig

_SPLITS = ("train", "eval")


class Executor(base_beam_executor.BaseBeamExecutor):
    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        artifact_utils.get_single_instance(output_dict["pairs"]).split_names = artifact_utils.encode_split_names([*_SPLITS])
        make_splits(
            lambda: make_beam_pipeline(self),
            {split: os.path.join(artifact_utils.get_split_uri(input_dict["examples"], split), "*") for split in _SPLITS},
            {split: artifact_utils.get_split_uri(output_dict["pairs"], split) for split in _SPLITS},
            os.path.join(artifact_utils.get_single_uri(input_dict["vocabulary"]), VOCABULARY_FILE),
            TextConfig.model_validate_json(exec_properties["text"]),
            PretrainingConfig.model_validate_json(exec_properties["pretraining"]),
        )
        schema = os.path.join(artifact_utils.get_single_uri(output_dict["schema"]), "schema.pbtxt")
        io_utils.write_string_file(schema, text_format.MessageToString(make_schema()))


class PairsSpec(ComponentSpec):
    PARAMETERS = {
        "text": ExecutionParameter(type=str),
        "pretraining": ExecutionParameter(type=str),
        "code": ExecutionParameter(type=str),
    }
    INPUTS = {
        "examples": ChannelParameter(type=standard_artifacts.Examples),
        "vocabulary": ChannelParameter(type=Vocabulary),
    }
    OUTPUTS = {
        "pairs": ChannelParameter(type=standard_artifacts.Examples),
        "schema": ChannelParameter(type=standard_artifacts.Schema),
    }


class SentencePairs(base_beam_component.BaseBeamComponent):
    """Cuts documents into examples for pre-training.

    Args:
      examples: raw Examples whose `text` is a document, a sentence a line.
      vocabulary: the output of `VocabularyGen`.
      text: JSON of the `TextConfig`.
      pretraining: JSON of the `PretrainingConfig`.
      code: fingerprint of the sources, so that a change of code is not answered from the cache.
    """

    SPEC_CLASS = PairsSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(Executor)

    def __init__(
        self, examples: types.BaseChannel, vocabulary: types.BaseChannel, text: str, pretraining: str, code: str
    ) -> None:
        super().__init__(
            PairsSpec(
                examples=examples,
                vocabulary=vocabulary,
                text=text,
                pretraining=pretraining,
                code=code,
                pairs=types.Channel(type=standard_artifacts.Examples),
                schema=types.Channel(type=standard_artifacts.Schema),
            )
        )
