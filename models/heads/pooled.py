"""What the tasks share that read one text or two and answer from one vector of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from bertline.models.data.batching import OF_TOKENS
from bertline.models.encoders.bert.backbone import Dropout, Encoder
from bertline.models.tasks.base.task import Context, Tensors
from bertline.models.tokenization import packing
from bertline.models.tokenization.packing import Sliding
from bertline.models.tokenization.places import tokens_of
from bertline.pipeline.config import Pooling

PAIR: Pooling = "pair"
TOGETHER: tuple[Pooling, ...] = ("pooler", "cls", "mean")
"""Poolings of one pass over all that a request has: the two texts of a pair see each other."""
WINDOWS_AT_ONCE = 64
"""That are read together where nothing is learned: as many as the evaluator has examples at once, by memory."""
TOKENS_AT_ONCE = 8192
"""That these have at most: fewer windows are read together where each is long."""


def request(columns: Mapping[str, tf.Tensor], context: Context) -> Tensors:
    """[CLS] text [SEP], or [CLS] text [SEP] second text [SEP] with the segments told apart."""
    first, *second = (tokens_of(columns[key], context, number) for number, key in enumerate(context.text_keys))
    return context.text.pack(first, *second) if second else context.text.pack_one(first)


def as_chosen(features: Tensors, context: Context) -> Tensors:
    """Features of an encoder that left open how long texts are read, as the context's encoder makes them of the texts."""
    tokens = {name: tf.cast(value, tf.int32) for name, value in features.items() if name in OF_TOKENS}
    parts = context.text.unpacked(tokens)
    return {**features, **(context.text.pack(*parts) if len(parts) == 2 else context.text.pack_one(*parts))}


def sliding_of(context: Context) -> Sliding | None:
    """The windows that a long text is read in, if it is."""
    return context.text.sliding if context.text and context.text.long == "windows" else None


def poolings(texts: int) -> tuple[Pooling, ...]:
    """Those that an example of so many texts can be read by."""
    return (*TOGETHER, PAIR) if texts == 2 else TOGETHER


def width(pooling: Pooling, hidden: int) -> int:
    """How many numbers a pooled vector has."""
    return 4 * hidden if pooling == PAIR else hidden


def read_by_encoder(pooling: Pooling, batch: Mapping[str, Any], sliding: Sliding | None = None) -> dict[str, Any]:
    """What the encoder is given of a batch: its tokens, and for `pair` [CLS] a [SEP] beside [CLS] b [SEP], each as if it
    stood alone. Requests stay as they are: the second [CLS] is added here, and long texts become windows."""
    tokens, mask = batch["token_ids"], batch["mask"]
    if sliding:
        return _in_windows(tokens, mask, sliding)
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


def _in_windows(tokens: Any, mask: tf.Tensor, sliding: Sliding) -> dict[str, Any]:
    """[windows, at most size + 2] of each, and `rows`, which text of the batch each window is of; none is of padding."""
    lengths = tf.math.count_nonzero(mask, axis=1, dtype=tf.int32)
    last = tf.maximum(lengths - 1, 0)  # where [SEP] stands
    inner = {"token_ids": tf.ragged.range(tf.ones_like(last), tf.maximum(last, 1))}
    cut = packing.windows(inner, tf.fill(tf.shape(lengths), sliding.size), sliding.step)
    closed = packing.pack((cut.tokens,), 0, -1)["token_ids"]
    places = closed.to_tensor()
    places = tf.where(places < 0, tf.gather(last, cut.rows)[:, tf.newaxis], places)
    rows = tf.broadcast_to(cut.rows[:, tf.newaxis], tf.shape(places))
    return {
        "token_ids": tf.gather_nd(tokens, tf.stack([rows, places], axis=-1)),  # ids, or vectors in their place
        "mask": tf.sequence_mask(closed.row_lengths(), tf.shape(places)[1]),
        "rows": cut.rows,
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


def _encoded(encoder: Encoder, given: Mapping[str, Any], **options: Any) -> tf.Tensor:
    """The mask goes by its place: Keras takes one that is named for its own kind of mask, and warns of its end."""
    named = {name: given[name] for name in ("blocks", "positions") if name in given}
    if "rows" in given:
        named["head_mask"] = encoder.head_mask_of(given["rows"])
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


def _pooled(encoder: Encoder, given: Mapping[str, tf.Tensor], of: Sequence[Pooling], **options: bool) -> list[tf.Tensor]:
    """What the encoder is given, read and pooled: a vector for each text and pooling.

    The vectors of a text's windows are put together by the maximum of each number: what one of them shows is not thinned
    out by all the others, and Sun et al. (arXiv 1905.05583) found it better than the mean. No window is much shorter than
    others: the last one has at least as many tokens as overlap.
    """

    def read(given: Mapping[str, tf.Tensor]) -> list[tf.Tensor]:
        states = _encoded(encoder, given, **options)
        return [pool(pooling, encoder, states, given) for pooling in of]

    if "rows" not in given:
        return read(given)

    def read_windows(given: Mapping[str, tf.Tensor]) -> list[tf.Tensor]:
        return [tf.cast(found, tf.float32) for found in read(given)]

    at_once = tf.clip_by_value(TOKENS_AT_ONCE // tf.maximum(tf.shape(given["mask"])[1], 1), 1, WINDOWS_AT_ONCE)

    def read_further(begin: tf.Tensor, found: list[tf.Tensor]) -> tuple[tf.Tensor, list[tf.Tensor]]:
        end = begin + at_once
        more = read_windows({name: value[begin:end] for name, value in given.items()})
        return end, [tf.concat(pair, axis=0) for pair in zip(found, more, strict=True)]

    if options.get(
        "training"
    ):  # where `training.gradient_accumulation_steps` says how many there are, and a loop would keep all it saves
        found = read_windows(given)
    else:
        count, widths = tf.size(given["rows"]), [width(pooling, encoder.size.hidden) for pooling in of]
        none = [tf.zeros([0, wide]) for wide in widths]
        shapes = tf.TensorShape([]), [tf.TensorShape([None, wide]) for wide in widths]
        _, found = tf.while_loop(
            lambda begin, _: begin < count, read_further, (tf.constant(0), none), shapes, parallel_iterations=1
        )
    return [tf.math.segment_max(vectors, given["rows"]) for vectors in found]


def vectors(
    encoder: Encoder, batch: Mapping[str, tf.Tensor], of: Sequence[Pooling], sliding: Sliding | None = None
) -> dict[Pooling, tf.Tensor]:
    """The vectors of a batch by several poolings, in as few passes as they take."""
    found: dict[Pooling, tf.Tensor] = {}
    for together in (True, False):
        chosen = [pooling for pooling in of if (pooling != PAIR) is together]
        if chosen:
            given = read_by_encoder(chosen[0], batch, sliding)
            found |= dict(zip(chosen, _pooled(encoder, given, chosen), strict=True))
    return found


@keras.saving.register_keras_serializable("bertline")
class PooledHead(keras.Model):
    """The pooled vector, dropout, one dense layer.

    Args:
      sliding: the windows that a long text is read in; by default a text is read at once.
    """

    def __init__(
        self,
        encoder: Encoder,
        outputs: int,
        dropout: float,
        seed: int,
        pooling: Pooling = "pooler",
        sliding: Sliding | None = None,
    ) -> None:
        super().__init__(name="pooled_head")
        self.encoder, self.pooling, self.sliding = encoder, pooling, sliding
        self.dropout = Dropout(dropout, seed, name="head_dropout")
        self.head = keras.layers.Dense(
            outputs, name="head", kernel_initializer=keras.initializers.TruncatedNormal(stddev=0.02, seed=seed)
        )
        if pooling != "pooler":
            encoder.pooler.trainable = False  # nothing is read from it
        self.head.build((None, width(pooling, encoder.size.hidden)))
        self.built = True

    def call(self, batch: Mapping[str, tf.Tensor], training: bool = False) -> tf.Tensor:  # [batch, outputs]
        given = read_by_encoder(self.pooling, batch, self.sliding)
        first_only = self.pooling in ("pooler", "cls")
        (found,) = _pooled(self.encoder, given, [self.pooling], training=training, first_only=first_only)
        return self.head(self.dropout(found, training=training))


def make_head(outputs: int, encoder: Encoder, context: Context, dropout: float, seed: int) -> PooledHead:
    """The model of a task with so many outputs, as its context says."""
    return PooledHead(encoder, outputs, dropout, seed, context.pooling, sliding_of(context))


def attend(model: PooledHead, batch: Mapping[str, Any]) -> dict[str, list[Any]]:
    """By the tokens of the batch: what looks at the second text's [CLS] is shown to look at the one that is there. Of a
    text in windows, by those of the first one."""
    given = read_by_encoder(model.pooling, batch, model.sliding)
    if model.sliding:
        rows = given.pop("rows")
        is_first = tf.concat([tf.ones_like(rows[:1], tf.bool), rows[1:] != rows[:-1]], axis=0)
        given = {name: tf.boolean_mask(value, is_first) for name, value in given.items()}
    found = list(model.encoder.inspect(**given).attentions)
    if model.pooling == PAIR:
        _, first = _lengths(batch)
        places = _places(batch)
        taken = tf.one_hot(_source(places, first), tf.shape(batch["mask"])[1])  # [batch, seq + 1, seq]
        own = tf.where(places == first, 0.0, 1.0)[..., tf.newaxis] * taken
        found = [tf.einsum("bji,bhjk,bkl->bhil", own, layer, taken) for layer in found]
    return {"encoder": found}
