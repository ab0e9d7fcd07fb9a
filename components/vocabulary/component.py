"""The Vocabulary step: the pipeline's entry to `executor.py`."""

import json
import os
from typing import Any

from tfx import types
from tfx.dsl.components.base import base_beam_component, base_beam_executor, executor_spec
from tfx.types import artifact_utils, standard_artifacts
from tfx.types.component_spec import ChannelParameter, ComponentSpec, ExecutionParameter

from bertline.components.artifacts import Vocabulary
from bertline.components.compat import make_beam_pipeline
from bertline.components.vocabulary.executor import write_vocabularies
from bertline.pipeline.config import TextConfig


class Executor(base_beam_executor.BaseBeamExecutor):
    """Validates and copies the given vocabularies, or learns them from the split `train`."""

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        write_vocabularies(
            lambda: make_beam_pipeline(self),
            os.path.join(artifact_utils.get_split_uri(input_dict["examples"], "train"), "*"),
            artifact_utils.get_single_uri(output_dict["vocabulary"]),
            TextConfig.model_validate_json(exec_properties["text"]),
            json.loads(exec_properties["text_keys"]),
            json.loads(exec_properties["target_keys"]),
        )


class VocabularySpec(ComponentSpec):
    PARAMETERS = {
        "text": ExecutionParameter(type=str),
        "text_keys": ExecutionParameter(type=str),
        "target_keys": ExecutionParameter(type=str),
        "vocab_digest": ExecutionParameter(type=str),
        "code": ExecutionParameter(type=str),
    }
    INPUTS = {"examples": ChannelParameter(type=standard_artifacts.Examples)}
    OUTPUTS = {"vocabulary": ChannelParameter(type=Vocabulary)}


class VocabularyGen(base_beam_component.BaseBeamComponent):
    """The vocabulary of the pipeline, or the two of them.

    Args:
      examples: raw Examples; the split `train` is learned from.
      text: JSON of the `TextConfig`.
      text_keys: JSON list of the features that hold text.
      vocab_digest: digest of the content of `text.vocab` and `text.target_vocab`, so that a changed file is not answered
        from the cache.
      code: fingerprint of the sources, for the same reason.
      target_keys: JSON list of the features that hold texts which are to be written.
    """

    SPEC_CLASS = VocabularySpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(Executor)

    def __init__(
        self,
        examples: types.BaseChannel,
        text: str,
        text_keys: str,
        vocab_digest: str,
        code: str,
        target_keys: str = "[]",
    ) -> None:
        super().__init__(
            VocabularySpec(
                examples=examples,
                text=text,
                text_keys=text_keys,
                target_keys=target_keys,
                vocab_digest=vocab_digest,
                code=code,
                vocabulary=types.Channel(type=Vocabulary),
            )
        )
