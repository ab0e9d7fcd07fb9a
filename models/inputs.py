"""Length-bucketed batches from transformed examples.

The token ids of a corpus are small (four bytes a token): they are read once into memory as one ragged array. The batches
of an epoch are then *planned*, as lists of row numbers, from the lengths alone. A plan is a pure function of the seed and
the epoch: the number of steps is known before the first one, and a killed training goes on at any batch of any epoch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

TOKENS = "token_ids"


@dataclass(frozen=True)
class Corpus:
    """Rows of one split: ragged token ids, and one value a row of everything else."""

    values: np.ndarray  # [tokens] int32
    starts: np.ndarray  # [rows + 1] int64
    targets: dict[str, np.ndarray]  # name -> [rows]

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.starts)

    def __len__(self) -> int:
        return len(self.starts) - 1


@dataclass(frozen=True)
class Batch:
    """A planned batch: which rows, padded to which length."""

    rows: np.ndarray
    length: int


def read_corpus(files: Sequence[str], feature_spec: Mapping[str, Any]) -> Corpus:
    """Reads transformed TFRecords; rows without a usable label are left out."""
    dataset = tf.data.TFRecordDataset(sorted(files), compression_type="GZIP", num_parallel_reads=1)
    dataset = dataset.batch(1024).map(lambda records: tf.io.parse_example(records, dict(feature_spec)))
    values, lengths = [], []
    targets: dict[str, list[np.ndarray]] = {name: [] for name in feature_spec if name != TOKENS}
    for parsed in dataset.prefetch(2):
        values.append(parsed[TOKENS].flat_values.numpy().astype(np.int32))
        lengths.append(parsed[TOKENS].row_lengths().numpy())
        for name, parts in targets.items():
            parts.append(parsed[name].numpy())
    corpus = Corpus(
        np.concatenate(values) if values else np.zeros(0, np.int32),
        np.concatenate([[0], np.cumsum(np.concatenate(lengths))]) if lengths else np.zeros(1, np.int64),
        {name: np.concatenate(parts) if parts else np.zeros(0) for name, parts in targets.items()},
    )
    labelled = corpus.targets.get("label_id")
    return corpus if labelled is None or (labelled >= 0).all() else _keep(corpus, np.flatnonzero(labelled >= 0))


def _keep(corpus: Corpus, rows: np.ndarray) -> Corpus:
    ragged = tf.gather(_ragged(corpus), rows)
    return Corpus(
        ragged.flat_values.numpy(), ragged.row_splits.numpy(), {name: v[rows] for name, v in corpus.targets.items()}
    )


def _ragged(corpus: Corpus) -> tf.RaggedTensor:
    return tf.RaggedTensor.from_row_splits(corpus.values, corpus.starts)


def plan(lengths: np.ndarray, batch_size: int, buckets: Sequence[int], *, seed: int | None, epoch: int = 0) -> list[Batch]:
    """Batches of one epoch: each row once, each batch full but the last few, rows of like length together.

    Without a seed the order is by length, for evaluation. What is left over in the buckets is put together, shortest
    first, so that at most one batch is not full.
    """
    limits = np.asarray([*(b for b in buckets if b < lengths.max(initial=1)), lengths.max(initial=1)])
    bucket_of = np.searchsorted(limits, lengths)
    random = None if seed is None else np.random.default_rng((seed, epoch))
    order = np.argsort(lengths, kind="stable") if random is None else random.permutation(len(lengths))
    batches, rest = [], []
    for bucket, limit in enumerate(limits):
        rows = order[bucket_of[order] == bucket]
        full = len(rows) // batch_size * batch_size
        batches += [Batch(part, int(limit)) for part in rows[:full].reshape(-1, batch_size)]
        rest.append(rows[full:])
    leftover = np.concatenate(rest) if rest else np.zeros(0, np.int64)
    for begin in range(0, len(leftover), batch_size):
        rows = leftover[begin : begin + batch_size]
        batches.append(Batch(rows, int(limits[bucket_of[rows].max()])))
    if random is not None:
        random.shuffle(batches)  # type: ignore[arg-type]
    return batches


def batches(corpus: Corpus, planned: Sequence[Batch], batch_size: int) -> tf.data.Dataset:
    """A dataset of padded batches: token_ids and mask [batch_size, length], the targets, and `weight`.

    `weight` is a row's share of the batch's loss: 1/rows, and 0 for the rows that fill up a batch. The sum over all
    replicas is then the mean over the real rows, however they were dealt out.
    """
    ragged = _ragged(corpus)
    targets = {name: tf.constant(value) for name, value in corpus.targets.items()}
    rows = np.zeros((len(planned), batch_size), np.int64)
    weights = np.zeros((len(planned), batch_size), np.float32)
    for index, batch in enumerate(planned):
        rows[index, : len(batch.rows)] = batch.rows
        weights[index, : len(batch.rows)] = 1.0 / len(batch.rows)
    lengths = np.asarray([batch.length for batch in planned], np.int32)

    def gather(chosen: tf.Tensor, weight: tf.Tensor, length: tf.Tensor) -> dict[str, tf.Tensor]:
        tokens = tf.gather(ragged, chosen)
        filled = {name: tf.gather(value, chosen) for name, value in targets.items()}
        # Filling rows keep one token: attention over nothing at all would be 0/0.
        sizes = tf.where(weight > 0, tokens.row_lengths(), tf.ones_like(tokens.row_lengths()))
        return {
            TOKENS: tf.ensure_shape(pad(tokens, length), [batch_size, None]),
            "mask": tf.ensure_shape(tf.sequence_mask(sizes, length), [batch_size, None]),
            "weight": weight,
            **filled,
        }

    return tf.data.Dataset.from_tensor_slices((rows, weights, lengths)).map(gather).prefetch(4)


def pad(tokens: tf.RaggedTensor, length: tf.Tensor) -> tf.Tensor:
    """Token ids as [rows, length], with 0 after the last one; the mask, not the 0, says what is padding."""
    dense = tokens.to_tensor()[:, :length]
    return tf.pad(dense, [[0, 0], [0, length - tf.shape(dense)[1]]])
