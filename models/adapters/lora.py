"""Low-rank adapters on the query and value projections: few trained weights beside a frozen encoder.

An adapted kernel is `kernel + alpha / rank * down @ up`, with `up` 0 at first. Once trained it is added up into a plain
kernel, so that an exported model knows nothing of adapters.
"""

from __future__ import annotations

import zlib
from contextlib import ExitStack
from typing import Any

import keras

from bertline.models.encoders.bert.backbone import Encoder
from bertline.pipeline.core.errors import BertlineError


def find_encoder(model: keras.Model) -> Encoder:
    for layer in model.layers:
        if isinstance(layer, Encoder):
            return layer
    raise BertlineError(f"training: the model {model.name!r} has no encoder of ours; leave out the settings that need one.")


def adapt(model: keras.Model, *, rank: int, alpha: float, seed: int) -> None:
    """Adds adapters to every encoder layer, and freezes all of the encoder but them and the pooler.

    The pooler belongs to the head: a checkpoint may not even have one.

    Args:
      model: has an `Encoder` among its layers; must not have adapters yet.
      rank: inner width of an adapter, at most the hidden size.
      alpha: strength; an adapter's product is multiplied by alpha / rank.
      seed: seeds the adapters' first weights.
    """
    encoder = find_encoder(model)
    if rank > encoder.size.hidden:
        raise BertlineError(
            f"training.lora_rank={rank} is wider than the encoder itself, whose hidden size is {encoder.size.hidden}."
        )
    for variable in encoder.variables:
        variable.trainable = False
    for variable in encoder.pooler.variables:
        variable.trainable = True
    for dense in _adapted(encoder):
        *parents, _, _ = dense.kernel.path.split("/")  # without the dense layer's own name, which Keras adds
        first = keras.initializers.HeUniform(seed=zlib.crc32(f"{seed}/{dense.kernel.path}".encode()) >> 1)
        with ExitStack() as scopes:
            for parent in parents:
                scopes.enter_context(keras.name_scope(parent))
            dense.enable_lora(rank, lora_alpha=alpha, a_initializer=first, b_initializer="zeros")


def merge(adapted: keras.Model, plain: keras.Model) -> None:
    """Gives a model without adapters the kernels of one that has them; all other weights stay as they are."""
    for source, target in zip(_adapted(find_encoder(adapted)), _adapted(find_encoder(plain)), strict=True):
        target.kernel.assign(source.kernel)  # Keras hands out the sum of the kernel and its adapter


def without_adapters(model: keras.Model) -> list[Any]:
    """The variables of an adapted model that a plain one has too, in the plain one's order."""
    adapters = {id(v) for dense in _adapted(find_encoder(model)) for v in (dense.lora_kernel_a, dense.lora_kernel_b)}
    return [variable for variable in model.variables if id(variable) not in adapters]


def _adapted(encoder: Encoder) -> list[keras.layers.Dense]:
    return [dense for layer in encoder.distinct_layers for dense in (layer.attention.query, layer.attention.value)]
