"""One step of a training, and one look at the held-out rows, as traced functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from models import inputs
from models.optimizer import Optimizer
from models.precision import in_float32
from models.task import Task
from pipeline.config import TrainingConfig

Tensors = dict[str, tf.Tensor]


def step_function(
    strategy: tf.distribute.Strategy,
    model: Any,
    task: Task,
    optimizer: Optimizer,
    rows: inputs.Corpus,
    settings: TrainingConfig,
) -> Callable[[Any], tuple[Any, Any, Any]]:
    """One traced step for all lengths: the signature leaves the length open, so nothing is traced twice.

    Returns:
      Batch of a distributed dataset -> its loss, accuracy and number of tokens.
    """
    weights = [weight.value for weight in model.trainable_variables]
    part_rows = settings.batch_size // strategy.num_replicas_in_sync // settings.accumulate

    @tf.function(jit_compile=settings.xla, autograph=False)
    def gradients(batch: Tensors) -> tuple[list[Any], tf.Tensor]:
        with tf.GradientTape() as tape:
            logits = in_float32(model(batch, training=True))
            loss = tf.reduce_sum(batch["weight"] * _smoothed(task, logits, batch, settings.label_smoothing))
            scaled = loss * optimizer.loss_scale
        accuracy = tf.reduce_sum(batch["weight"] * task.correct(logits, batch))
        real = tf.cast(batch["mask"], tf.float32) * tf.cast(batch["weight"] > 0, tf.float32)[:, tf.newaxis]
        return tape.gradient(scaled, weights), tf.stack([loss, accuracy, tf.reduce_sum(real)])

    def replica_step(batch: Tensors) -> tf.Tensor:
        parts = settings.accumulate
        found, numbers = gradients(batch) if parts == 1 else _accumulated(gradients, batch, parts, part_rows)
        optimizer.apply(found)
        return numbers

    example = inputs.batches(rows, [inputs.Batch(np.zeros(1, np.int64), 4)], settings.batch_size)
    spec = strategy.experimental_distribute_dataset(example).element_spec

    @tf.function(input_signature=[spec], autograph=False)
    def step(batch: Any) -> tuple[Any, Any, Any]:
        numbers = strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(replica_step, args=(batch,)), axis=None)
        return numbers[0], numbers[1], numbers[2]

    return step


def _smoothed(task: Task, logits: Any, batch: Tensors, share: float) -> tf.Tensor:
    losses = task.loss(logits, batch)
    if share and task.spread_loss:
        return (1 - share) * losses + share * task.spread_loss(logits, batch)
    return losses


def _accumulated(
    gradients: Callable[[Tensors], tuple[list[Any], tf.Tensor]], batch: Tensors, parts: int, part_rows: int
) -> tuple[list[Any], tf.Tensor]:
    """Sums what `gradients` finds in each part of a batch, one part after the other.

    A row's weight is its share of the whole batch, so the plain sum is the gradient of the whole batch, whatever the rows'
    shares are and wherever the rows without any have gone.

    Args:
      gradients: (part of the batch) -> gradients (None for a weight that the loss does not depend on), numbers to add up.
      batch: tensors whose first dimension is `parts * part_rows`.
    """

    def part(index: Any) -> Tensors:
        begin = index * part_rows
        return {
            name: tf.ensure_shape(value[begin : begin + part_rows], [part_rows, *value.shape[1:]])
            for name, value in batch.items()
        }

    def add(index: tf.Tensor, sums: Sequence[tf.Tensor], numbers: tf.Tensor) -> tuple[Any, Any, Any]:
        found, more = gradients(part(index))
        sums = [_plus(total, found[place]) for total, place in zip(sums, used, strict=True)]
        return index + 1, sums, numbers + more

    # The first part, ahead of the loop, shows which weights have a gradient at all.
    first, numbers = gradients(part(tf.constant(0)))
    used = [place for place, gradient in enumerate(first) if gradient is not None]
    start = [tf.convert_to_tensor(first[place]) for place in used]
    # A loop and not `parts` copies of the graph: copies would run side by side and save no memory.
    _, sums, numbers = tf.while_loop(
        lambda index, *_: index < parts, add, (tf.constant(1), start, numbers), parallel_iterations=1
    )
    by_place = dict(zip(used, sums, strict=True))
    return [by_place.get(place) for place in range(len(first))], numbers


def _plus(total: tf.Tensor, gradient: Any) -> tf.Tensor:
    """Adds the gradient of an embedding table row by row, in place: the batch touches few of its rows."""
    if isinstance(gradient, tf.IndexedSlices):
        return tf.tensor_scatter_nd_add(total, gradient.indices[:, tf.newaxis], gradient.values)
    return total + gradient


def evaluator(model: Any, task: Task) -> Callable[[inputs.Corpus, TrainingConfig], tuple[float, float]]:
    """Mean loss and accuracy over a corpus, in batches of like length."""

    @tf.function(reduce_retracing=True, autograph=False)
    def numbers(batch: Tensors) -> tuple[tf.Tensor, tf.Tensor]:
        logits = in_float32(model(batch, training=False))
        return (
            tf.reduce_sum(batch["weight"] * task.loss(logits, batch)),
            tf.reduce_sum(batch["weight"] * task.correct(logits, batch)),
        )

    def evaluate(rows: inputs.Corpus, settings: TrainingConfig) -> tuple[float, float]:
        part_size = settings.batch_size // settings.accumulate  # what fits into memory while training fits here
        planned = inputs.plan(rows.lengths, part_size, settings.buckets, seed=None)
        sums = np.zeros(2)
        for batch, part in zip(inputs.batches(rows, planned, part_size), planned, strict=True):
            sums += len(part.rows) * np.asarray([float(value) for value in numbers(batch)])
        loss, accuracy = sums / max(1, len(rows))
        return float(loss), float(accuracy)

    return evaluate
