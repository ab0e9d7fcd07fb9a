"""Length-bucketed batches from transformed examples.

The token ids of a corpus are small (four bytes a token): they are read once into memory as one ragged array. The batches
of an epoch are then *planned*, as lists of row numbers, from the lengths alone. A plan is a pure function of the seed and
the epoch: the number of steps is known before the first one, and a killed training goes on at any batch of any epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import tensorflow as tf

from bertline.models.tokenization.places import PLACES

TOKENS = "token_ids"
OF_TOKENS = (TOKENS, "segment_ids", "blocks", "positions", *PLACES)
"""Features with one number a token."""


Prepare = Callable[[dict[str, tf.Tensor], tf.Tensor], dict[str, tf.Tensor]]


@dataclass(frozen=True)
class Corpus:
    """Rows of one split: ragged token ids, other ragged numbers, and one value a row of everything else."""

    values: np.ndarray  # [tokens] int32
    starts: np.ndarray  # [rows + 1] int64
    targets: dict[str, np.ndarray]  # name -> [rows]
    others: dict[str, tf.RaggedTensor] = field(default_factory=dict)  # name -> [rows, (numbers)] int32
    prepare: Prepare | None = None
    """(batch, seed) -> batch, for what is drawn anew each time."""
    counted: str | None = None
    """Which of `others` a row weighs by: as much as it has values there. Without it all rows weigh alike."""

    @property
    def weights(self) -> np.ndarray:
        """[rows]: what each row counts beside the others, in the loss and in its mean over evaluation examples."""
        return np.ones(len(self)) if self.counted is None else np.diff(self.others[self.counted].row_splits.numpy())

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.starts)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def where(self, condition: np.ndarray) -> Corpus:
        """The rows for which it holds; `condition` is [rows] bool."""
        if condition.all():
            return self
        rows = np.flatnonzero(condition)
        ragged = tf.gather(_ragged(self), rows)
        return replace(
            self,
            values=ragged.flat_values.numpy(),
            starts=ragged.row_splits.numpy(),
            targets={name: value[rows] for name, value in self.targets.items()},
            others={name: tf.gather(value, rows) for name, value in self.others.items()},
        )


@dataclass(frozen=True)
class Batch:
    """A planned batch: which rows, padded to which length."""

    rows: np.ndarray
    length: int
    seed: int = 0
    """Of what is drawn for this batch in this epoch."""


def as_numbers(values: tf.RaggedTensor) -> tf.RaggedTensor:
    """Lists of whole numbers as all of the pipeline has them: Examples know no integers but those of 64 bits."""
    return tf.cast(values, tf.int32) if values.dtype == tf.int64 else values


def as_it_is(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function for `Dataset.map`, which would have AutoGraph rewrite it and all that it calls: that takes longer than to
    trace it, and none of ours has Python's own `if` or `for` on tensors."""
    return tf.autograph.experimental.do_not_convert(function)


def read_rows(files: Sequence[str], feature_spec: Mapping[str, Any], batch_size: int) -> tf.data.Dataset:
    """The features of transformed TFRecords, as Transform made them, in batches."""

    def parse(records: tf.Tensor) -> dict[str, Any]:
        parsed = tf.io.parse_example(records, dict(feature_spec))
        return {name: as_numbers(x) if isinstance(x, tf.RaggedTensor) else x for name, x in parsed.items()}

    dataset = tf.data.TFRecordDataset(sorted(files), compression_type="GZIP", num_parallel_reads=1)
    return dataset.batch(batch_size).map(as_it_is(parse)).prefetch(2)


def read_lengths(files: Sequence[str], feature_spec: Mapping[str, Any]) -> np.ndarray:
    """[rows]: the tokens of each, without keeping them."""
    dataset = read_rows(files, {TOKENS: feature_spec[TOKENS]}, 1024)
    return np.concatenate([np.zeros(0, np.int64), *(rows[TOKENS].row_lengths().numpy() for rows in dataset)])


def by_length(batches: Iterable[Mapping[str, Any]], batch_size: int) -> Iterator[dict[str, Any]]:
    """The rows of some batches in new ones, from the shortest to the longest: little of them is padding."""
    read = list(batches)
    rows = {name: tf.concat([batch[name] for batch in read], axis=0) for name in (read[0] if read else ())}
    order = tf.argsort(rows[TOKENS].row_lengths(), stable=True) if rows else tf.zeros([0], tf.int32)
    for begin in range(0, len(order), batch_size):
        yield {name: tf.gather(value, order[begin : begin + batch_size]) for name, value in rows.items()}


def read_corpus(
    files: Sequence[str],
    feature_spec: Mapping[str, Any],
    expand: Callable[[dict[str, Any]], dict[str, Any]] = lambda features: features,
) -> Corpus:
    """Reads transformed TFRecords; rows without a usable label are left out.

    Args:
      expand: (features of some rows) -> those of the rows to learn from, which may be more.
    """
    dataset = read_rows(files, feature_spec, 1024).map(as_it_is(expand))
    dense: dict[str, list[np.ndarray]] = {}
    values: dict[str, list[np.ndarray]] = {TOKENS: []}
    lengths: dict[str, list[np.ndarray]] = {TOKENS: []}
    for parsed in dataset:
        for name, found in parsed.items():
            if isinstance(found, tf.RaggedTensor):
                values.setdefault(name, []).append(found.flat_values.numpy())
                lengths.setdefault(name, []).append(found.row_lengths().numpy())
            else:
                dense.setdefault(name, []).append(found.numpy())

    def starts(name: str) -> np.ndarray:
        return np.concatenate([[0], *lengths[name]]).cumsum()

    corpus = Corpus(
        np.concatenate([np.zeros(0, np.int32), *values[TOKENS]]),
        starts(TOKENS),
        {name: np.concatenate(parts) for name, parts in dense.items()},
        {
            name: tf.RaggedTensor.from_row_splits(np.concatenate(parts), starts(name))
            for name, parts in values.items()
            if name != TOKENS
        },
    )
    if "label_id" in corpus.targets:
        return corpus.where(corpus.targets["label_id"] >= 0)
    if "label_value" in corpus.targets:
        return corpus.where(~np.isnan(corpus.targets["label_value"]))
    return corpus


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
    seeds = np.arange(len(batches))
    if random is not None:
        random.shuffle(batches)  # type: ignore[arg-type]
        seeds = random.integers(2**31, size=len(batches))
    return [replace(batch, seed=int(drawn)) for batch, drawn in zip(batches, seeds, strict=True)]


def plan_by_tokens(
    sides: Sequence[np.ndarray], limit: int, *, seed: int | None, epoch: int = 0, jitter: float = 2.0
) -> list[Batch]:
    """Batches of one epoch, each of as many rows as fit: rows times the longest of each side are at most so many tokens.

    Args:
      sides: [rows] lengths; of the source and of the target, say. Rows that are alike in all of them go together.
      limit: tokens a batch, padding included; a row that is longer has a batch of its own.
      seed: draws which of the rows that are about alike share a batch, and the order of the batches. Without one, they are
        in the order of their lengths.
      jitter: rows whose first side differs by less may change places.
    """
    first, *others = sides
    random = None if seed is None else np.random.default_rng((seed, epoch))
    shaken = first if random is None else first + jitter * random.random(len(first))
    order = np.lexsort((shaken, *others)) if others else np.argsort(shaken, kind="stable")
    batches: list[Batch] = []
    begin, longest = 0, [0] * len(sides)
    ordered = np.stack([side[order] for side in sides], axis=1).tolist()
    for place, lengths in enumerate(ordered):
        grown = [max(pair) for pair in zip(longest, lengths, strict=True)]
        if place > begin and (place + 1 - begin) * sum(grown) > limit:
            batches.append(Batch(order[begin:place], longest[0]))
            begin, grown = place, lengths
        longest = grown
    if len(order):
        batches.append(Batch(order[begin:], longest[0]))
    seeds = np.arange(len(batches))
    if random is not None:
        random.shuffle(batches)  # type: ignore[arg-type]
        seeds = random.integers(2**31, size=len(batches))
    return [replace(batch, seed=int(drawn)) for batch, drawn in zip(batches, seeds, strict=True)]


def batches(corpus: Corpus, planned: Sequence[Batch], batch_size: int | None, *, multiple: int = 1) -> tf.data.Dataset:
    """A dataset of padded batches: token_ids and mask [rows, length], the targets, and `weight`.

    `weight` is a row's share of the batch's loss, by what the rows weigh, and 0 for the rows that fill up a batch. The sum
    over all replicas is then the mean over the real rows, however they were dealt out.

    Args:
      batch_size: rows that every batch is filled up to; without it each is as large as it was planned, …
      multiple: … and filled up to the next multiple of this.
    """
    ragged = {TOKENS: _ragged(corpus), **corpus.others}
    targets = {name: tf.constant(value) for name, value in corpus.targets.items()}
    of_rows = corpus.weights
    sizes = np.asarray([batch_size or -(-len(batch.rows) // multiple) * multiple for batch in planned], np.int64)
    starts = np.cumsum(sizes) - sizes
    rows, weights = np.zeros(sizes.sum(), np.int64), np.zeros(sizes.sum(), np.float32)
    for start, batch in zip(starts, planned, strict=True):
        place = slice(start, start + len(batch.rows))
        rows[place] = batch.rows
        weights[place] = of_rows[batch.rows] / of_rows[batch.rows].sum()
    lengths = np.asarray([batch.length for batch in planned], np.int32)
    seeds = np.asarray([batch.seed for batch in planned], np.int64)
    all_rows, all_weights = tf.constant(rows), tf.constant(weights)

    def gather(start: tf.Tensor, size: tf.Tensor, length: tf.Tensor, seed: tf.Tensor) -> dict[str, tf.Tensor]:
        chosen, weight = (tf.ensure_shape(x[start : start + size], [batch_size]) for x in (all_rows, all_weights))
        made = padded({name: tf.gather(value, chosen) for name, value in ragged.items()}, length)
        # Filling rows keep one token: attention over nothing at all would be 0/0.
        made["mask"] &= (weight > 0)[:, tf.newaxis] | (tf.range(length) == 0)
        made = {name: tf.ensure_shape(value, [batch_size, None]) for name, value in made.items()}
        made |= {"weight": weight, **{name: tf.gather(value, chosen) for name, value in targets.items()}}
        return corpus.prepare(made, seed) if corpus.prepare else made

    return tf.data.Dataset.from_tensor_slices((starts, sizes, lengths, seeds)).map(as_it_is(gather)).prefetch(4)


def padded(features: Mapping[str, Any], length: tf.Tensor | None = None) -> dict[str, tf.Tensor]:
    """Features as the model takes them: ragged ones dense, with 0 after the last number, and `mask` for the tokens.

    Args:
      features: `token_ids` and whatever else there is. What is not of the tokens' lengths gets a mask of its own,
        NAME_mask.
      length: tokens to pad to; by default the longest text has as many.
    """
    tokens = features[TOKENS]
    if length is None:
        length = tf.maximum(tf.cast(tokens.bounding_shape()[1], tf.int32), 1)  # 1 for a request without any text
    made = {}
    for name, value in features.items():
        if not isinstance(value, tf.RaggedTensor):
            made[name] = value
        elif name in OF_TOKENS:
            made[name] = pad(value, length)
        else:
            made[name] = value.to_tensor()
            made[f"{name}_mask"] = tf.sequence_mask(value.row_lengths(), tf.shape(made[name])[1])
    made["mask"] = tf.sequence_mask(tokens.row_lengths(), length)
    return made


def pad(tokens: tf.RaggedTensor, length: tf.Tensor) -> tf.Tensor:
    """Token ids as [rows, length], with 0 after the last one; the mask, not the 0, says what is padding."""
    dense = tokens.to_tensor()[:, :length]
    return tf.pad(dense, [[0, 0], [0, length - tf.shape(dense)[1]]])
