"""BERT in plain NumPy and float64: one text at a time, a head at a time, no masks (padding is simply cut off)."""

from __future__ import annotations

import math
from typing import NamedTuple

import keras
import numpy as np

from bertline.models.encoders.bert.backbone import Encoder, EncoderSize

TINY = dict(vocab_size=30, layers=2, hidden=8, heads=2, intermediate=16, max_positions=12)
TOKENS = np.array([[2, 7, 9, 3, 0], [2, 11, 3, 0, 0], [2, 5, 6, 7, 3]], np.int32)
SEGMENTS = np.array([[0, 0, 1, 1, 0], [0, 0, 0, 0, 0], [0, 1, 1, 1, 1]], np.int32)
MASK = TOKENS > 0

ACTIVATIONS = {
    "gelu": np.vectorize(lambda x: x * 0.5 * (1 + math.erf(x / math.sqrt(2)))),
    "gelu_new": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "relu": lambda x: np.maximum(x, 0),
}


class Reference(NamedTuple):
    hidden_states: list[np.ndarray]  # layers + 1 of [seq, hidden]
    attentions: list[np.ndarray]  # layers of [heads, seq, seq]


def tiny(seed: int = 1, **changes: object) -> Encoder:
    return Encoder(EncoderSize(**{**TINY, **changes}), seed=seed)


def scramble(encoder: Encoder) -> Encoder:
    """Weights large enough, and biases far enough from 0, that a mistake anywhere shows in the output."""
    rng = np.random.default_rng(3)
    for weight in encoder.trainable_variables:
        weight.assign(weight + rng.normal(0, 0.5, weight.shape))
    return encoder


def table(layer: keras.layers.Embedding) -> np.ndarray:
    return layer.embeddings.numpy().astype(np.float64)


def dense(layer: keras.layers.Dense, x: np.ndarray) -> np.ndarray:
    return x @ layer.kernel.numpy().astype(np.float64) + layer.bias.numpy()


def normalise(layer: keras.layers.LayerNormalization, x: np.ndarray) -> np.ndarray:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12) * layer.gamma.numpy() + layer.beta.numpy()


def attend(
    attention: keras.layers.Layer, x: np.ndarray, factors: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """softmax(Q Kᵀ / √d) V times its factor for each head, projected; and the weights, [heads, seq, seq]."""
    query, key, value = (dense(getattr(attention, name), x) for name in ("query", "key", "value"))
    mixed, all_weights = [], []
    for head, columns in enumerate(np.split(np.arange(query.shape[1]), attention.heads)):
        scores = query[:, columns] @ key[:, columns].T / math.sqrt(len(columns))
        weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
        mixed.append(weights @ value[:, columns] * (1 if factors is None else factors[head]))
        all_weights.append(weights)
    return dense(attention.output_projection, np.concatenate(mixed, -1)), np.stack(all_weights)


def transform(
    layer: keras.layers.Layer, x: np.ndarray, activation: str, factors: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """One post-LN layer: its states, and its attention weights."""
    attended, weights = attend(layer.attention, x, factors)
    x = normalise(layer.attention_norm, x + attended)
    return normalise(
        layer.contract_norm, x + dense(layer.contract, ACTIVATIONS[activation](dense(layer.expand, x)))
    ), weights


def reference(encoder: Encoder, tokens: np.ndarray, segments: np.ndarray, head_mask: np.ndarray | None = None) -> Reference:
    """What BERT computes for one text without padding."""
    tables = encoder.embeddings
    summed = table(tables.token)[tokens] + table(tables.segment)[segments] + table(tables.position)[: len(tokens)]
    found = Reference([normalise(tables.norm, summed)], [])
    for index, layer in enumerate(encoder.layers):
        factors = None if head_mask is None else head_mask[index]
        states, weights = transform(layer, found.hidden_states[-1], encoder.size.activation, factors)
        found.hidden_states.append(states)
        found.attentions.append(weights)
    return found
