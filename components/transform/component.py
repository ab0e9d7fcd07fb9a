"""The Transform step: TFX's stock Transform with one more input, the vocabulary. `executor.py` has its function."""

import os
from collections.abc import Sequence
from typing import Any

from tfx import types
from tfx.components.transform import executor
from tfx.dsl.components.base import base_beam_component, executor_spec
from tfx.types import artifact_utils, standard_artifacts
from tfx.types.component_spec import ChannelParameter
from tfx.types.standard_component_specs import TransformSpec as StockSpec
from tfx.utils import io_utils, json_utils

from bertline.components import compat
from bertline.components.artifacts import Vocabulary
from bertline.components.small_data import is_small
from bertline.components.transform.executor import preprocessing_fn, write_examples, write_graph
from bertline.components.validation.schema import labels_of, read_schema
from bertline.components.vocabulary.executor import TARGET_VOCABULARY_FILE, VOCABULARY_FILE
from bertline.pipeline.config import TEXT_KEYS


class Executor(compat.TransformHook, executor.Executor):
    """The stock executor, which knows of no artifacts beyond its own: the others reach the function as config."""

    preprocessing_fn = staticmethod(preprocessing_fn)

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        vocabulary = artifact_utils.get_single_uri(input_dict["vocabulary"])
        schema = artifact_utils.get_single_uri(input_dict["schema"])
        config = {
            **json_utils.loads(exec_properties["custom_config"]),
            "vocab_path": os.path.join(vocabulary, VOCABULARY_FILE),
            "target_vocab_path": os.path.join(vocabulary, TARGET_VOCABULARY_FILE),
            "labels": labels_of(io_utils.get_only_uri_in_dir(schema)),
        }
        properties = {**exec_properties, "custom_config": json_utils.dumps(config)}
        examples = input_dict["examples"]
        splits = artifact_utils.decode_split_names(examples[0].split_names)
        patterns = [
            io_utils.all_files_pattern(uri) for split in splits for uri in artifact_utils.get_split_uris(examples, split)
        ]
        if not is_small(compat.beam_args(self), patterns):
            super().Do(input_dict, output_dict, properties)
            return
        schema_file = io_utils.get_only_uri_in_dir(artifact_utils.get_single_uri(input_dict["schema"]))
        prefixes = compat.begin_transformed(input_dict, output_dict, splits)
        graph = artifact_utils.get_single_uri(output_dict["transform_graph"])
        write_graph(config, read_schema(schema_file), graph)
        # Named as Beam names what its one worker writes.
        paths = [f"{prefix}-00000-of-00001.gz" for prefix in prefixes]
        write_examples(config, graph, dict(zip(patterns, paths, strict=True)))


class TransformSpec(StockSpec):
    INPUTS = {**StockSpec.INPUTS, "vocabulary": ChannelParameter(type=Vocabulary)}


class Transform(base_beam_component.BaseBeamComponent):
    """Transforms every split.

    Args:
      examples: raw Examples with the splits `train` and `eval`.
      schema: the reviewed schema; it names the classes.
      vocabulary: the output of `VocabularyGen`.
      task: name of the task.
      text: JSON of the `TextConfig`.
      code: fingerprint of the sources, so that a change of code is not answered from the cache.
      text_keys: the features that hold text.
    """

    SPEC_CLASS = TransformSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(Executor)

    def __init__(
        self,
        examples: types.BaseChannel,
        schema: types.BaseChannel,
        vocabulary: types.BaseChannel,
        task: str,
        text: str,
        code: str,
        text_keys: Sequence[str] = TEXT_KEYS[:1],
    ) -> None:
        transformed_examples = types.Channel(type=standard_artifacts.Examples)
        transformed_examples.matching_channel_name = "examples"  # as many artifacts as come in
        super().__init__(
            TransformSpec(
                examples=examples,
                schema=schema,
                vocabulary=vocabulary,
                custom_config=json_utils.dumps({"task": task, "text": text, "text_keys": [*text_keys], "code": code}),
                disable_statistics=1,
                force_tf_compat_v1=0,
                transform_graph=types.Channel(type=standard_artifacts.TransformGraph),
                transformed_examples=transformed_examples,
            )
        )
