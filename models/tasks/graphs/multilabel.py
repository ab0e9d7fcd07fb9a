"""Any number of classes at once, for one text or a pair of texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from bertline.models.decisions.graph import calibrated, threshold_of
from bertline.models.heads.pooled import PooledHead, make_head, request
from bertline.models.tasks.base.task import Context, Tensors


def features(columns: Mapping[str, Any], context: Context) -> Tensors:
    return {**request(columns, context), "label_flags": label_flags(columns["label"], context.labels)}


def label_flags(names: tf.RaggedTensor, labels: tuple[str, ...]) -> tf.Tensor:
    """[batch, (names)] string -> [batch, labels] int64: 1 for each label that is named; unknown names count nothing."""
    named = names.to_tensor(default_value="")[:, :, tf.newaxis] == tf.constant(list(labels))
    return tf.ensure_shape(tf.cast(tf.reduce_any(named, axis=1), tf.int64), [None, len(labels)])


def loss(logits: tf.Tensor, batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
    return _mean(tf.nn.sigmoid_cross_entropy_with_logits(tf.cast(batch["label_flags"], logits.dtype), logits), batch)


def spread_loss(logits: tf.Tensor, batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
    return _mean(tf.nn.softplus(logits) - logits / 2, batch)


def _mean(losses: tf.Tensor, batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """Over the classes."""
    return tf.reduce_mean(losses * batch["flag_weights"] if "flag_weights" in batch else losses, axis=1)


def apply_class_weights(batch: Tensors, weights: tf.Tensor) -> Tensors:
    """A class that a row has by its weight; that a row has it not weighs 1."""
    return {**batch, "flag_weights": tf.where(batch["label_flags"] > 0, weights, 1.0)}


def correct(logits: tf.Tensor, batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """Share of the classes that are decided right."""
    return tf.reduce_mean(tf.cast((logits > 0) == (batch["label_flags"] > 0), tf.float32), axis=1)


def answer(logits: tf.Tensor, batch: Mapping[str, tf.Tensor], context: Context) -> Tensors:
    """`labels` are those above the threshold, the likeliest first, and empty ones after them."""
    names = tf.constant(list(context.labels))
    probabilities = tf.nn.sigmoid(calibrated(logits, context))
    ranked, order = tf.math.top_k(probabilities, len(context.labels))
    return {
        "labels": tf.where(ranked > threshold_of(context), tf.gather(names, order), ""),
        "probabilities": probabilities,
        # Every output has the batch as its first dimension: TensorFlow Serving splits batches along it.
        "classes": tf.tile(names[tf.newaxis], [tf.shape(logits)[0], 1]),
    }


def targets(features: Mapping[str, tf.Tensor]) -> Tensors:
    flags = features["label_flags"]
    return {"label_flags": flags, "label_weight": tf.ones_like(flags[:, 0], tf.float32)}


def build(encoder: Any, context: Context, dropout: float, seed: int) -> PooledHead:
    return make_head(len(context.labels), encoder, context, dropout, seed)
