"""How alike two texts are, by vectors that each of them has for itself: learned from pairs with a score, as in STS-B."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from bertline.models.heads import bi_encoder
from bertline.models.tasks.base.task import Context, Tensors

SHARPNESS = 20.0
"""A cosine moves within so little that a difference of 0.05 has to count."""


def features(columns: Mapping[str, tf.Tensor], context: Context) -> Tensors:
    return {**bi_encoder.request(columns, context), "label_value": columns["label"]}


def loss(vectors: tf.Tensor, batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """Of any two pairs of the batch, that with the higher score should have the higher cosine (CoSENT).

    Only the order of the scores counts, whatever they are counted in. It is one loss for the batch, and every row has it.
    """
    cosines, scores, real = bi_encoder.cosine(vectors) * SHARPNESS, batch["label_value"], batch["weight"] > 0
    ordered = (scores[:, tf.newaxis] > scores) & real[:, tf.newaxis] & real  # [more alike, less alike]
    wrong = tf.where(ordered, cosines - cosines[:, tf.newaxis], -math.inf)
    one_for_all = tf.reduce_logsumexp(tf.concat([[0.0], tf.reshape(wrong, [-1])], axis=0))
    return tf.fill(tf.shape(scores), one_for_all)


def build(encoder: Any, context: Context, dropout: float, seed: int) -> bi_encoder.BiEncoder:
    return bi_encoder.BiEncoder(encoder)
