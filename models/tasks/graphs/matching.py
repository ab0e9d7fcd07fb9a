"""Which text belongs to which, by vectors that each has for itself: learned from pairs that belong together.

Every other second text of a batch is taken for one that does not belong (in-batch negatives), unless it is the same text.
The evaluator looks for each first text's own among the second texts of all evaluation examples.
"""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from bertline.models.encoders.bert.attention import MASKED
from bertline.models.heads import bi_encoder
from bertline.models.tasks.base.task import Context, Tensors
from bertline.models.tasks.graphs import similarity
from bertline.pipeline.config import TEXT_KEYS

_BUCKETS = 2**31 - 1


def features(columns: Mapping[str, tf.Tensor], context: Context) -> Tensors:
    """The tokens of both texts, and a number that stands for the second one."""
    second = tf.strings.to_hash_bucket_fast(columns[TEXT_KEYS[1]], _BUCKETS)
    return {**bi_encoder.request(columns, context), "second": second}


def loss(vectors: tf.Tensor, batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """Cross-entropy of choosing each first text's own among the batch's second texts."""
    cosines = tf.matmul(vectors[:, 0], vectors[:, 1], transpose_b=True)  # [first, second]
    rows = tf.range(tf.shape(cosines)[0])
    same = batch["second"][:, tf.newaxis] == batch["second"]
    other = (batch["weight"] > 0) & ~same
    allowed = other | (rows[:, tf.newaxis] == rows)
    return tf.nn.sparse_softmax_cross_entropy_with_logits(rows, tf.where(allowed, cosines * similarity.SHARPNESS, MASKED))


def measure(vectors: tf.Tensor, batch: Mapping[str, tf.Tensor], context: Context) -> Tensors:
    return {"vectors": tf.reshape(vectors, [-1, 2 * vectors.shape[-1]])}


def targets(features: Mapping[str, tf.Tensor]) -> Tensors:
    second = features["second"]
    return {"second": second, "weight": tf.ones_like(second, tf.float32)}
