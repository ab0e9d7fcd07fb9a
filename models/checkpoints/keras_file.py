"""Encoders as Keras models, and KerasHub's presets of BERT."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import h5py
import numpy as np

from bertline.models.checkpoints.source import Source, StoredTensor, sort_out
from bertline.models.compat import layers_within
from bertline.models.encoders.bert.backbone import Encoder
from bertline.pipeline.core.checkpoint_formats import KERAS_WEIGHTS
from bertline.pipeline.core.errors import BertlineError

# Places in a preset's file, without the underscores that versions of Keras put before some -> Hugging Face's names. A place
# with two variables has the weight first, then the bias.
_PRESET_PLACES = {
    "reversible_embedding": "embeddings.word_embeddings",
    "position_embedding": "embeddings.position_embeddings",
    "embedding": "embeddings.token_type_embeddings",
    "layer_normalization": "embeddings.LayerNorm",
    "dense": "pooler.dense",
}
_PRESET_LAYER = {
    "self_attention_layer/query_dense": "attention.self.query",
    "self_attention_layer/key_dense": "attention.self.key",
    "self_attention_layer/value_dense": "attention.self.value",
    "self_attention_layer/output_dense": "attention.output.dense",
    "self_attention_layer_norm": "attention.output.LayerNorm",
    "feedforward_intermediate_dense": "intermediate.dense",
    "feedforward_output_dense": "output.dense",
    "feedforward_layer_norm": "output.LayerNorm",
}


def save_keras(encoder: Encoder, folder: str | Path) -> None:
    """Writes an encoder as `model.keras`: a Keras model of token_ids, segment_ids and mask that gives its sequence output.

    `keras.saving.load_model` reads it where `bertline.models.encoders.bert.backbone` has been imported.
    """
    import keras

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in ("token_ids", "segment_ids", "mask")}
    # The mask by its place: Keras takes one that is named for its own kind of mask, and warns of its end.
    keras.Model(inputs, encoder(*inputs.values()), name="bert").save(folder / KERAS_WEIGHTS)


@contextmanager
def open_keras(path: Path) -> Iterator[Source]:
    """The weights of the one encoder in a Keras model; a model that would run code of its own is refused."""
    import keras

    from bertline.models.checkpoints.names import weights_of

    try:
        model = keras.saving.load_model(path, compile=False, safe_mode=True)
    except Exception as error:  # Keras has no exception of its own for a file that it cannot load
        raise BertlineError(f"{path}: Keras cannot load it: {str(error).splitlines()[0]}") from None
    encoders = [layer for layer in [model, *layers_within(model)] if isinstance(layer, Encoder)]
    if len(encoders) != 1:
        raise BertlineError(f"{path}: {len(encoders)} encoders of Bertline in it; a checkpoint has one.")
    entries = [
        (name, StoredTensor(weight.variable.path, weight.file_shape, "F32", weight.value))
        for name, weight in weights_of(encoders[0]).items()
    ]
    yield sort_out(path, entries)


@contextmanager
def open_preset(path: Path) -> Iterator[Source]:
    """The weights of a KerasHub BertBackbone, from a preset's `model.weights.h5`."""
    try:
        file = h5py.File(path)
    except OSError as error:
        raise BertlineError(f"{path}: not a whole HDF5 file ({error}); fetch it again.") from None
    with file:
        datasets: list[tuple[str, h5py.Dataset]] = []
        file.visititems(lambda name, item: datasets.append((name, item)) if isinstance(item, h5py.Dataset) else None)
        yield sort_out(path, [_entry(name, dataset) for name, dataset in datasets if "seed_generator" not in name])


def _entry(place: str, dataset: h5py.Dataset) -> tuple[str, StoredTensor]:
    if dataset.external or dataset.is_virtual:  # any file of this machine, which would be exported with the model
        raise BertlineError(f"{dataset.file.filename}: it takes {place} from another file; save the preset again.")
    kind = f"{dataset.dtype.kind}{8 * dataset.dtype.itemsize}".upper()
    tensor = StoredTensor(place, tuple(dataset.shape), kind, partial(_read, dataset))
    name = _preset_name(place)
    if "attention.self." in name or "attention.output.dense" in name:
        tensor = _without_heads(name, tensor)
    if name.endswith(".weight") and "embeddings." not in name and "LayerNorm" not in name:
        tensor = tensor.transposed()
    return name, tensor


def _without_heads(name: str, tensor: StoredTensor) -> StoredTensor:
    """Keras keeps the heads apart, [hidden, heads, head_size], and for the output [heads, head_size, hidden]."""
    match (name.rpartition(".")[2], tensor.shape):
        case ("weight", (heads, head_size, outputs)) if "attention.output" in name:
            return tensor.reshaped((heads * head_size, outputs))
        case ("weight", (inputs, heads, head_size)):
            return tensor.reshaped((inputs, heads * head_size))
        case ("bias", (heads, head_size)):
            return tensor.reshaped((heads * head_size,))
    return tensor


def _preset_name(place: str) -> str:
    """Hugging Face's name of a place in the file; the place itself, if it is not one of BertBackbone's."""
    plain = "/".join(part.lstrip("_") for part in place.split("/"))
    parts = re.fullmatch(r"layers/(?:transformer_encoder(?P<layer>(?:_\d+)?)/)?(?P<inner>.+)/vars/(?P<number>[01])", plain)
    if parts is None:
        return place
    ending = ("weight", "bias")[int(parts["number"])]
    if parts["layer"] is None and parts["inner"] in _PRESET_PLACES:
        return f"{_PRESET_PLACES[parts['inner']]}.{ending}"
    if parts["layer"] is not None and parts["inner"] in _PRESET_LAYER:
        return f"encoder.layer.{parts['layer'][1:] or 0}.{_PRESET_LAYER[parts['inner']]}.{ending}"
    return place


def _read(dataset: h5py.Dataset) -> np.ndarray:
    return dataset[()]
