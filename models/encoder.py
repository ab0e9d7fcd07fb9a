"""The BERT encoder: token, segment and position embeddings, then post-LN transformer layers.

Inside the stack a batch travels as [batch * seq, hidden]: every projection is one plain matrix product, and only the
attention itself looks at [batch, heads, seq, head_size].
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from pipeline.errors import BertlineError

ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "gelu": partial(keras.activations.gelu, approximate=False),
    "gelu_tanh": partial(keras.activations.gelu, approximate=True),
    "gelu_new": partial(keras.activations.gelu, approximate=True),
    "relu": keras.activations.relu,
}

# Next to any real score exp() of this is exactly 0, and a row without a single token still has finite states.
MASKED = -1e9


@dataclass(frozen=True, kw_only=True)
class EncoderSize:
    """The numbers that shape an encoder."""

    vocab_size: int
    layers: int
    hidden: int
    heads: int
    intermediate: int
    """Width of the inner layer of the feed-forward part."""
    max_positions: int = 512
    """Tokens an input has at most: the rows of the position table."""
    segments: int = 2
    dropout: float = 0.1
    attention_dropout: float = 0.1
    """Dropout of the attention probabilities."""
    activation: str = "gelu"
    """`gelu` is the exact (erf) form, `gelu_tanh` and `gelu_new` its tanh approximation; or `relu`."""
    layer_norm_eps: float = 1e-12

    def __post_init__(self) -> None:
        for name in ("vocab_size", "layers", "hidden", "heads", "intermediate", "max_positions", "segments"):
            value = getattr(self, name)
            if not _is_number(value, (int,)) or value < 1:
                raise BertlineError(f"encoder: {name} must be a whole number from 1 on. Received: {name}={value!r}")
        for name in ("dropout", "attention_dropout"):
            value = getattr(self, name)
            if not _is_number(value) or not 0 <= value < 1:
                raise BertlineError(f"encoder: {name} must be at least 0 and below 1. Received: {name}={value!r}")
        if not _is_number(self.layer_norm_eps) or not 0 < self.layer_norm_eps < 1:
            raise BertlineError(
                f"encoder: layer_norm_eps must lie between 0 and 1. Received: layer_norm_eps={self.layer_norm_eps!r}"
            )
        if self.hidden % self.heads:
            raise BertlineError(
                f"encoder: hidden must be a multiple of heads. Received: hidden={self.hidden}, heads={self.heads}"
            )
        if self.activation not in ACTIVATIONS:
            raise BertlineError(
                f"encoder: activation must be one of {', '.join(ACTIVATIONS)}. Received: activation={self.activation!r}"
            )


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
        parts = _Parts(size, seed, self.dtype_policy)
        with keras.name_scope(name):
            self.embeddings = Embeddings(parts.inside("embeddings"))
            for layer_name in self._layer_names():
                setattr(self, layer_name, EncoderLayer(parts.inside(layer_name)))
            self.pooler = parts.dense("pooler", size.hidden, size.hidden, activation="tanh")
        self.built = True

    @property
    def layers(self) -> list[EncoderLayer]:
        return [getattr(self, layer_name) for layer_name in self._layer_names()]

    def _layer_names(self) -> list[str]:
        # One attribute a layer: tf.train.Checkpoint silently skips what Keras holds in a list.
        return [f"layer_{index}" for index in range(self.size.layers)]

    def call(
        self,
        token_ids: Any,
        segment_ids: Any = None,
        mask: Any = None,
        training: bool = False,
        first_only: bool = False,
    ) -> Any:
        """Encodes a batch of token ids.

        Args:
          token_ids: [batch, seq] int.
          segment_ids: [batch, seq] int; without it every token is of segment 0.
          mask: [batch, seq], true or 1 where a token stands; without it every position is a token.
          training: whether units are dropped.
          first_only: for heads that look at [CLS] alone: the last layer computes that position and no other, which
            saves about an eighth of the work of six layers.

        Returns:
          [batch, seq, hidden]; [batch, 1, hidden] if `first_only`.
        """
        seq = ops.shape(token_ids)[1]
        bias = None if mask is None else attention_bias(mask)
        embedded = self.embeddings(token_ids, segment_ids, training=training)
        states = ops.reshape(embedded, (-1, self.size.hidden))
        *inner, last = self.layers
        for layer in inner:
            states = layer(states, bias, seq=seq, training=training)
        states = last(states, bias, seq=seq, training=training, first_only=first_only)
        return ops.reshape(states, (-1, 1 if first_only else seq, self.size.hidden))

    def pool(self, sequence: Any) -> Any:
        """The [CLS] state of a sequence output, through the tanh pooler: [batch, hidden]."""
        return self.pooler(sequence[:, 0])

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "size": asdict(self.size), "seed": self.seed}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Encoder:
        return cls(**{**config, "size": EncoderSize(**config["size"])})


class Embeddings(keras.layers.Layer):
    """Token, segment and position vectors, summed and normalised: [batch, seq, hidden]."""

    def __init__(self, parts: _Parts) -> None:
        super().__init__(name=parts.name, dtype=parts.dtype)
        size = parts.size
        self.max_positions = size.max_positions
        with keras.name_scope(self.name):
            self.token = parts.embedding("token", size.vocab_size)
            self.segment = parts.embedding("segment", size.segments)
            self.position = parts.embedding("position", size.max_positions)
            self.norm = parts.norm("norm")
            self.dropout = parts.dropout("dropout", size.dropout)
        self.built = True

    def call(self, token_ids: Any, segment_ids: Any = None, training: bool = False) -> Any:
        seq = ops.shape(token_ids)[1]
        if isinstance(seq, int) and seq > self.max_positions:
            raise BertlineError(f"encoder: {seq} tokens do not fit its {self.max_positions} positions; cut the text.")
        positions = self.position(ops.arange(seq, dtype="int32"))  # [seq, hidden]
        segment_ids = ops.zeros((1,), dtype="int32") if segment_ids is None else segment_ids  # one row serves all
        summed = self.token(token_ids) + (positions + self.segment(segment_ids))
        return self.dropout(self.norm(summed), training=training)


class EncoderLayer(keras.layers.Layer):
    """Self-attention and feed-forward, each added to its input and then normalised: [batch * seq, hidden]."""

    def __init__(self, parts: _Parts) -> None:
        # No autocast: half precision would turn the float32 bias of masked positions into infinity.
        super().__init__(name=parts.name, dtype=parts.dtype, autocast=False)
        size, activation = parts.size, ACTIVATIONS[parts.size.activation]
        with keras.name_scope(self.name):
            self.attention = SelfAttention(parts.inside("attention"))
            self.attention_dropout = parts.dropout("attention_dropout", size.dropout)
            self.attention_norm = parts.norm("attention_norm")
            self.expand = parts.dense("expand", size.hidden, size.intermediate, activation=activation)
            self.contract = parts.dense("contract", size.intermediate, size.hidden)
            self.contract_dropout = parts.dropout("contract_dropout", size.dropout)
            self.contract_norm = parts.norm("contract_norm")
        self.built = True

    def call(self, states: Any, bias: Any, seq: Any, training: bool = False, first_only: bool = False) -> Any:
        attended = self.attention(states, bias, seq=seq, training=training, first_only=first_only)
        if first_only:
            states = first_of_each(states, seq)
        states = self.attention_norm(states + self.attention_dropout(attended, training=training))
        widened = self.contract(self.expand(states))
        return self.contract_norm(states + self.contract_dropout(widened, training=training))


class SelfAttention(keras.layers.Layer):
    """softmax(Q Kᵀ / √head_size + bias) V for each head, then the output projection."""

    def __init__(self, parts: _Parts) -> None:
        super().__init__(name=parts.name, dtype=parts.dtype, autocast=False)
        hidden = parts.size.hidden
        self.heads = parts.size.heads
        self.head_size = hidden // self.heads
        with keras.name_scope(self.name):
            self.query = parts.dense("query", hidden, hidden)
            self.key = parts.dense("key", hidden, hidden)
            self.value = parts.dense("value", hidden, hidden)
            self.output_projection = parts.dense("output", hidden, hidden)
            self.dropout = parts.dropout("dropout", parts.size.attention_dropout)
        self.built = True

    def call(self, states: Any, bias: Any, seq: Any, training: bool = False, first_only: bool = False) -> Any:
        def by_head(projected: Any, length: Any, axes: tuple[int, ...]) -> Any:
            return ops.transpose(ops.reshape(projected, (-1, length, self.heads, self.head_size)), axes)

        asking, length = (first_of_each(states, seq), 1) if first_only else (states, seq)
        query = by_head(self.query(asking) * self.head_size**-0.5, length, (0, 2, 1, 3))  # [batch, heads, seq, head_size]
        key = by_head(self.key(states), seq, (0, 2, 3, 1))  # [batch, heads, head_size, seq]: transposed only once
        value = by_head(self.value(states), seq, (0, 2, 1, 3))
        scores = ops.cast(ops.matmul(query, key), "float32")  # [batch, heads, seq or 1, seq]
        if bias is not None:
            scores = scores + bias
        weights = self.dropout(ops.cast(ops.softmax(scores), self.compute_dtype), training=training)
        mixed = ops.transpose(ops.matmul(weights, value), (0, 2, 1, 3))
        return self.output_projection(ops.reshape(mixed, (-1, self.heads * self.head_size)))


class Dropout(keras.layers.Layer):
    """Keras' dropout, but with other noise on each replica of a strategy (Keras gives all of them the same)."""

    def __init__(self, rate: float, seed: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.rate = rate
        with keras.name_scope(self.name):
            self.seeds = _ReplicaSeeds(seed, name="seeds")
        self.state = self.seeds.state  # seen by tf.train.Checkpoint only as an attribute of the layer
        self.built = True

    def call(self, inputs: Any, training: bool = False) -> Any:
        return keras.random.dropout(inputs, self.rate, seed=self.seeds) if training and self.rate else inputs


class _ReplicaSeeds(keras.random.SeedGenerator):
    """A counter that is equal on all replicas, so that it can be saved and restored; each adds its own number to it."""

    def next(self, ordered: bool = True) -> Any:
        context = tf.distribute.get_replica_context()  # None while a strategy is open but no replica runs
        replica = 0 if context is None else tf.cast(context.replica_id_in_sync_group, self.state.dtype)
        return super().next(ordered) + replica


def first_of_each(states: Any, seq: Any) -> Any:
    """[batch * seq, hidden] -> [batch, hidden]: the state of the first position."""
    return ops.reshape(states, (-1, seq, states.shape[-1]))[:, 0]


def attention_bias(mask: Any) -> Any:
    """[batch, seq] mask -> [batch, 1, 1, seq] float32 that is added to the scores of every head and query."""
    return ops.where(ops.cast(mask, "bool"), 0.0, MASKED)[:, None, None, :]


@dataclass(frozen=True)
class _Parts:
    """Makes the built layers of one part of the encoder; each has a seed that comes from its place, not its turn."""

    size: EncoderSize
    seed: int
    dtype: Any
    name: str = ""

    def inside(self, name: str) -> _Parts:
        return _Parts(self.size, self._seed_of(name), self.dtype, name)

    def dense(self, name: str, inputs: int, outputs: int, activation: Any = None) -> keras.layers.Dense:
        layer = keras.layers.Dense(
            outputs, activation=activation, kernel_initializer=self._normal(name), dtype=self.dtype, name=name
        )
        layer.build((None, inputs))
        return layer

    def embedding(self, name: str, rows: int) -> keras.layers.Embedding:
        layer = keras.layers.Embedding(
            rows, self.size.hidden, embeddings_initializer=self._normal(name), dtype=self.dtype, name=name
        )
        layer.build()
        return layer

    def norm(self, name: str) -> keras.layers.LayerNormalization:
        layer = keras.layers.LayerNormalization(epsilon=self.size.layer_norm_eps, dtype=self.dtype, name=name)
        layer.build((None, self.size.hidden))
        return layer

    def dropout(self, name: str, rate: float) -> Dropout:
        return Dropout(rate, self._seed_of(name), dtype=self.dtype, name=name)

    def _normal(self, name: str) -> keras.initializers.Initializer:
        return keras.initializers.TruncatedNormal(stddev=0.02, seed=self._seed_of(name))

    def _seed_of(self, name: str) -> int:
        return zlib.crc32(f"{self.seed}/{name}".encode()) >> 1  # 31 bits: Keras folds larger seeds


def _is_number(value: Any, kinds: tuple[type, ...] = (int, float)) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)
