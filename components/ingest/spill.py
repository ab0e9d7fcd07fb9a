"""Rows between the raw files and their shards, on the disk.

Beam's own grouping would keep them all in memory where the DirectRunner works, and pickle them twice elsewhere. Here each
raw file's rows go to a file a shard at once; what Beam groups is the names of these. Then one shard after the other is put
in order in memory, when all are read and it is decided which rows change sides (`plan.py`).
"""

from __future__ import annotations

import os
import struct
import uuid
from collections.abc import Iterator
from typing import NamedTuple

import tensorflow as tf

Shard = tuple[str, int]
"""Split, and number in it."""
ORDER_BYTES = 12
"""Of the place of a row in its split, which stands before it."""
_HASHES = struct.Struct(">QQ")


class Spill:
    """What one reader of raw rows puts aside.

    Args:
      folder: seen by all readers and writers.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._name = uuid.uuid4().hex  # Beam may read a file twice, and takes one of the results
        self._writers: dict[Shard, tf.io.TFRecordWriter] = {}

    def add(self, shard: Shard, order: bytes, example: bytes, bucket: int = 0, digest: int = 0) -> None:
        """Args: bucket: the hash that has said the row's side; digest: that of its text; see `plan.py`."""
        if shard not in self._writers:
            path = self._path(shard)
            tf.io.gfile.makedirs(os.path.dirname(path))
            self._writers[shard] = tf.io.TFRecordWriter(path)
        self._writers[shard].write(order + _HASHES.pack(bucket, digest) + example)

    def close(self) -> Iterator[tuple[Shard, str]]:
        """The shards that have rows, and where they are."""
        for shard, writer in self._writers.items():
            writer.close()
            yield shard, self._path(shard)
        self._writers = {}

    def _path(self, shard: Shard) -> str:
        split, number = shard
        return os.path.join(self._folder, f"{split}-{number:05d}", self._name)


class Spilled(NamedTuple):
    """A row as it comes back. Its first field is its place, by which a shard is sorted."""

    order: bytes
    bucket: int
    digest: int
    example: bytes


def read_back(path: str) -> Iterator[Spilled]:
    # Row by row tf.data would take three times as long.
    for row in tf.compat.v1.io.tf_record_iterator(path):
        bucket, digest = _HASHES.unpack_from(row, ORDER_BYTES)
        yield Spilled(row[:ORDER_BYTES], bucket, digest, row[ORDER_BYTES + _HASHES.size :])
