"""The right one of several endings to a text: any number of them, and not the same in every row.

A row is as many texts as it has endings: each is read as a pair, the context and the ending. They stand one after the other
in one row of tokens and do not see each other, so that a row has no padding inside, batches stay bucketed by length, and
rows with few endings cost little beside rows with many.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from bertline.models.encoders.bert.attention import MASKED
from bertline.models.encoders.bert.backbone import Dropout, Encoder
from bertline.models.tasks.base.task import Context, Tensors
from bertline.models.tasks.graphs import classification
from bertline.models.tokenization.packing import side_by_side
from bertline.models.tokenization.places import tokens_of
from bertline.pipeline.config import CHOICES


def features(columns: Mapping[str, Any], context: Context) -> Tensors:
    """The tokens of a row's pairs, and which one is right: -1 where no ending is, so that the row has no weight."""
    label, choices = columns["label"], columns[CHOICES].with_row_splits_dtype(tf.int64)
    return {**_pairs(columns, choices, context), "label_id": tf.where(label < choices.row_lengths(), label, -1)}


def request(columns: Mapping[str, tf.Tensor], context: Context) -> Tensors:
    """Endings are [batch, most]: a row with fewer of them than another has empty texts after its last."""
    choices = tf.RaggedTensor.from_tensor(columns[CHOICES], padding="")
    return {**_pairs(columns, choices, context), CHOICES: choices}


def _pairs(columns: Mapping[str, tf.Tensor], choices: tf.RaggedTensor, context: Context) -> Tensors:
    """Each ending after its row's text. Of two texts, the second is the begin of every ending, as in SWAG."""
    rows, keys = choices.value_rowids(), [key for key in context.text_keys if key != CHOICES]
    of_rows = [tokens_of(columns[key], context, number) for number, key in enumerate(keys)]
    first, *begin = ({name: tf.gather(value, rows) for name, value in tokens.items()} for tokens in of_rows)
    numbers = tf.cast(tf.ragged.range(choices.row_lengths()).flat_values, tf.int32) + len(keys)
    parts = [*begin, tokens_of(choices.flat_values, context, numbers)]
    endings = {name: tf.concat([part[name] for part in parts], axis=1) for name in first}
    return side_by_side(context.text.pack(first, endings), choices.row_lengths())


@keras.saving.register_keras_serializable("bertline")
class Chooser(keras.Model):
    """One score an ending, from the pooled [CLS] vector of its pair."""

    def __init__(self, encoder: Encoder, dropout: float, seed: int) -> None:
        super().__init__(name="chooser")
        self.encoder = encoder
        self.dropout = Dropout(dropout, seed, name="head_dropout")
        # Without a bias: it would be added to every score of a row, and change no answer.
        self.head = keras.layers.Dense(
            1, use_bias=False, name="head", kernel_initializer=keras.initializers.TruncatedNormal(stddev=0.02, seed=seed)
        )
        self.head.build((None, encoder.size.hidden))
        self.built = True

    def call(self, batch: Mapping[str, tf.Tensor], training: bool = False) -> tf.Tensor:  # [batch, endings]
        sequence = self.encoder(
            batch["token_ids"],
            batch["segment_ids"],
            batch["mask"],
            training=training,
            blocks=batch["blocks"],
            positions=batch["positions"],
        )
        firsts = tf.gather(sequence, batch["firsts"], batch_dims=1)  # [batch, endings, hidden]
        pooled = self.encoder.pool(tf.reshape(firsts, [-1, 1, self.encoder.size.hidden]))
        scores = tf.reshape(self.head(self.dropout(pooled, training=training)), tf.shape(batch["firsts"]))
        return tf.where(batch["firsts_mask"], tf.cast(scores, tf.float32), MASKED)


def spread_loss(scores: tf.Tensor, batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
    some = batch["firsts_mask"]
    count = tf.maximum(tf.math.count_nonzero(some, axis=-1, dtype=tf.float32), 1.0)
    mean = tf.reduce_sum(tf.where(some, scores, 0.0), axis=-1) / count
    return tf.reduce_logsumexp(scores, axis=-1) - mean


def answer(scores: tf.Tensor, batch: Mapping[str, tf.Tensor], context: Context) -> Tensors:
    """Which ending it is, its text, and the share of each; -1 and no text where there is none to choose from."""
    nothing = [[0, 0], [0, 1]]  # one more column, to be found where no row has an ending
    index = tf.argmax(tf.pad(scores, nothing, constant_values=MASKED), axis=-1)
    some = tf.reduce_any(batch["firsts_mask"], axis=-1)
    return {
        "index": tf.where(some, index, -1),
        "choice": tf.where(some, tf.gather(tf.pad(batch[CHOICES], nothing, constant_values=""), index, batch_dims=1), ""),
        "probabilities": tf.where(batch["firsts_mask"], tf.nn.softmax(scores), 0.0),
    }


def measure(scores: tf.Tensor, batch: Mapping[str, tf.Tensor], context: Context) -> Tensors:
    """What each row gives, because the shares themselves are more in one row than in another."""
    return {
        "right": classification.correct(scores, batch),
        "row_loss": classification.loss(scores, batch),
        "index": tf.argmax(scores, axis=-1),
    }


def targets(features: Mapping[str, tf.Tensor]) -> Tensors:
    found = classification.targets(features)
    return {**found, "target": tf.zeros_like(found["label_weight"])}


def build(encoder: Any, context: Context, dropout: float, seed: int) -> Chooser:
    return Chooser(encoder, dropout, seed)
