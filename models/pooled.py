"""What the tasks share that read one text or two and answer from one vector of them."""

from __future__ import annotations

from collections.abc import Mapping

import keras
import tensorflow as tf

from models.encoder import Dropout, Encoder
from models.places import tokens_of
from models.task import Context, Tensors


def request(columns: Mapping[str, tf.Tensor], context: Context) -> Tensors:
    """[CLS] text [SEP], or [CLS] text [SEP] second text [SEP] with the segments told apart."""
    first, *second = (tokens_of(columns[key], context, number) for number, key in enumerate(context.text_keys))
    return context.text.pack(first, *second) if second else context.text.pack_one(first)


POOLINGS = ("pooler", "cls", "mean")


def pool(pooling: str, encoder: Encoder, states: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """[batch, seq, hidden] -> [batch, hidden]: one of POOLINGS."""
    if pooling == "mean":
        tokens = tf.cast(mask, states.dtype)[..., tf.newaxis]
        return tf.reduce_sum(states * tokens, axis=1) / tf.maximum(tf.reduce_sum(tokens, axis=1), 1.0)
    return encoder.pool(states) if pooling == "pooler" else states[:, 0]


@keras.saving.register_keras_serializable("bertline")
class PooledHead(keras.Model):
    """The pooled vector, dropout, one dense layer."""

    def __init__(self, encoder: Encoder, outputs: int, dropout: float, seed: int, pooling: str = "pooler") -> None:
        super().__init__(name="pooled_head")
        self.encoder, self.pooling = encoder, pooling
        self.dropout = Dropout(dropout, seed, name="head_dropout")
        self.head = keras.layers.Dense(
            outputs, name="head", kernel_initializer=keras.initializers.TruncatedNormal(stddev=0.02, seed=seed)
        )
        if pooling != "pooler":
            encoder.pooler.trainable = False  # nothing is read from it
        self.head.build((None, encoder.size.hidden))
        self.built = True

    def call(self, batch: Mapping[str, tf.Tensor], training: bool = False) -> tf.Tensor:  # [batch, outputs]
        inputs = batch["token_ids"], batch.get("segment_ids"), batch["mask"]
        states = self.encoder(*inputs, training=training, first_only=self.pooling != "mean")
        return self.head(self.dropout(pool(self.pooling, self.encoder, states, batch["mask"]), training=training))
