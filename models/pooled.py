"""What the tasks share that read one text or two and answer from one vector of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from models.encoder import Dropout, Encoder
from models.places import tokens_of
from models.task import OF_ENCODER, Context, Tensors
from pipeline.config import Pooling

PAIR: Pooling = "pair"
TOGETHER: tuple[Pooling, ...] = ("pooler", "cls", "mean")
"""Poolings of one pass over all that a request has: the two texts of a pair see each other."""


def request(columns: Mapping[str, tf.Tensor], context: Context) -> Tensors:
    """[CLS] text [SEP], or [CLS] text [SEP] second text [SEP] with the segments told apart."""
    first, *second = (tokens_of(columns[key], context, number) for number, key in enumerate(context.text_keys))
    return context.text.pack(first, *second) if second else context.text.pack_one(first)


def poolings(texts: int) -> tuple[Pooling, ...]:
    """Those that an example of so many texts can be read by."""
    return (*TOGETHER, PAIR) if texts == 2 else TOGETHER


def width(pooling: Pooling, hidden: int) -> int:
    """How many numbers a pooled vector has."""
    return 4 * hidden if pooling == PAIR else hidden


def read_by_encoder(pooling: Pooling, batch: Mapping[str, Any]) -> dict[str, Any]:
    """What the encoder is given of a batch: its tokens, and for `pair` [CLS] a [SEP] beside [CLS] b [SEP], each as if it
    stood alone. Requests stay as they are: the second [CLS] is added here."""
    tokens, mask = batch["token_ids"], batch["mask"]
    if pooling != PAIR:
        return {"token_ids": tokens, "segment_ids": batch.get("segment_ids"), "mask": mask}
    length, first = _lengths(batch)
    places = _places(batch)
    of_second, mask = places >= first, places <= length
    return {
        "token_ids": tf.gather(tokens, _source(places, first), batch_dims=1),  # ids, or vectors in their place
        "mask": mask,
        "blocks": tf.where(mask, 1 + tf.cast(of_second, tf.int32), 0),
        "positions": tf.where(of_second, places - first, places),
    }


def _lengths(batch: Mapping[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
    """[batch, 1] tokens of the whole, and of the first text, with its [CLS] and [SEP]."""
    is_token = tf.cast(batch["mask"], tf.int32)
    firsts = is_token * (1 - tf.cast(batch["segment_ids"], tf.int32))
    return tuple(tf.reduce_sum(found, axis=1, keepdims=True) for found in (is_token, firsts))


def _places(batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """[batch, seq + 1]"""
    rows, seq = tf.unstack(tf.shape(batch["mask"]))
    return tf.tile(tf.range(seq + 1)[tf.newaxis], [rows, 1])


def _source(places: tf.Tensor, first: tf.Tensor) -> tf.Tensor:
    """Where in the batch the token of each place stands; that of the second [CLS] is the first one."""
    return tf.where(places < first, places, tf.where(places == first, 0, places - 1))


def _encoded(encoder: Encoder, given: Mapping[str, Any], **options: bool) -> tf.Tensor:
    """The mask goes by its place: Keras takes one that is named for its own kind of mask, and warns of its end."""
    named = {name: given[name] for name in ("blocks", "positions") if name in given}
    return encoder(given["token_ids"], given.get("segment_ids"), given["mask"], **named, **options)


def pool(pooling: Pooling, encoder: Encoder, states: tf.Tensor, given: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """[batch, seq, hidden] -> [batch, width(pooling, hidden)]; for `pair`, u, v, |u - v| and u * v.

    Args:
      given: what the encoder has read.
    """
    if pooling == "pooler":
        return encoder.pool(states)
    if pooling == "cls":
        return states[:, 0]
    if pooling == "mean":
        return _mean(states, given["mask"])
    u, v = (tf.math.l2_normalize(_mean(states, given["blocks"] == number), axis=-1) for number in (1, 2))
    return tf.concat([u, v, tf.abs(u - v), u * v], axis=-1)


def _mean(states: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    tokens = tf.cast(mask, states.dtype)[..., tf.newaxis]
    return tf.reduce_sum(states * tokens, axis=1) / tf.maximum(tf.reduce_sum(tokens, axis=1), 1.0)


def vectors(encoder: Encoder, batch: Mapping[str, tf.Tensor], of: Sequence[Pooling]) -> dict[Pooling, tf.Tensor]:
    """The vectors of a batch by several poolings, in as few passes as they take."""
    found: dict[Pooling, tf.Tensor] = {}
    for together in (True, False):
        chosen = [pooling for pooling in of if (pooling != PAIR) is together]
        if chosen:
            given = read_by_encoder(chosen[0], batch)
            states = _encoded(encoder, given)
            found |= {pooling: pool(pooling, encoder, states, given) for pooling in chosen}
    return found


@keras.saving.register_keras_serializable("bertline")
class PooledHead(keras.Model):
    """The pooled vector, dropout, one dense layer."""

    def __init__(self, encoder: Encoder, outputs: int, dropout: float, seed: int, pooling: Pooling = "pooler") -> None:
        super().__init__(name="pooled_head")
        self.encoder, self.pooling = encoder, pooling
        self.dropout = Dropout(dropout, seed, name="head_dropout")
        self.head = keras.layers.Dense(
            outputs, name="head", kernel_initializer=keras.initializers.TruncatedNormal(stddev=0.02, seed=seed)
        )
        if pooling != "pooler":
            encoder.pooler.trainable = False  # nothing is read from it
        self.head.build((None, width(pooling, encoder.size.hidden)))
        self.built = True

    def call(self, batch: Mapping[str, tf.Tensor], training: bool = False) -> tf.Tensor:  # [batch, outputs]
        given = read_by_encoder(self.pooling, batch)
        states = _encoded(self.encoder, given, training=training, first_only=self.pooling in ("pooler", "cls"))
        return self.head(self.dropout(pool(self.pooling, self.encoder, states, given), training=training))


def _attend(model: PooledHead, batch: Mapping[str, Any]) -> dict[str, list[Any]]:
    """By the tokens of the batch: what looks at the second text's [CLS] is shown to look at the one that is there."""
    found = list(model.encoder.inspect(**read_by_encoder(model.pooling, batch)).attentions)
    if model.pooling == PAIR:
        _, first = _lengths(batch)
        places = _places(batch)
        taken = tf.one_hot(_source(places, first), tf.shape(batch["mask"])[1])  # [batch, seq + 1, seq]
        own = tf.where(places == first, 0.0, 1.0)[..., tf.newaxis] * taken
        found = [tf.einsum("bji,bhjk,bkl->bhil", own, layer, taken) for layer in found]
    return {"encoder": found}


INSIDE = OF_ENCODER._replace(attend=_attend)
