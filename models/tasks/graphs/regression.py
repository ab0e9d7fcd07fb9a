"""A number for one text or a pair of texts: how alike two sentences are, how many stars a review gives."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from bertline.models.heads.pooled import PooledHead, make_head, request
from bertline.models.tasks.base.task import Context, Tensors


def features(columns: Mapping[str, tf.Tensor], context: Context) -> Tensors:
    return {**request(columns, context), "label_value": columns["label"]}


def loss(outputs: tf.Tensor, batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
    return tf.math.squared_difference(outputs[:, 0], batch["label_value"])


def correct(outputs: tf.Tensor, batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
    return tf.fill(tf.shape(outputs)[:1], math.nan)


def answer(outputs: tf.Tensor, batch: Mapping[str, tf.Tensor], context: Context) -> Tensors:
    return {"value": outputs[:, 0]}


def targets(features: Mapping[str, tf.Tensor]) -> Tensors:
    """A row without a label has no weight."""
    value = features["label_value"]
    missing = tf.math.is_nan(value)
    return {"label_value": tf.where(missing, 0.0, value), "label_weight": tf.cast(~missing, tf.float32)}


def build(encoder: Any, context: Context, dropout: float, seed: int) -> PooledHead:
    return make_head(1, encoder, context, dropout, seed)
