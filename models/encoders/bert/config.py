"""The numbers that shape an encoder, checked at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import keras

from bertline.pipeline.core.errors import BertlineError

ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "gelu": partial(keras.activations.gelu, approximate=False),
    "gelu_tanh": partial(keras.activations.gelu, approximate=True),
    "gelu_new": partial(keras.activations.gelu, approximate=True),
    "relu": keras.activations.relu,
}

_LEAST = {
    "vocab_size": 1,
    "layers": 1,
    "hidden": 1,
    "heads": 1,
    "intermediate": 1,
    "max_positions": 1,
    "segments": 0,
    "position_offset": 0,
}


@dataclass(frozen=True, kw_only=True)
class EncoderSize:
    """The numbers that shape an encoder; what has a default is BERT's, and the last four make its relatives."""

    vocab_size: int
    layers: int
    hidden: int
    heads: int
    intermediate: int
    """Width of the inner layer of the feed-forward part."""
    max_positions: int = 512
    """Tokens an input has at most: the rows of the position table, without those of `position_offset`."""
    segments: int = 2
    """Rows of the segment table; 0 for none. Below 2 there is nothing to choose, and segment ids are not looked at."""
    dropout: float = 0.1
    attention_dropout: float = 0.1
    """Dropout of the attention probabilities."""
    activation: str = "gelu"
    """`gelu` is the exact (erf) form, `gelu_tanh` and `gelu_new` its tanh approximation; or `relu`."""
    layer_norm_eps: float = 1e-12
    embedding: int | None = None
    """Width of the three tables, from which a dense layer leads to `hidden` (ALBERT); none: they have that width."""
    shared_layers: bool = False
    """Whether one layer's weights serve all `layers` (ALBERT)."""
    position_offset: int = 0
    """Row of the position table that the first token has. RoBERTa's is 2: positions count tokens only, and padding has
    the row before the first."""
    pruned: tuple[tuple[int, ...], ...] = ()
    """Heads that were removed, a tuple for each layer, numbered as before any were; empty if all are there. A layer may
    have lost all of them."""

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if not _is_number(value, (int,)) or value < least:
                raise BertlineError(f"encoder: {name} must be a whole number from {least} on. Received: {name}={value!r}")
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
        if self.embedding is not None and (not _is_number(self.embedding, (int,)) or self.embedding < 1):
            raise BertlineError(
                f"encoder: embedding must be a whole number from 1 on, or none. Received: embedding={self.embedding!r}"
            )
        if not isinstance(self.shared_layers, bool):
            raise BertlineError(
                f"encoder: shared_layers must be true or false. Received: shared_layers={self.shared_layers!r}"
            )
        # One spelling for each meaning, whatever order or kind of sequence (JSON has only lists) it came in.
        object.__setattr__(self, "pruned", self._checked_pruned())

    @property
    def embedding_width(self) -> int:
        """Width of the token, segment and position tables."""
        return self.hidden if self.embedding is None else self.embedding

    @property
    def head_size(self) -> int:
        return self.hidden // self.heads

    @property
    def kept_heads(self) -> tuple[tuple[int, ...], ...]:
        """The heads that each layer has, in the numbering of an encoder that lost none."""
        pruned = self.pruned or ((),) * self.layers
        return tuple(tuple(head for head in range(self.heads) if head not in removed) for removed in pruned)

    def _checked_pruned(self) -> tuple[tuple[int, ...], ...]:
        try:
            pruned = tuple(tuple(sorted(set(removed))) for removed in self.pruned)
        except TypeError:
            raise BertlineError(f"encoder: pruned must be lists of heads. Received: pruned={self.pruned!r}") from None
        if not any(pruned):
            return ()
        if len(pruned) != self.layers:
            raise BertlineError(
                f"encoder: pruned must have one list for each of the {self.layers} layers. Received: pruned={pruned}"
            )
        for layer, removed in enumerate(pruned):
            unknown = [head for head in removed if not _is_number(head, (int,)) or not 0 <= head < self.heads]
            if unknown:
                raise BertlineError(
                    f"encoder: the heads of layer {layer} are 0 to {self.heads - 1}; {unknown[0]!r} cannot be pruned."
                )
        if self.shared_layers and len(set(pruned)) > 1:
            raise BertlineError(
                "encoder: its layers share their weights, so that all of them must lose the same heads."
                f" Received: pruned={pruned}"
            )
        return pruned


def _is_number(value: Any, kinds: tuple[type, ...] = (int, float)) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)
