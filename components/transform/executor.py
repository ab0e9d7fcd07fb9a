"""Transform: raw Examples become ids of WordPieces and labels, and a graph that does the same at serving.

Nothing is padded here: ids are ragged and are stored so.
"""

import json
import os
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Any

import tensorflow as tf
import tensorflow_transform as tft
from tensorflow_metadata.proto.v0.schema_pb2 import Schema
from tensorflow_transform.tf_metadata import metadata_io
from tensorflow_transform.tf_metadata.dataset_metadata import DatasetMetadata
from tensorflow_transform.tf_metadata.schema_utils import schema_as_feature_spec
from tfx_bsl.coders.example_coder import RecordBatchToExamplesEncoder

from bertline.components import compat
from bertline.components.small_data import read_records
from bertline.components.vocabulary.executor import TARGET_VOCABULARY_FILE, VOCABULARY_FILE
from bertline.models.data.batching import as_numbers
from bertline.models.data.long_texts import left_open
from bertline.models.tasks.base.task import MISSING, Context, Raw, get_task, raw_features
from bertline.models.tokenization.tokenizer import TextEncoder
from bertline.pipeline.config import TextConfig

_BATCH = 1024
"""Examples that are transformed together where Beam does not choose."""


def preprocessing_fn(inputs: Mapping[str, Any], custom_config: Mapping[str, Any]) -> dict[str, Any]:
    """Raw columns -> what the task trains on: `token_ids` (ragged) and its targets.

    Args:
      inputs: raw features of a batch, each sparse, ragged or dense.
      custom_config: `task` (its name), `text` (JSON of the `TextConfig`) and `text_keys`; the step adds `vocab_path`,
        `target_vocab_path` and `labels`.
    """
    made = _Features.of(json.dumps(custom_config, sort_keys=True))
    made.track()
    return made(inputs)


class _Features(tf.Module):
    """The task's features of raw columns, as a function that is traced once.

    TensorFlow Transform traces what it is given eight times for one run, three times without Beam, once of them for a batch
    of a fixed size: hence the signature.
    """

    def __init__(self, custom_config: Mapping[str, Any]) -> None:
        super().__init__()
        text, task = TextConfig.model_validate_json(custom_config["text"]), get_task(custom_config["task"])
        self._paths = {"text_encoder": custom_config["vocab_path"]}
        if task.preprocessing.label == "text" and text.separate_vocabularies:
            self._paths["target_encoder"] = custom_config["target_vocab_path"]
        self._encoders = {
            name: TextEncoder.from_config(path, text, undecided=left_open(task, text)) for name, path in self._paths.items()
        }
        self.assets = [os.path.basename(path) for path in self._paths.values()]
        encoder = self._encoders["text_encoder"]
        target = self._encoders.get("target_encoder", encoder) if task.preprocessing.label == "text" else None
        labels, text_keys = (tuple(custom_config[name]) for name in ("labels", "text_keys"))
        context = Context(encoder, labels, text_keys=text_keys, target=target)
        self.raw = raw_features(task, text_keys)
        self._function = tf.function(
            lambda columns: task.preprocessing.features(columns, context),
            input_signature=[{name: _spec_of(raw) for name, raw in self.raw.items()}],
            autograph=False,
        )

    @classmethod
    @lru_cache(maxsize=2)
    def of(cls, custom_config: str) -> "_Features":
        with tf.init_scope():
            return cls(json.loads(custom_config))

    def track(self) -> None:
        """Makes the vocabularies assets of the transform graph."""
        for name, encoder in self._encoders.items():
            file_name = os.path.basename(self._paths[name])
            tft.annotate_asset(file_name, file_name)
            tft.make_and_track_object(lambda encoder=encoder: encoder, name=name)

    def __call__(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        columns = {
            name: as_numbers(as_ragged(inputs[name])) if raw.is_list else first_values(inputs[name])
            for name, raw in self.raw.items()
        }
        # A tf.train.Example has integers of 64 bits only.
        return {name: tf.cast(x, tf.int64) if x.dtype == tf.int32 else x for name, x in self._function(columns).items()}


def _spec_of(raw: Raw) -> tf.TypeSpec:
    """Of a column, as `_Features` takes it."""
    if not raw.is_list:
        return tf.TensorSpec([None], raw.dtype)
    return tf.RaggedTensorSpec([None, None], "int32" if raw.dtype == "int64" else raw.dtype)


def write_graph(custom_config: Mapping[str, Any], schema: Schema, transform_graph_uri: str) -> None:
    """Writes what the stock Transform writes of a function that analyses nothing, in this process.

    Left to itself, the stock Transform does so as well, but only where it is to write no examples, and where no operation
    checks its inputs, as those that make ragged tensors do.
    """
    output = tft.TFTransformOutput
    metadata_io.write_metadata(DatasetMetadata(schema), os.path.join(transform_graph_uri, output.RAW_METADATA_DIR))
    spec = schema_as_feature_spec(schema).feature_spec
    compat.analyze_in_place(partial(preprocessing_fn, custom_config=custom_config), spec, transform_graph_uri)
    # Where the vocabularies are: by Beam TensorFlow Transform notes it, without it forgets.
    assets = _Features.of(json.dumps(custom_config, sort_keys=True)).assets
    with tf.io.gfile.GFile(
        os.path.join(transform_graph_uri, output.TRANSFORMED_METADATA_DIR, output.ASSET_MAP), "w"
    ) as file:
        file.write(json.dumps({name: name for name in assets}))


def write_examples(custom_config: Mapping[str, Any], transform_graph_uri: str, paths: Mapping[str, str]) -> None:
    """Transforms Examples in this process, and encodes them as the stock Transform does.

    Args:
      paths: glob of raw Examples -> the file that receives them transformed.
    """
    output = tft.TFTransformOutput(transform_graph_uri)
    made, raw_spec = _Features.of(json.dumps(custom_config, sort_keys=True)), output.raw_feature_spec()
    transform = tf.function(
        lambda records: made(tf.io.parse_example(records, {name: raw_spec[name] for name in made.raw})),
        input_signature=[tf.TensorSpec([None], tf.string)],
        autograph=False,
    )
    schema = output.transformed_metadata.schema
    to_arrow, encoder = compat.tensor_to_arrow(schema), RecordBatchToExamplesEncoder(schema)
    for pattern, path in paths.items():
        records = read_records(pattern)
        tf.io.gfile.makedirs(os.path.dirname(path))
        with tf.io.TFRecordWriter(path, tf.io.TFRecordOptions(compression_type="GZIP")) as writer:
            for begin in range(0, len(records), _BATCH):
                batch = to_arrow.convert(transform(tf.constant(records[begin : begin + _BATCH])))
                for example in encoder.encode(batch):
                    writer.write(example)


def as_ragged(column: tf.SparseTensor | tf.RaggedTensor) -> tf.RaggedTensor:
    return tf.RaggedTensor.from_sparse(column) if isinstance(column, tf.SparseTensor) else column


def first_values(column: tf.Tensor | tf.SparseTensor | tf.RaggedTensor) -> tf.Tensor:
    """[batch]: the first value of each Example, or what MISSING says where it has none."""
    if not isinstance(column, tf.Tensor):
        column = as_ragged(column).to_tensor(default_value=MISSING[column.dtype.name], shape=[None, 1])
    return column if column.shape.rank == 1 else column[:, 0]


def vocabulary_of(transform_graph_uri: str) -> str:
    """Path of the vocabulary that a transform graph carries."""
    return tft.TFTransformOutput(transform_graph_uri).vocabulary_file_by_name(VOCABULARY_FILE)


def target_vocabulary_of(transform_graph_uri: str) -> str:
    """Path of the vocabulary of the texts that are written: that of the others, where there is no second one."""
    second = tft.TFTransformOutput(transform_graph_uri).vocabulary_file_by_name(TARGET_VOCABULARY_FILE)
    return second or vocabulary_of(transform_graph_uri)
