"""The BERT encoder: token, segment and position embeddings, then post-LN transformer layers.

Inside the stack a batch travels as [batch * seq, hidden]: every projection is one plain matrix product, and only the
attention itself looks at [batch, heads, seq, head_size].
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, NamedTuple

import keras
from keras import ops

from bertline.models.encoders.bert.attention import Attention, attention_bias, first_of_each, tokens_in_blocks
from bertline.models.encoders.bert.config import ACTIVATIONS, EncoderSize
from bertline.models.encoders.bert.layers import Dropout, Parts
from bertline.pipeline.core.errors import BertlineError

__all__ = ["ACTIVATIONS", "Dropout", "Encoder", "EncoderLayer", "EncoderSize", "Inspection"]  # what others build on


class Inspection(NamedTuple):
    """Everything an encoder computed on its way."""

    sequence: Any
    """[batch, seq, hidden]: what the encoder gives."""
    hidden_states: tuple[Any, ...]
    """What the first layer took, then what each layer gave: layers + 1 of [batch, seq, hidden]."""
    attentions: tuple[Any, ...]
    """The attention weights of each layer, float32 and before dropout: [batch, heads, seq, seq], where a row sums to 1.
    Pruned heads are left out; masked ones are there, since the mask falls on what they contribute."""


@keras.saving.register_keras_serializable("bertline")
class Encoder(keras.layers.Layer):
    """BERT without a head; every weight exists once the constructor returns.

    Args:
      size: the numbers that shape it.
      seed: seeds weights and dropout: two encoders of one seed are equal and drop the same units.

    Example:
      >>> encoder = Encoder(EncoderSize(vocab_size=30, layers=1, hidden=8, heads=2, intermediate=16))
      >>> sequence = encoder(ops.array([[2, 7, 3]]))
      >>> sequence.shape, encoder.pool(sequence).shape
      (TensorShape([1, 3, 8]), TensorShape([1, 8]))
    """

    def __init__(self, size: EncoderSize, *, seed: int = 0, name: str = "encoder", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        self.size = size
        self.seed = seed
        self._head_mask: Any = None
        parts = Parts(size, seed, self.dtype_policy)
        with keras.name_scope(name):
            self.embeddings = Embeddings(parts.inside("embeddings"))
            # Not strict: layers that share their weights keep the same heads, so that the first entry is all of them.
            for layer_name, heads in zip(self._layer_names(), size.kept_heads, strict=False):
                setattr(self, layer_name, EncoderLayer(parts.inside(layer_name), heads))
            self.pooler = parts.dense("pooler", size.hidden, size.hidden, activation="tanh")
        self.built = True

    @property
    def layers(self) -> list[EncoderLayer]:
        """The layers in the order of their use; shared ones are one layer, again and again."""
        distinct = self.distinct_layers
        return distinct * self.size.layers if self.size.shared_layers else distinct

    @property
    def distinct_layers(self) -> list[EncoderLayer]:
        """Every layer that has weights of its own, once."""
        return [getattr(self, layer_name) for layer_name in self._layer_names()]

    def _layer_names(self) -> list[str]:
        # One attribute a layer: tf.train.Checkpoint silently skips what Keras holds in a list.
        return [f"layer_{index}" for index in range(1 if self.size.shared_layers else self.size.layers)]

    def call(
        self,
        token_ids: Any,
        segment_ids: Any = None,
        mask: Any = None,
        training: bool = False,
        first_only: bool = False,
        *,
        head_mask: Any = None,
        blocks: Any = None,
        positions: Any = None,
        everything: bool = False,
    ) -> Any:
        """Encodes a batch of token ids.

        Args:
          token_ids: [batch, seq] int.
          segment_ids: [batch, seq] int; without it every token is of segment 0.
          mask: [batch, seq], true or 1 where a token stands; without it every position is a token.
          training: whether units are dropped.
          first_only: for heads that look at [CLS] alone: the last layer computes that position and no other, which
            saves about an eighth of the work of six layers.
          head_mask: [layers, heads] float, or [batch, layers, heads] for each text by itself, counting pruned heads, by
            which the heads' contributions are multiplied: 0 silences one. Gradients with respect to it tell how much a
            head matters. By default that of `masking`, or none.
          blocks: [batch, seq] int, for several texts in one row: a position sees those of its own number, and number 0
            is padding. With a mask, both hold.
          positions: [batch, seq] int, each token's place in its text, counted from 0; without it, its place in the row.
          everything: whether an `Inspection` is given, see `inspect`.

        Returns:
          [batch, seq, hidden]; [batch, 1, hidden] if `first_only`; an `Inspection` if `everything`.
        """
        if first_only and everything:
            raise BertlineError("encoder: first_only and everything exclude each other; set one of them.")
        seq = ops.shape(token_ids)[1]
        head_masks = self._by_layer(self._head_mask if head_mask is None else head_mask)
        if blocks is not None:
            blocks = ops.convert_to_tensor(blocks)
            mask = tokens_in_blocks(mask, blocks)
        bias = None if mask is None else attention_bias(mask, blocks)
        embedded = self.embeddings(token_ids, segment_ids, is_token=mask, positions=positions, training=training)
        states = ops.reshape(embedded, (-1, self.size.hidden))
        hidden_states, attentions = [states], []
        for turn, (layer, heads) in enumerate(zip(self.layers, head_masks, strict=True), 1):
            narrow = first_only and turn == self.size.layers
            states, weights = layer(states, bias, seq=seq, training=training, first_only=narrow, head_mask=heads)
            if everything:
                hidden_states.append(states)
                attentions.append(weights)
        if everything:
            by_text = tuple(ops.reshape(states, (-1, seq, self.size.hidden)) for states in hidden_states)
            return Inspection(by_text[-1], by_text, tuple(attentions))
        return ops.reshape(states, (-1, 1 if first_only else seq, self.size.hidden))

    def inspect(
        self,
        token_ids: Any,
        segment_ids: Any = None,
        mask: Any = None,
        *,
        head_mask: Any = None,
        blocks: Any = None,
        positions: Any = None,
        training: bool = False,
    ) -> Inspection:
        """Encodes as a call does, and keeps the states and attention weights of every layer."""
        return self(
            token_ids,
            segment_ids,
            mask,
            training=training,
            head_mask=head_mask,
            blocks=blocks,
            positions=positions,
            everything=True,
        )

    @contextmanager
    def masking(self, head_mask: Any) -> Iterator[None]:
        """Calls inside have this head mask: those of a task's model, which owns an encoder and knows nothing of masks."""
        self._head_mask = head_mask
        try:
            yield
        finally:
            self._head_mask = None

    def head_mask_of(self, rows: Any) -> Any:
        """The head mask of `masking`, for windows of texts; `rows` says which text each is of."""
        mask = self._head_mask
        return mask if mask is None or len(mask.shape) == 2 else ops.take(mask, rows, axis=0)

    def pool(self, sequence: Any) -> Any:
        """The [CLS] state of a sequence output, through the tanh pooler: [batch, hidden]."""
        return self.pooler(sequence[:, 0])

    def get_config(self) -> dict[str, Any]:
        size = {**asdict(self.size), "pruned": [list(removed) for removed in self.size.pruned]}  # JSON has no tuples
        return {**super().get_config(), "size": size, "seed": self.seed}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Encoder:
        return cls(**{**config, "size": EncoderSize(**config["size"])})

    def _by_layer(self, head_mask: Any) -> list[Any]:
        """One row of a head mask for each layer, or as many times none."""
        size = self.size
        if head_mask is None:
            return [None] * size.layers
        head_mask = ops.convert_to_tensor(head_mask, self.compute_dtype)
        if len(head_mask.shape) not in (2, 3) or tuple(head_mask.shape[-2:]) != (size.layers, size.heads):
            raise BertlineError(
                f"encoder: a head mask has the shape [layers, heads], here [{size.layers}, {size.heads}], or one of these"
                f" for each text. Received: {list(head_mask.shape)}"
            )
        return [head_mask[..., index, :] for index in range(size.layers)]


class Embeddings(keras.layers.Layer):
    """Token, segment and position vectors, summed and normalised: [batch, seq, hidden]."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(name=parts.name, dtype=parts.dtype)
        size = parts.size
        self.segments, self.max_positions, self.position_offset = size.segments, size.max_positions, size.position_offset
        self.segment = self.projection = None
        with keras.name_scope(self.name):
            self.token = parts.embedding("token", size.vocab_size)
            if size.segments:
                self.segment = parts.embedding("segment", size.segments)
            self.position = parts.embedding("position", size.max_positions + size.position_offset)
            self.norm = parts.norm("norm", size.embedding_width)
            self.dropout = parts.dropout("dropout", size.dropout)
            if size.embedding is not None:
                self.projection = parts.dense("projection", size.embedding, size.hidden)
        self.built = True

    def call(
        self, token_ids: Any, segment_ids: Any = None, is_token: Any = None, positions: Any = None, training: bool = False
    ) -> Any:
        # Not `mask`: Keras takes what is named so for its own kind of mask, and warns that it goes no further.
        place = self.position(self._position_rows(token_ids, is_token, positions))  # [seq, width] or [batch, seq, width]
        if self.segment is not None:
            one_for_all = segment_ids is None or self.segments == 1
            place = place + self.segment(ops.zeros((1,), dtype="int32") if one_for_all else segment_ids)
        embedded = self.dropout(self.norm(self.token(token_ids) + place), training=training)
        return embedded if self.projection is None else self.projection(embedded)

    def _position_rows(self, token_ids: Any, mask: Any, positions: Any) -> Any:
        """Rows of the position table: [seq] where they are the same for every text, else [batch, seq]."""
        seq = ops.shape(token_ids)[1]
        if positions is None:
            if isinstance(seq, int) and seq > self.max_positions:
                raise BertlineError(f"encoder: {seq} tokens do not fit its {self.max_positions} positions; cut the text.")
            positions = ops.arange(seq, dtype="int32")
            if self.position_offset and mask is not None:
                positions = ops.cumsum(ops.cast(ops.cast(mask, "bool"), "int32"), axis=1) - 1
        if not self.position_offset:
            return positions
        rows = ops.convert_to_tensor(positions) + self.position_offset
        return rows if mask is None else ops.where(ops.cast(mask, "bool"), rows, self.position_offset - 1)


class EncoderLayer(keras.layers.Layer):
    """Self-attention and feed-forward, each added to its input and then normalised: [batch * seq, hidden].

    Args:
      heads: the heads its attention has, in the numbering of a layer that lost none.
    """

    def __init__(self, parts: Parts, heads: Sequence[int]) -> None:
        # No autocast: half precision would turn the float32 bias of masked positions into infinity.
        super().__init__(name=parts.name, dtype=parts.dtype, autocast=False)
        size, activation = parts.size, ACTIVATIONS[parts.size.activation]
        with keras.name_scope(self.name):
            self.attention = Attention(parts.inside("attention"), heads)
            self.attention_dropout = parts.dropout("attention_dropout", size.dropout)
            self.attention_norm = parts.norm("attention_norm", size.hidden)
            self.expand = parts.dense("expand", size.hidden, size.intermediate, activation=activation)
            self.contract = parts.dense("contract", size.intermediate, size.hidden)
            self.contract_dropout = parts.dropout("contract_dropout", size.dropout)
            self.contract_norm = parts.norm("contract_norm", size.hidden)
        self.built = True

    def call(
        self, states: Any, bias: Any, seq: Any, training: bool = False, first_only: bool = False, head_mask: Any = None
    ) -> tuple[Any, Any]:
        """The new states and the attention weights; arguments and shapes are those of `Attention`."""
        attended, weights = self.attention(
            states, bias, seq=seq, training=training, first_only=first_only, head_mask=head_mask
        )
        if first_only:
            states = first_of_each(states, seq)
        states = self.attention_norm(states + self.attention_dropout(attended, training=training))
        widened = self.contract(self.expand(states))
        return self.contract_norm(states + self.contract_dropout(widened, training=training)), weights
