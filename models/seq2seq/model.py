"""The original Transformer: an encoder that reads the source, and a decoder that writes the target, token by token.

As in the encoder of BERT, a batch travels as [batch * seq, hidden], and its attention is the same. KerasHub's
TransformerEncoder and TransformerDecoder are what the tests compare it with; they are not its parts, because they show no
attention weights, keep a cache of each beam's source, and drop the same units on every replica of a strategy.

Over 300 lines in one module: encoder and decoder are made of the same layer, which stands beside them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from bertline.models.encoders.bert.attention import MASKED, Attention, Seen, attention_bias
from bertline.models.encoders.bert.config import ACTIVATIONS
from bertline.models.encoders.bert.layers import Parts
from bertline.models.seq2seq.config import Seq2SeqSize


class Source(NamedTuple):
    """What the decoder looks at: the same for every token that it writes, and so worked out once."""

    seen: tuple[Seen, ...]
    """Of each decoder layer."""
    bias: Any
    """[batch, 1, 1, seq]"""
    attentions: tuple[Any, ...]
    """Where each token of it looked in the source itself, by encoder layer: [batch, heads, seq, seq], a row sums to 1."""


class Written(NamedTuple):
    """What a decoder found."""

    states: Any
    """[batch * length, hidden]"""
    past: tuple[Seen, ...]
    """What later tokens will see of these and those before, by layer."""
    looks: tuple[Any, ...]
    """Where each token looked in the source, by layer: [batch, heads, length, seq], where a row sums to 1."""
    attentions: tuple[Any, ...]
    """Where it looked among the tokens before it and itself: [rows, heads, length, tokens before and these]."""


@keras.saving.register_keras_serializable("bertline")
class Seq2Seq(keras.Model):
    """Reads token ids, and says of each place of the target which token comes next.

    Args:
      size: the numbers that shape it.
      begin_id: the token that every target begins with; it is given to the decoder, and never written.
      seed: seeds weights and dropout.

    Example:
      >>> model = Seq2Seq(Seq2SeqSize(source_pieces=9, target_pieces=9, layers=1, decoder_layers=1, hidden=8, heads=2,
      ...     intermediate=16), begin_id=2)
      >>> batch = {"token_ids": [[5, 6, 3]], "mask": [[True, True, True]], "target_ids": [[7, 8, 8, 3]]}
      >>> model(batch).shape
      TensorShape([1, 4, 9])
    """

    def __init__(self, size: Seq2SeqSize, *, begin_id: int, seed: int = 0, name: str = "seq2seq", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        self.size, self.begin_id, self.seed = size, begin_id, seed
        parts = Parts(size, seed, self.dtype_policy, scaled=True)
        with keras.name_scope(name):
            self.source_embeddings = Embeddings(parts.inside("source_embeddings"), size.source_pieces)
            self.target_embeddings = self.source_embeddings
            if not size.share_embeddings:
                self.target_embeddings = Embeddings(parts.inside("target_embeddings"), size.target_pieces)
            # One attribute a layer: tf.train.Checkpoint silently skips what Keras holds in a list.
            for index in range(size.layers):
                setattr(self, f"encoder_layer_{index}", Layer(parts.inside(f"encoder_layer_{index}")))
            for index in range(size.decoder_layers):
                made = Layer(parts.inside(f"decoder_layer_{index}"), reads_source=True)
                setattr(self, f"decoder_layer_{index}", made)
            self.encoder_norm = parts.norm("encoder_norm", size.hidden) if size.norm == "pre" else None
            self.decoder_norm = parts.norm("decoder_norm", size.hidden) if size.norm == "pre" else None
            self.output_matrix = None
            if not size.tie_output:
                self.output_matrix = parts.dense("output", size.hidden, size.target_pieces)
        self.built = True

    @property
    def encoder_layers(self) -> list[Layer]:
        return [getattr(self, f"encoder_layer_{index}") for index in range(self.size.layers)]

    @property
    def decoder_layers(self) -> list[Layer]:
        return [getattr(self, f"decoder_layer_{index}") for index in range(self.size.decoder_layers)]

    def call(self, batch: Mapping[str, Any], training: bool = False) -> Any:
        """[batch, target, tokens]: the logits of every place of `target_ids`, each seen after the right ones before it."""
        logits, _ = self.forced(batch, training=training)
        return logits

    def forced(self, batch: Mapping[str, Any], training: bool = False) -> tuple[Any, tuple[Any, ...]]:
        """The logits of a call, and where each place looked in the source, see `Written.looks`."""
        _, written = self._read_and_written(batch, training)
        length = ops.shape(ops.convert_to_tensor(batch["target_ids"]))[1]
        return ops.reshape(self.logits(written.states), (-1, length, self.size.target_pieces)), written.looks

    def inspect(self, batch: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
        """The attention weights of a call, by layer: in the source, among what is written, and from there to the source."""
        source, written = self._read_and_written(batch, training=False)
        return {"encoder": source.attentions, "decoder": written.attentions, "source": written.looks}

    def _read_and_written(self, batch: Mapping[str, Any], training: bool) -> tuple[Source, Written]:
        source = self.read(batch["token_ids"], batch["mask"], training=training)
        target = ops.convert_to_tensor(batch["target_ids"])
        before = ops.pad(target[:, :-1], [[0, 0], [1, 0]], constant_values=self.begin_id)
        return source, self.write(before, source, bias=causal_bias(ops.shape(target)[1]), training=training)

    def read(self, token_ids: Any, mask: Any, training: bool = False) -> Source:
        """Encodes the source, [batch, seq]."""
        bias = attention_bias(mask)
        seq = ops.shape(token_ids)[1]
        states = self.source_embeddings(token_ids, training=training)
        attentions = []
        for layer in self.encoder_layers:
            states, _, weights, _ = layer(states, bias, seq=seq, training=training)
            attentions.append(weights)
        if self.encoder_norm is not None:
            states = self.encoder_norm(states)
        return Source(tuple(layer.show_source(states, seq) for layer in self.decoder_layers), bias, tuple(attentions))

    def write(
        self,
        token_ids: Any,
        source: Source,
        *,
        bias: Any = None,
        past: Sequence[Seen] | None = None,
        begin: Any = 0,
        beams: int = 1,
        training: bool = False,
    ) -> Written:
        """Decodes tokens that stand next to each other in the target.

        Args:
          token_ids: [rows, length]; of several beams a source, those of one source stand together.
          bias: what is added to the scores of what the tokens see of each other, [1, 1, length, length].
          past: what is seen of the tokens before, by layer; none where these are the first.
          begin: the place of the first of them.
          beams: how many rows there are for each source. They look at it together: it is not copied for each.
        """
        length = ops.shape(token_ids)[1]
        states = self.target_embeddings(token_ids, begin=begin, training=training)
        pasts, looks, attentions = [], [], []
        pasts_before: Sequence[Seen | None] = past or (None,) * self.size.decoder_layers
        for layer, seen, before in zip(self.decoder_layers, source.seen, pasts_before, strict=True):
            states, kept, weights, look = layer(
                states,
                bias,
                seq=length,
                past=before,
                source=seen,
                source_bias=source.bias,
                asking=beams * length,
                training=training,
            )
            pasts.append(kept)
            looks.append(look)
            attentions.append(weights)
        if self.decoder_norm is not None:
            states = self.decoder_norm(states)
        return Written(states, tuple(pasts), tuple(looks), tuple(attentions))

    def logits(self, states: Any) -> Any:
        """[rows, hidden] -> [rows, tokens]."""
        if self.output_matrix is not None:
            return self.output_matrix(states)
        table = ops.cast(self.target_embeddings.token.embeddings, self.compute_dtype)
        return ops.matmul(states, ops.transpose(table))

    def get_config(self) -> dict[str, Any]:
        return {"name": self.name, "size": asdict(self.size), "begin_id": self.begin_id, "seed": self.seed}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Seq2Seq:
        return cls(**{**config, "size": Seq2SeqSize(**config["size"])})


class Embeddings(keras.layers.Layer):
    """Vectors of tokens, scaled by √hidden, and of their places: [batch * seq, hidden]."""

    def __init__(self, parts: Parts, tokens: int) -> None:
        super().__init__(name=parts.name, dtype=parts.dtype)
        size = parts.size
        self.scale = size.hidden**0.5
        self.max_positions = size.max_positions
        self.place = None
        with keras.name_scope(self.name):
            self.token = parts.embedding("token", tokens)
            if size.positions == "learned":
                self.place = parts.embedding("place", size.max_positions)
            self.dropout = parts.dropout("dropout", size.dropout)
        self.waves = sine_positions(size.max_positions, size.hidden)
        self.built = True

    def call(self, token_ids: Any, begin: Any = 0, training: bool = False) -> Any:
        vectors = self.token(token_ids) * self.scale
        seq, width = ops.shape(vectors)[1], vectors.shape[2]
        if self.place is None:
            places = ops.slice(ops.cast(self.waves, self.compute_dtype), (begin, 0), (seq, width))
        else:
            # As large as the waves and the tokens' vectors are, for a model to tell places apart from the start.
            places = self.place(ops.arange(seq, dtype="int32") + begin) * self.scale
        return ops.reshape(self.dropout(vectors + places, training=training), (-1, width))


class Layer(keras.layers.Layer):
    """Self-attention, attention to the source if there is one, and feed-forward, each added to its input.

    Args:
      reads_source: whether it is a decoder's.
    """

    def __init__(self, parts: Parts, reads_source: bool = False) -> None:
        # No autocast: half precision would turn the float32 bias of masked positions into infinity.
        super().__init__(name=parts.name, dtype=parts.dtype, autocast=False)
        size = parts.size
        self.normalises_first = size.norm == "pre"
        every = range(size.heads)
        self.source: Attention | None = None
        with keras.name_scope(self.name):
            self.attention = Attention(parts.inside("attention"), every)
            self.attention_norm = parts.norm("attention_norm", size.hidden)
            self.attention_dropout = parts.dropout("attention_dropout", size.dropout)
            if reads_source:
                self.source = Attention(parts.inside("source"), every)
                self.source_norm = parts.norm("source_norm", size.hidden)
                self.source_dropout = parts.dropout("source_dropout", size.dropout)
            self.expand = parts.dense("expand", size.hidden, size.intermediate, activation=ACTIVATIONS[size.activation])
            self.contract = parts.dense("contract", size.intermediate, size.hidden)
            self.contract_norm = parts.norm("contract_norm", size.hidden)
            self.contract_dropout = parts.dropout("contract_dropout", size.dropout)
        self.built = True

    def call(
        self,
        states: Any,
        bias: Any,
        seq: Any,
        past: Seen | None = None,
        source: Seen | None = None,
        source_bias: Any = None,
        asking: Any = None,
        training: bool = False,
    ) -> tuple[Any, Seen, Any, Any]:
        """The new states, what is seen of these and the past ones, where they looked among those, and where in the source.

        Args:
          states: [rows * seq, hidden].
          bias: added to the scores of what they see of each other.
          past: what is seen of the positions before.
          source, source_bias: what is seen of the sources, and what is added to the scores of that.
          asking: how many states look at each source.
        """
        asked = self._before(states, self.attention_norm)
        seen = self.attention.seen(asked, seq)
        if past is not None:
            seen = Seen(ops.concatenate([past.keys, seen.keys], 3), ops.concatenate([past.values, seen.values], 2))
        found, weights = self.attention.look(asked, seen, bias, seq, training=training)
        states = self._added(states, self.attention_dropout(found, training=training), self.attention_norm)
        look = None
        if self.source is not None and source is not None:
            asked = self._before(states, self.source_norm)
            found, look = self.source.look(asked, source, source_bias, asking, training=training)
            states = self._added(states, self.source_dropout(found, training=training), self.source_norm)
        found = self.contract(self.expand(self._before(states, self.contract_norm)))
        states = self._added(states, self.contract_dropout(found, training=training), self.contract_norm)
        return states, seen, weights, look

    def show_source(self, states: Any, seq: Any) -> Seen:
        """What a decoder's layer sees of a source, [batch * seq, hidden]."""
        if self.source is None:
            raise TypeError("an encoder layer has no source to attend to")
        return self.source.seen(states, seq)

    def _before(self, states: Any, norm: Any) -> Any:
        return norm(states) if self.normalises_first else states

    def _added(self, states: Any, found: Any, norm: Any) -> Any:
        return states + found if self.normalises_first else norm(states + found)


def causal_bias(length: Any) -> Any:
    """[1, 1, length, length]: a place sees itself and those before it."""
    places = ops.arange(length)
    return ops.where(places[:, None] >= places[None, :], 0.0, MASKED)[None, None]


def sine_positions(most: int, width: int) -> np.ndarray:
    """[most, width]: sines at even and cosines at odd places of the vectors, of wavelengths from 2π to 10,000 · 2π."""
    rates = 10_000.0 ** (-2 * (np.arange(width) // 2) / width)
    angles = np.arange(most)[:, np.newaxis] * rates
    return np.where(np.arange(width) % 2 == 0, np.sin(angles), np.cos(angles)).astype(np.float32)
