"""One step of a training, and one look at the evaluation examples, as traced functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import tensorflow as tf

from bertline.models.data import batching
from bertline.models.tasks.base.task import Task
from bertline.models.training.distribution import Devices
from bertline.models.training.optimizer import Optimizer
from bertline.models.training.precision import in_float32
from bertline.pipeline.config import TrainingConfig

Tensors = dict[str, tf.Tensor]
_LISTED = 1 << 18  # rows of epochs that share a dataset


def step_function(
    devices: Devices,
    model: Any,
    task: Task,
    optimizer: Optimizer,
    rows: batching.Corpus,
    settings: TrainingConfig,
) -> Callable[[Any], tuple[Any, Any, Any]]:
    """One traced step for all lengths: the signature leaves the length open, so nothing is traced twice.

    Returns:
      Batch of a distributed dataset -> its loss, accuracy and number of tokens.
    """
    weights = [weight.value for weight in model.trainable_variables]

    @tf.function(jit_compile=settings.xla, autograph=False)
    def gradients(batch: Tensors) -> tuple[list[Any], tf.Tensor]:
        with tf.GradientTape() as tape:
            logits = in_float32(model(batch, training=True))
            loss = tf.reduce_sum(batch["weight"] * _smoothed(task, logits, batch, settings.label_smoothing))
            scaled = loss * optimizer.loss_scale
        accuracy = tf.reduce_sum(batch["weight"] * task.objective.accuracy(logits, batch))
        return tape.gradient(scaled, weights), tf.stack([loss, accuracy, _tokens(batch, rows.counted)])

    def replica_step(batch: Tensors) -> tf.Tensor:
        parts = settings.gradient_accumulation_steps
        found, numbers = gradients(batch) if parts == 1 else _accumulated(gradients, batch, parts)
        optimizer.apply(found)
        return numbers

    some = batches(rows, [batching.Batch(np.zeros(1, np.int64), 4)], settings, devices.replicas)
    spec, strategy = devices.deal(some).element_spec, devices.strategy

    @tf.function(input_signature=[spec], autograph=False)
    def step(batch: Any) -> tuple[Any, Any, Any]:
        numbers = strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(replica_step, args=(batch,)), axis=None)
        return numbers[0], numbers[1], numbers[2]

    return step


def batches(
    rows: batching.Corpus, planned: Sequence[batching.Batch], settings: TrainingConfig, replicas: int = 1
) -> tf.data.Dataset:
    """The batches of a plan, of rows that can be dealt out evenly."""
    if settings.batch_tokens:
        return batching.batches(rows, planned, None, multiple=replicas * settings.gradient_accumulation_steps)
    return batching.batches(rows, planned, settings.batch_size)


def epochs(
    devices: Devices, rows: batching.Corpus, plans: Sequence[Sequence[batching.Batch]], settings: TrainingConfig
) -> Iterator[Iterator[Any]]:
    """The batches of one epoch after the other, dealt out to the devices; an epoch is gone through before the next is asked
    for.

    A dataset is traced, optimized and started in a tenth of a second, which is as long as an epoch of few rows takes: these
    share one. Many rows have one an epoch, for all of its rows are listed in memory.
    """
    begin = 0
    while begin < len(plans):
        end, listed = begin + 1, _rows_in(plans[begin])
        while end < len(plans) and (listed := listed + _rows_in(plans[end])) <= _LISTED:
            end += 1
        together = [batch for planned in plans[begin:end] for batch in planned]
        stream = iter(devices.deal(batches(rows, together, settings, devices.replicas)))
        for planned in plans[begin:end]:
            yield islice(stream, len(planned))
        begin = end


def _rows_in(planned: Sequence[batching.Batch]) -> int:
    return sum(len(batch.rows) for batch in planned)


def plan(rows: batching.Corpus, settings: TrainingConfig, *, seed: int | None, epoch: int = 0) -> list[batching.Batch]:
    """The batches of one epoch; without a seed, those in which evaluation examples are looked at."""
    if not settings.batch_tokens:
        return batching.plan(rows.lengths, settings.batch_size, settings.buckets, seed=seed, epoch=epoch)
    sides = [rows.lengths] + ([rows.weights] if rows.counted else [])
    return batching.plan_by_tokens(sides, settings.batch_tokens, seed=seed, epoch=epoch)


def _tokens(batch: Tensors, counted: str | None) -> tf.Tensor:
    """How many tokens were learned from: those that are read, and those that are to be written."""
    masks = [batch["mask"]] + ([batch[f"{counted}_mask"]] if counted else [])
    real = tf.cast(batch["weight"] > 0, tf.float32)
    return tf.add_n([tf.reduce_sum(tf.cast(mask, tf.float32) * real[:, tf.newaxis]) for mask in masks])


def _smoothed(task: Task, logits: Any, batch: Tensors, smoothing: float) -> tf.Tensor:
    losses = task.objective.loss(logits, batch)
    if smoothing and task.objective.smoothing:
        return (1 - smoothing) * losses + smoothing * task.objective.smoothing(logits, batch)
    return losses


def _accumulated(
    gradients: Callable[[Tensors], tuple[list[Any], tf.Tensor]], batch: Tensors, parts: int
) -> tuple[list[Any], tf.Tensor]:
    """Sums what `gradients` finds in each part of a batch, one part after the other.

    A row's weight is its share of the whole batch, so the plain sum is the gradient of the whole batch, whatever the rows'
    shares are and wherever the rows without any have gone.

    Args:
      gradients: (part of the batch) -> gradients (None for a weight that the loss does not depend on), numbers to add up.
      batch: tensors whose first dimension is a multiple of `parts`.
    """
    known = batch["weight"].shape[0]  # a number that is known when the step is traced makes all shapes known
    part_rows = tf.shape(batch["weight"])[0] // parts if known is None else known // parts
    static = None if known is None else part_rows

    def part(index: Any) -> Tensors:
        begin = index * part_rows
        return {
            name: tf.ensure_shape(value[begin : begin + part_rows], [static, *value.shape[1:]])
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
    # A loop and not `parts` copies of the graph: copies would run side by side and save no memory. So would the first part
    # and the second: what the loop does before it adds needs nothing but the number of its part.
    with tf.control_dependencies([*start, numbers]):
        second = tf.identity(1)
    _, sums, numbers = tf.while_loop(lambda index, *_: index < parts, add, (second, start, numbers), parallel_iterations=1)
    by_place = dict(zip(used, sums, strict=True))
    return [by_place.get(place) for place in range(len(first))], numbers


def _plus(total: tf.Tensor, gradient: Any) -> tf.Tensor:
    """Adds the gradient of an embedding table row by row, in place: the batch touches few of its rows."""
    if isinstance(gradient, tf.IndexedSlices):
        return tf.tensor_scatter_nd_add(total, gradient.indices[:, tf.newaxis], gradient.values)
    return total + gradient


def evaluator(
    devices: Devices, model: Any, task: Task, rows: batching.Corpus, settings: TrainingConfig
) -> Callable[[], tuple[float, float]]:
    """Mean loss and accuracy over a corpus, as often as it is called; each process looks at its share of the batches."""
    # What fits into memory while training fits here.
    whole = {"batch_size": settings.batch_size, "batch_tokens": settings.batch_tokens}
    sizes = {name: size // settings.gradient_accumulation_steps for name, size in whole.items() if size}
    parts = settings.model_copy(update={**sizes, "gradient_accumulation_steps": 1})
    planned = devices.share(plan(rows, parts, seed=None))
    dataset, of_rows = batches(rows, planned, parts), rows.weights
    weights, total = [of_rows[part.rows].sum() for part in planned], max(1, of_rows.sum())
    again_and_again = iter(dataset.repeat()) if planned else iter(())  # to begin anew takes longer than to look at little

    @tf.function(input_signature=[dataset.element_spec], autograph=False)
    def numbers(batch: Tensors) -> tuple[tf.Tensor, tf.Tensor]:
        logits = in_float32(model(batch, training=False))
        return (
            tf.reduce_sum(batch["weight"] * task.objective.loss(logits, batch)),
            tf.reduce_sum(batch["weight"] * task.objective.accuracy(logits, batch)),
        )

    def evaluate() -> tuple[float, float]:
        sums = np.zeros(2)
        for batch, weight in zip(islice(again_and_again, len(weights)), weights, strict=True):
            sums += weight * np.asarray([float(value) for value in numbers(batch)])
        loss, accuracy = devices.summed(sums) / total
        return float(loss), float(accuracy)

    return evaluate
