"""200 real texts, what PyTorch's BertModel made of them (a stored table), and what our encoder makes of them.

The table names a text by its row in the sample data, so that it holds numbers and no text of others. It has a line of JSON
for each text, or pair of texts; `python tests/helpers/pytorch_values.py` writes it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import tensorflow as tf

from bertline.models.encoders.bert.backbone import Encoder
from bertline.models.tokenization.packing import Tokens
from bertline.models.tokenization.tokenizer import TextEncoder
from bertline.pipeline.settings.loader import load

BOUND = 1e-4
TABLE = Path(__file__).parents[1] / "data" / "pytorch_values.jsonl"
MAX_TOKENS = 512
CONFIG = load("reviews", [f"text.seq_len={MAX_TOKENS}"])
# A RandomState, for its numbers are the same in every release of NumPy.
_SIGNS = np.random.RandomState(0).choice([-1.0, 1.0], (MAX_TOKENS, 384))


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What PyTorch computed for one text, or for a pair."""

    rows: Sequence[int]
    """Of the sample data; two for a pair."""
    ids: str
    """Digest of the token ids and segment ids."""
    states: Sequence[Sequence[int]]
    """[layer, token, unit] of single numbers of the hidden states."""
    pooled: Sequence[int]
    """Units of the pooled vector."""
    values: Sequence[float]
    """The numbers at these places, and then the projections of every layer and of the pooled vector."""


class Outputs(NamedTuple):
    """What an encoder gives for one text; NumPy arrays."""

    hidden_states: np.ndarray  # [layers + 1, tokens, hidden]
    attentions: list[np.ndarray]  # of every layer: [heads, tokens, tokens]
    pooled: np.ndarray  # [hidden]


def read_table() -> tuple[dict[str, str], list[Expected]]:
    """What the table was made of, and its lines."""
    about, *lines = map(json.loads, TABLE.read_text(encoding="utf-8").splitlines())
    return about, [Expected(**line) for line in lines]


def digest(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def ids_digest(token_ids: Sequence[int], segment_ids: Sequence[int]) -> str:
    return digest(np.array([token_ids, segment_ids], "<i4").tobytes())


def sources(samples: Sequence[Sequence[int]]) -> dict[str, str]:
    """Digests of the weights and of the samples' texts: other ones make other numbers, and no mistake of the encoder."""
    texts = read_texts(samples)
    weights = Path(CONFIG.model.checkpoint, "model.safetensors").read_bytes()
    return {"weights": digest(weights), "texts": digest(*(text.encode() for pair in texts for text in pair))}


def read_texts(samples: Sequence[Sequence[int]]) -> list[list[str]]:
    texts = pd.read_csv(CONFIG.data.path).text
    return [[texts[row] for row in rows] for rows in samples]


def look(places: Expected, hidden_states: np.ndarray, pooled: np.ndarray) -> np.ndarray:
    """The numbers that stand in an `Expected` as its values.

    A projection is the sum of all numbers of a layer under seeded signs, divided by the root of their count. It moves by
    about as much as every number does, where they move in ways of their own.
    """
    states = [hidden_states[tuple(place)] for place in places.states]
    signs = _SIGNS[: hidden_states.shape[1]]
    projections = (hidden_states * signs).sum((1, 2)) / signs.size**0.5
    return np.array([*states, *pooled[places.pooled], *projections, pooled @ _SIGNS[0] / len(pooled) ** 0.5])


def pack(samples: Sequence[Sequence[int]]) -> Tokens:
    """Token ids and segment ids by our tokenizer."""
    text_encoder = TextEncoder.from_config(CONFIG.text.vocab, CONFIG.text)
    texts = read_texts(samples)
    first, second = ({"token_ids": text_encoder.tokenize(tf.constant([pair[n] for pair in texts]))} for n in (0, -1))
    alone, paired = text_encoder.pack(first), text_encoder.pack(first, second)
    return {
        name: tf.ragged.stack([(alone if len(pair) == 1 else paired)[name][row] for row, pair in enumerate(texts)])
        for name in alone
    }


def encode(encoder: Encoder, tokens: Tokens, batch: int = 10) -> Iterator[Outputs]:
    """What our encoder gives for each text, computed in batches that are padded to their longest text."""
    lengths = tokens["token_ids"].row_lengths().numpy()
    for begin in range(0, len(lengths), batch):
        ids, segments = (tokens[name][begin : begin + batch].to_tensor() for name in ("token_ids", "segment_ids"))
        of_batch = lengths[begin : begin + batch]
        found = encoder.inspect(ids, segments, tf.sequence_mask(of_batch))
        pooled = encoder.pool(found.sequence).numpy()
        for row, length in enumerate(of_batch):
            states = np.stack([layer[row, :length] for layer in found.hidden_states])
            yield Outputs(states, [layer[row, :, :length, :length].numpy() for layer in found.attentions], pooled[row])
