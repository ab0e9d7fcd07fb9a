"""What the tasks share that give each text a vector of its own, so that vectors can be stored and compared later.

A row's two texts stand side by side in one row of tokens and do not see each other. A vector is the mean over a text's
tokens, [CLS] and [SEP] included, scaled to length 1: the product of two is their cosine.
"""

from __future__ import annotations

from collections.abc import Mapping

import keras
import tensorflow as tf

from bertline.models.data.batching import padded
from bertline.models.encoders.bert.backbone import Encoder
from bertline.models.tasks.base.task import Context, Tensors
from bertline.models.tokenization.packing import side_by_side
from bertline.models.tokenization.places import tokens_of


def request(columns: Mapping[str, tf.Tensor], context: Context) -> Tensors:
    """[CLS] text [SEP] of each text of a row, one beside the other."""
    texts = tf.stack([columns[key] for key in context.text_keys if key in columns], axis=1)  # [rows, texts]
    rows, count = tf.shape(texts)[0], texts.shape[1]
    tokens = tokens_of(tf.reshape(texts, [-1]), context, tf.tile(tf.range(count), [rows]))
    return side_by_side(context.text.pack_one(tokens), tf.fill([rows], tf.constant(count, tf.int64)))


@keras.saving.register_keras_serializable("bertline")
class BiEncoder(keras.Model):
    """The vectors of a row's texts: [batch, texts, hidden]."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__(name="bi_encoder")
        self.encoder = encoder
        self.built = True

    def call(self, batch: Mapping[str, tf.Tensor], training: bool = False) -> tf.Tensor:
        blocks, mask = batch["blocks"], batch["mask"]
        sequence = self.encoder(
            batch["token_ids"], None, mask, training=training, blocks=blocks, positions=batch["positions"]
        )
        numbers = tf.range(1, tf.shape(batch["firsts"])[1] + 1)
        own = mask[:, tf.newaxis] & (blocks[:, tf.newaxis] == numbers[tf.newaxis, :, tf.newaxis])  # [batch, texts, seq]
        # The sum instead of the mean: the length is taken out in any case.
        sums = tf.matmul(tf.cast(own, tf.float32), tf.cast(sequence, tf.float32))
        return tf.math.l2_normalize(sums, axis=-1)


def cosine(vectors: tf.Tensor) -> tf.Tensor:  # [batch, 2, hidden] -> [batch]
    return tf.reduce_sum(vectors[:, 0] * vectors[:, 1], axis=-1)


def answer(vectors: tf.Tensor, batch: Mapping[str, tf.Tensor], context: Context) -> Tensors:
    return {"similarity": cosine(vectors)}


def embed(model: BiEncoder, columns: Mapping[str, tf.Tensor], context: Context) -> Tensors:
    return {"vector": model(padded(request(columns, context)), training=False)[:, 0]}
