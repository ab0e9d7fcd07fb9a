"""The Examples of a shard: in order, on the sides that the plan says, and without duplicates."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

import numpy as np
import tensorflow as tf

from bertline.components.ingest.duplicates import NO_TEXT
from bertline.components.ingest.filters import left_out
from bertline.components.ingest.plan import Plan
from bertline.components.ingest.report import Tally
from bertline.components.ingest.rows import ALL_SPLITS
from bertline.components.ingest.spill import Spilled, read_back
from bertline.pipeline.config import CHOICES, TEXT_KEYS, DataConfig, LabelKind


def write_shard(
    keyed: tuple[int, Iterable[tuple[str, str]]],
    plan: Plan,
    examples_uri: str,
    shards: int,
    data: DataConfig,
    label: LabelKind,
) -> Tally:
    """Writes one gzipped TFRecord file of each split, named as TFX's own ExampleGen names it.

    Args:
      keyed: number of the shard, and the files with its rows, each with the split that the readers put them on.

    Returns:
      What changes in the readers' counts.
    """
    shard, pieces = keyed
    tally = Tally()
    rows: dict[str, list[Spilled]] = {split: [] for split in ALL_SPLITS}
    for split, path in pieces:
        for row in read_back(path):
            side = plan.moves.side(split, row.bucket)
            if side == split or _moves(row, split, side, data, label, tally):
                rows[side].append(row)
    rows["train"] = _without_duplicates(rows["train"], plan, label, tally)
    for split, kept in rows.items():
        if kept:
            folder = os.path.join(examples_uri, f"Split-{split}")
            tf.io.gfile.makedirs(folder)
            path = os.path.join(folder, f"data_tfrecord-{shard:05d}-of-{shards:05d}.gz")
            with tf.io.TFRecordWriter(path, tf.io.TFRecordOptions(compression_type="GZIP")) as writer:
                for row in sorted(kept):
                    writer.write(row.example)
    return tally


def _moves(row: Spilled, split: str, side: str, data: DataConfig, label: LabelKind, tally: Tally) -> bool:
    """Counts a row on the other side; whether it is kept there: training rows may be too long."""
    features = tf.train.Example.FromString(row.example).features.feature
    labels = _labels(features, label)
    tally.take_back(split, labels, row.example)
    texts = [text.decode() for name in (*TEXT_KEYS, CHOICES) for text in features[name].bytes_list.value]
    if side == "train" and (filtered := left_out(texts, None, data)):
        tally.left_out[filtered.setting] += 1
        return False
    tally.move(side, labels, row.example)
    return True


def _without_duplicates(rows: list[Spilled], plan: Plan, label: LabelKind, tally: Tally) -> list[Spilled]:
    if not len(plan.evaluation):
        return rows
    digests = np.fromiter((row.digest for row in rows), np.uint64, len(rows))
    is_repeated = np.isin(digests, plan.evaluation) & (digests != NO_TEXT)
    for at in np.flatnonzero(is_repeated):
        example = rows[at].example
        tally.leave_out_duplicate(_labels(tf.train.Example.FromString(example).features.feature, label), example)
    return [row for row, repeated in zip(rows, is_repeated, strict=True) if not repeated]


def _labels(features: tf.train.Features, label: LabelKind) -> Sequence[str]:
    """The classes of a row, as `KeptExample.labels` has them."""
    if label == "text":
        return ()
    return [name.decode() for name in features["label"].bytes_list.value]
