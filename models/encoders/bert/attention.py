"""Attention, and what a position may look at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf
from keras import ops

from bertline.models.encoders.bert.layers import Parts

# Next to any real score exp() of this is exactly 0, and a row without a single token still has finite states.
MASKED = -1e9


class Seen(NamedTuple):
    """What positions show to those that look at them."""

    keys: Any
    """[batch, heads, head_size, seq]"""
    values: Any
    """[batch, heads, seq, head_size]"""


class Attention(keras.layers.Layer):
    """softmax(Q Kᵀ / √head_size + bias) V for each head, then the output projection.

    One that lost all its heads gives the bias of the output projection: what the heads would contribute is 0.

    Args:
      heads: the heads it has, in the numbering of a layer that lost none.
    """

    def __init__(self, parts: Parts, heads: Sequence[int]) -> None:
        super().__init__(name=parts.name, dtype=parts.dtype, autocast=False)
        hidden = parts.size.hidden
        self.kept_heads = tuple(heads)
        self.heads = len(heads)
        self.lost_heads = self.heads < parts.size.heads
        self.head_size = parts.size.head_size
        width = self.heads * self.head_size
        with keras.name_scope(self.name):
            self.query = parts.dense("query", hidden, width)
            self.key = parts.dense("key", hidden, width)
            self.value = parts.dense("value", hidden, width)
            self.output_projection = parts.dense("output", width, hidden)
            self.dropout = parts.dropout("dropout", parts.size.attention_dropout)
        self.built = True

    def call(
        self, states: Any, bias: Any, seq: Any, training: bool = False, first_only: bool = False, head_mask: Any = None
    ) -> tuple[Any, Any]:
        """Lets every position look at the others of its text.

        Args:
          states: [batch * seq, hidden].
          bias: float32, added to the scores: [batch, 1, 1 or seq, seq]; or none.
          seq: how many positions a text has.
          training: whether attention weights are dropped.
          first_only: whether only the first position of each text looks at the others.
          head_mask: [heads], or [batch, heads] for each text by itself, counting those that were pruned, by which the
            heads' contributions are multiplied.

        Returns:
          [batch * seq, hidden], or [batch, hidden] if `first_only`; and the float32 weights before dropout,
          [batch, heads, seq or 1, seq] without pruned heads. Not asked for, they cost nothing: they are on the way.
        """
        asking, length = (first_of_each(states, seq), 1) if first_only else (states, seq)
        if not self.heads:
            # Not by way of the projection: TensorFlow forgets the bias of a product whose inner width is 0, in graphs.
            bias = ops.cast(self.output_projection.bias, self.compute_dtype)
            return ops.zeros_like(asking) + bias, ops.zeros((ops.shape(asking)[0] // length, 0, length, seq))
        if bias is not None and first_only and bias.shape[2] != 1:
            bias = bias[:, :, :1]
        return self.look(asking, self.seen(states, seq), bias, length, training=training, head_mask=head_mask)

    def seen(self, states: Any, seq: Any) -> Seen:
        """What others see of some states, [batch * seq, hidden]."""
        # The keys are transposed already: once, however often they are looked at.
        return Seen(
            self._by_head(self.key(states), seq, (0, 2, 3, 1)), self._by_head(self.value(states), seq, (0, 2, 1, 3))
        )

    def look(
        self, asking: Any, seen: Seen, bias: Any, length: Any, training: bool = False, head_mask: Any = None
    ) -> tuple[Any, Any]:
        """Lets some states look at what is seen of others; arguments and results as those of a call.

        Args:
          asking: [batch * length, hidden].
        """
        query = self._by_head(self.query(asking) * self.head_size**-0.5, length, (0, 2, 1, 3))
        scores = ops.cast(ops.matmul(query, seen.keys), "float32")  # [batch, heads, length, seq]
        weights = ops.softmax(scores if bias is None else scores + bias)
        mixed = self._mixed(ops.cast(weights, self.compute_dtype), seen.values, training)
        if head_mask is not None:
            kept = ops.take(head_mask, self.kept_heads, axis=-1) if self.lost_heads else head_mask
            mixed = mixed * ops.cast(kept, self.compute_dtype)[..., None, None]
        mixed = ops.reshape(ops.transpose(mixed, (0, 2, 1, 3)), (-1, self.heads * self.head_size))
        return self.output_projection(mixed), weights

    def _mixed(self, weights: Any, values: Any, training: bool) -> Any:
        """The values by the dropped weights. These are [batch, heads, length, seq], the largest there is in a layer: for
        the gradients they are multiplied once more, from the weights and a byte that says of each whether it is kept."""
        if not training or not self.dropout.rate:
            return ops.matmul(weights, values)
        kept = self.dropout.draw(weights)  # here and once: the second time must drop the same

        def mixed(weights: Any, values: Any) -> Any:
            return ops.matmul(self.dropout.drop(weights, kept), values)

        return tf.recompute_grad(mixed)(weights, values)

    def _by_head(self, projected: Any, length: Any, axes: tuple[int, ...]) -> Any:
        return ops.transpose(ops.reshape(projected, (-1, length, self.heads, self.head_size)), axes)


def first_of_each(states: Any, seq: Any) -> Any:
    """[batch * seq, hidden] -> [batch, hidden]: the state of the first position."""
    return ops.reshape(states, (-1, seq, states.shape[-1]))[:, 0]


def attention_bias(mask: Any, blocks: Any = None) -> Any:
    """What is added to the scores of every head, so that a position sees tokens only, and those of its block.

    Args:
      mask: [batch, seq], true or 1 where a token stands.
      blocks: [batch, seq] int, the number of the block each position belongs to; without it all are of one block.

    Returns:
      float32 of [batch, 1, 1, seq], for every query the same; [batch, 1, seq, seq] with blocks.
    """
    seen = ops.cast(mask, "bool")[:, None, None, :]
    if blocks is not None:
        seen = ops.logical_and(seen, ops.equal(blocks[:, None, :, None], blocks[:, None, None, :]))
    return ops.where(seen, 0.0, MASKED)


def tokens_in_blocks(mask: Any, blocks: Any) -> Any:
    """[batch, seq] bool: a token by the mask (if there is one), and in a block: number 0 is padding."""
    inside = ops.not_equal(blocks, 0)
    return inside if mask is None else ops.logical_and(ops.cast(mask, "bool"), inside)
