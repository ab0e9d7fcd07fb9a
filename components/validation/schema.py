"""Reading the schema that the pipeline writes."""

from __future__ import annotations

import tensorflow as tf
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2


def read_schema(path: str) -> schema_pb2.Schema:
    with tf.io.gfile.GFile(path) as file:
        return text_format.Parse(file.read(), schema_pb2.Schema())


def labels_of(path: str) -> list[str]:
    """The classes, in the order of their ids."""
    for feature in read_schema(path).feature:
        if feature.name == "label":
            return list(feature.string_domain.value)
    return []
