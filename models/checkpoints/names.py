"""Hugging Face's names of an encoder's weights: the one table that loading and saving share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import keras
import numpy as np

from bertline.models.encoders.bert.backbone import Encoder, EncoderLayer

_BERT_LAYER = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "attention_output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "expand": "intermediate.dense",
    "contract": "output.dense",
    "contract_norm": "output.LayerNorm",
}
_ALBERT_LAYER = {
    "query": "attention.query",
    "key": "attention.key",
    "value": "attention.value",
    "attention_output": "attention.dense",
    "attention_norm": "attention.LayerNorm",
    "expand": "ffn",
    "contract": "ffn_output",
    "contract_norm": "full_layer_layer_norm",
}


@dataclass(frozen=True)
class Weight:
    """A variable as a file holds it: PyTorch keeps the kernel of a linear layer as [outputs, inputs]."""

    variable: keras.Variable
    transposed: bool = False

    @property
    def file_shape(self) -> tuple[int, ...]:
        shape = tuple(self.variable.shape)
        return shape[::-1] if self.transposed else shape

    def assign(self, array: np.ndarray) -> None:
        self.variable.assign(array.T if self.transposed else array)

    def value(self) -> np.ndarray:
        array = keras.ops.convert_to_numpy(self.variable)
        return np.ascontiguousarray(array.T if self.transposed else array)  # writers copy memory, not strides


def weights_of(encoder: Encoder) -> dict[str, Weight]:
    """Every weight of an encoder under its Hugging Face name, without the prefix `bert.`; ALBERT's if layers are shared."""
    found: dict[str, Weight] = {}
    for name, layer in _named_layers(encoder):
        if isinstance(layer, keras.layers.Embedding):
            found[f"{name}.weight"] = Weight(layer.embeddings)
        elif isinstance(layer, keras.layers.LayerNormalization):
            found[f"{name}.weight"], found[f"{name}.bias"] = Weight(layer.gamma), Weight(layer.beta)
        else:
            found[f"{name}.weight"], found[f"{name}.bias"] = Weight(layer.kernel, True), Weight(layer.bias)
    return found


def _named_layers(encoder: Encoder) -> Iterator[tuple[str, keras.layers.Layer]]:
    embeddings = encoder.embeddings
    yield "embeddings.word_embeddings", embeddings.token
    yield "embeddings.position_embeddings", embeddings.position
    if embeddings.segment is not None:
        yield "embeddings.token_type_embeddings", embeddings.segment
    yield "embeddings.LayerNorm", embeddings.norm
    if embeddings.projection is not None:
        yield "encoder.embedding_hidden_mapping_in", embeddings.projection
    if encoder.size.shared_layers:
        for part, layer in _parts(encoder.layers[0]).items():
            yield f"encoder.albert_layer_groups.0.albert_layers.0.{_ALBERT_LAYER[part]}", layer
        yield "pooler", encoder.pooler
    else:
        for index, encoder_layer in enumerate(encoder.layers):
            for part, layer in _parts(encoder_layer).items():
                yield f"encoder.layer.{index}.{_BERT_LAYER[part]}", layer
        yield "pooler.dense", encoder.pooler


def _parts(layer: EncoderLayer) -> dict[str, keras.layers.Layer]:
    return {
        "query": layer.attention.query,
        "key": layer.attention.key,
        "value": layer.attention.value,
        "attention_output": layer.attention.output_projection,
        "attention_norm": layer.attention_norm,
        "expand": layer.expand,
        "contract": layer.contract,
        "contract_norm": layer.contract_norm,
    }
