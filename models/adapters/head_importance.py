"""How much each head of an encoder matters, and which to keep (Michel et al., arXiv 1905.10650).

Importance is [layers, heads], larger for heads that matter more, and NaN for those that are gone already.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import tensorflow as tf

from bertline.models.adapters.lora import find_encoder
from bertline.models.data.batching import padded
from bertline.models.encoders.bert.backbone import EncoderSize
from bertline.models.tasks.base.task import Context, Task, Tensors, expanded
from bertline.models.training.precision import in_float32
from bertline.pipeline.core.errors import BertlineError

Heads = Mapping[int, Sequence[int]]
"""Layer -> some of its heads, in the numbering of an encoder that lost none."""
Progress = Callable[[int, int], None]
"""Is told how much is done, and of how much."""


def no_progress(done: int, of: int) -> None:
    """Nobody watches."""


def by_gradient(
    task: Task, context: Context, model: Any, rows: Sequence[Tensors], progress: Progress = no_progress
) -> np.ndarray:
    """|d loss / d mask| of every head: each row's own, summed over the rows, and then each layer scaled to length 1.

    Args:
      rows: features of rows that have a label, in batches.
    """
    encoder = find_encoder(model)
    shape = (encoder.size.layers, encoder.size.heads)

    @tf.function(reduce_retracing=True, autograph=False)
    def sensitivity(features: Tensors) -> tf.Tensor:
        batch = padded(expanded(task, features, context, training=True))
        count = tf.shape(batch["mask"])[0]
        batch["weight"] = tf.fill([count], 1 / tf.cast(count, tf.float32))
        if task.preprocessing.prepare:
            batch = task.preprocessing.prepare(context, False)(batch, tf.constant(0, tf.int64))
        # A mask for each row: of one for all of them, rows that pull either way would cancel each other out.
        mask = tf.ones([count, *shape])
        with tf.GradientTape() as tape:
            tape.watch(mask)
            with encoder.masking(mask):
                outputs = in_float32(model(batch, training=False))
            loss = tf.reduce_sum(task.objective.loss(outputs, batch))
        return tf.reduce_sum(tf.abs(tape.gradient(loss, mask)), axis=0)

    sums = np.zeros(shape)
    for done, features in enumerate(rows, 1):
        sums += sensitivity(features).numpy()
        progress(done, len(rows))
    # As in the paper: losses are more sensitive to some layers as a whole, which says little about their heads.
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    return np.where(present(encoder.size), np.divide(sums, lengths, out=sums, where=lengths > 0), np.nan)


def by_ablation(
    score: Callable[[np.ndarray], float],
    size: EncoderSize,
    better: Literal["higher", "lower"],
    progress: Progress = no_progress,
) -> np.ndarray:
    """How much worse the metric is without each head, all others there; below 0 where it is better without.

    Args:
      score: (head mask) -> the metric.
    """
    there = present(size)
    found = np.full(there.shape, np.nan)
    sign = 1.0 if better == "higher" else -1.0
    places = np.argwhere(there)
    whole = score(there.astype(np.float32))
    if not np.isfinite(whole):
        raise BertlineError("the metric is undefined on these examples; choose another one, or give other examples.")
    for done, (layer, head) in enumerate(places.tolist(), 1):
        mask = there.astype(np.float32)
        mask[layer, head] = 0
        worse = sign * (whole - score(mask))
        found[layer, head] = worse if np.isfinite(worse) else abs(whole)  # without a value, all of it is lost
        progress(done, len(places))
    return found


def present(size: EncoderSize) -> np.ndarray:
    """[layers, heads] bool: the heads that an encoder has."""
    there = np.zeros((size.layers, size.heads), bool)
    for layer, heads in enumerate(size.kept_heads):
        there[layer, list(heads)] = True
    return there


def least_important(importance: np.ndarray, keep: int, *, shared: bool = False) -> Heads:
    """The heads to lose, so that `keep` are left: those that matter least, wherever they are.

    Args:
      shared: the layers share their weights and so lose the same heads, by what these matter in all layers together;
        `keep` is then a multiple of the layers, or rounded up to one.
    """
    layers, heads = importance.shape
    if shared:
        together = np.repeat(importance.sum(axis=0, keepdims=True), layers, axis=0)
        ranked = _ranked(together[:1])
        lost = [head for _, head in ranked[: len(ranked) - -(-keep // layers)]]
        return {layer: sorted(lost) for layer in range(layers)} if lost else {}
    ranked = _ranked(importance)
    found: dict[int, list[int]] = {}
    for layer, head in ranked[: max(0, len(ranked) - keep)]:
        found.setdefault(layer, []).append(head)
    return {layer: sorted(found[layer]) for layer in sorted(found)}


def _ranked(importance: np.ndarray) -> list[tuple[int, int]]:
    """Layer and head of each that is there, the least important first; of equal ones, those further down come last."""
    places = [(int(layer), int(head)) for layer, head in np.argwhere(~np.isnan(importance))]
    return sorted(places, key=lambda place: (importance[place], -place[0], -place[1]))


def mask_without(size: EncoderSize, lost: Heads) -> np.ndarray:
    """[layers, heads] float32: 0 for the heads that are lost or gone already."""
    mask = present(size).astype(np.float32)
    for layer, heads in lost.items():
        mask[layer, list(heads)] = 0
    return mask
