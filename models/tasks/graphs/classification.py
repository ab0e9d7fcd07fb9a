"""One class out of any number, for one text or a pair of texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from bertline.models.decisions.graph import answered_class, calibrated
from bertline.models.heads.pooled import PooledHead, make_head, request
from bertline.models.tasks.base.task import Context, Tensors


def features(columns: Mapping[str, tf.Tensor], context: Context) -> Tensors:
    return {**request(columns, context), "label_id": label_ids(columns["label"], context.labels)}


def label_ids(names: tf.Tensor, labels: Sequence[str]) -> tf.Tensor:
    """Position of each name among the labels; -1 for a missing or unknown one, which then has no weight anywhere."""
    # By comparison, not by a lookup table: a table is a resource, which an exported graph would have to track.
    same = names[:, tf.newaxis] == tf.constant(list(labels))  # [batch, labels]
    return tf.where(tf.reduce_any(same, axis=1), tf.argmax(tf.cast(same, tf.int8), axis=1), -1)


def loss(logits: tf.Tensor, batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
    # Rows of weight 0 (filling, or without a usable label) may carry label -1: any class will do for them.
    return tf.nn.sparse_softmax_cross_entropy_with_logits(tf.maximum(batch["label_id"], 0), logits)


def spread_loss(logits: tf.Tensor, batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
    return tf.reduce_logsumexp(logits, axis=-1) - tf.reduce_mean(logits, axis=-1)


def apply_class_weights(batch: Tensors, weights: tf.Tensor) -> Tensors:
    """Each row by its class."""
    return {**batch, "weight": batch["weight"] * tf.gather(weights, tf.maximum(batch["label_id"], 0))}


def correct(logits: tf.Tensor, batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
    return tf.cast(tf.argmax(logits, axis=-1) == batch["label_id"], tf.float32)


def answer(logits: tf.Tensor, batch: Mapping[str, tf.Tensor], context: Context) -> Tensors:
    """`label` is a class, or `none of these` where the model abstains."""
    names = tf.constant(list(context.labels))
    probabilities = tf.nn.softmax(calibrated(logits, context))
    return {
        "label": answered_class(logits, probabilities, context),
        "probabilities": probabilities,
        # Every output has the batch as its first dimension: TensorFlow Serving splits batches along it.
        "classes": tf.tile(names[tf.newaxis], [tf.shape(logits)[0], 1]),
    }


def targets(features: Mapping[str, tf.Tensor]) -> Tensors:
    """A row without a usable label has no weight."""
    label_id = features["label_id"]
    return {"label_id": tf.maximum(label_id, 0), "label_weight": tf.cast(label_id >= 0, tf.float32)}


def build(encoder: Any, context: Context, dropout: float, seed: int) -> PooledHead:
    return make_head(len(context.labels), encoder, context, dropout, seed)
