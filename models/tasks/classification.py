"""One class out of any number, for one text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from models.encoder import Dropout, Encoder
from models.task import Context, Metric, Output, Task, Tensors


def features(columns: Mapping[str, tf.Tensor], context: Context) -> Tensors:
    return {**request(columns, context), "label_id": label_ids(columns["label"], context.labels)}


def request(columns: Mapping[str, tf.Tensor], context: Context) -> Tensors:
    return {"token_ids": context.text(columns["text"])}


def label_ids(names: tf.Tensor, labels: Sequence[str]) -> tf.Tensor:
    """Position of each name among the labels; -1 for a missing or unknown one, which then has no weight anywhere."""
    # By comparison, not by a lookup table: a table is a resource, which an exported graph would have to track.
    same = names[:, tf.newaxis] == tf.constant(list(labels))  # [batch, labels]
    return tf.where(tf.reduce_any(same, axis=1), tf.argmax(tf.cast(same, tf.int8), axis=1), -1)


@keras.saving.register_keras_serializable("bertline")
class Classifier(keras.Model):
    """The pooled [CLS] vector, dropout, one dense layer."""

    def __init__(self, encoder: Encoder, classes: int, dropout: float, seed: int) -> None:
        super().__init__(name="classifier")
        self.encoder = encoder
        self.dropout = Dropout(dropout, seed, name="head_dropout")
        self.head = keras.layers.Dense(
            classes, name="head", kernel_initializer=keras.initializers.TruncatedNormal(stddev=0.02, seed=seed)
        )
        self.head.build((None, encoder.size.hidden))
        self.built = True

    def call(self, batch: Mapping[str, tf.Tensor], training: bool = False) -> tf.Tensor:  # [batch, classes]
        inputs = batch["token_ids"], batch.get("segment_ids"), batch["mask"]
        first = self.encoder(*inputs, training=training, first_only=True)
        return self.head(self.dropout(self.encoder.pool(first), training=training))


def loss(logits: tf.Tensor, batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
    # Rows of weight 0 (filling, or without a usable label) may carry label -1: any class will do for them.
    return tf.nn.sparse_softmax_cross_entropy_with_logits(tf.maximum(batch["label_id"], 0), logits)


def correct(logits: tf.Tensor, batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
    return tf.cast(tf.argmax(logits, axis=-1) == batch["label_id"], tf.float32)


def answer(logits: tf.Tensor, batch: Mapping[str, tf.Tensor], context: Context) -> Tensors:
    names = tf.constant(list(context.labels))
    probabilities = tf.nn.softmax(logits)
    return {
        "label": tf.gather(names, tf.argmax(logits, axis=-1)),
        "probabilities": probabilities,
        # Every output has the batch as its first dimension: TensorFlow Serving splits batches along it.
        "classes": tf.tile(names[tf.newaxis], [tf.shape(logits)[0], 1]),
    }


def readable(given: Mapping[str, Any]) -> str:
    ranked = sorted(zip(given["probabilities"], given["classes"], strict=True), reverse=True)
    return "  ".join(f"{name.decode()} {share:.3f}" for share, name in ranked[:5])


def targets(features: Mapping[str, tf.Tensor]) -> Tensors:
    """A row without a usable label has no weight."""
    label_id = features["label_id"]
    return {"label_id": tf.maximum(label_id, 0), "label_weight": tf.cast(label_id >= 0, tf.float32)}


TASK = Task(
    name="classification",
    text_keys=("text",),
    features=features,
    request=request,
    build=lambda encoder, context, dropout, seed: Classifier(encoder, len(context.labels), dropout, seed),
    loss=loss,
    correct=correct,
    answer=answer,
    readable=readable,
    measure=answer,
    targets=targets,
    outputs={"": Output("probabilities", "label_id", "label_weight")},
    metrics={
        "accuracy": Metric("SparseCategoricalAccuracy"),
        "cross_entropy": Metric("SparseCategoricalCrossentropy", better="lower"),
    },
    confusion="",
)
