"""A number for one text or a pair of texts: how alike two sentences are, how many stars a review gives."""

from __future__ import annotations

import math
from collections.abc import Mapping

import tensorflow as tf

from models import probing
from models.answers import NUMBER
from models.pooled import INSIDE, LONG, make_head, request
from models.task import Context, Metric, Output, Task, Tensors
from pipeline.config import TEXT_KEYS


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


TASK = Task(
    name="regression",
    text_keys=TEXT_KEYS,
    label="number",
    features=features,
    request=request,
    long=LONG,
    build=lambda encoder, context, dropout, seed: make_head(1, encoder, context, dropout, seed),
    inside=INSIDE,
    linearly=probing.NUMBER,
    loss=loss,
    correct=correct,
    answer=answer,
    readable=NUMBER.readable,
    measure=answer,
    targets=targets,
    outputs={"": Output("value", "label_value", "label_weight")},
    metrics={
        "pearson": Metric("Pearson"),
        "spearman": Metric("Spearman"),
        "mean_squared_error": Metric("MeanSquaredError", better="lower"),
    },
)
