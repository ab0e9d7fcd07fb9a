"""Raw Examples, as Ingest writes them, as the features that a task's model reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from bertline.models.data.batching import as_numbers
from bertline.models.tasks.base.task import MISSING, Context, Task, raw_features


def features_of(records: tf.Tensor, task: Task, context: Context) -> dict[str, Any]:
    """[batch] serialized Examples -> their features, as Transform makes them. TensorFlow ops only."""
    raw = raw_features(task, context.text_keys)
    spec = {
        name: tf.io.RaggedFeature(tf.as_dtype(kind.dtype))
        if kind.is_list
        else tf.io.FixedLenFeature([], tf.as_dtype(kind.dtype), MISSING[kind.dtype])
        for name, kind in raw.items()
    }
    parsed = tf.io.parse_example(records, spec)
    columns = {name: as_numbers(value) if raw[name].is_list else value for name, value in parsed.items()}
    return task.preprocessing.features(columns, context)


def read_records(files: Sequence[str], limit: int | None = None) -> list[bytes]:
    """The serialized Examples of TFRecords in gzip, in the order of the files' names; the first `limit` of them."""
    dataset = tf.data.TFRecordDataset(sorted(files), compression_type="GZIP")
    return list((dataset if limit is None else dataset.take(limit)).as_numpy_iterator())
