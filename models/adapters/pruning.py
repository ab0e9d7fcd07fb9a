"""Heads removed for good: a smaller encoder that computes what the larger one does with those heads masked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from keras import ops

from bertline.models.adapters.lora import find_encoder
from bertline.models.encoders.bert.attention import Attention
from bertline.models.encoders.bert.backbone import Encoder, EncoderSize
from bertline.models.tasks.base.task import Context, Task
from bertline.pipeline.core.errors import BertlineError


def prune(encoder: Encoder, heads: Mapping[int, Sequence[int]]) -> Encoder:
    """Makes an encoder without some of the heads; the given one stays as it is.

    Args:
      encoder: may have lost heads before: further ones come on top.
      heads: layer -> the heads it loses, in the numbering of an encoder that lost none. Layers that share their weights
        must lose the same heads, each of them.

    Returns:
      An encoder of the same name, seed and state of dropout, whose size says which heads are gone.
    """
    size = _without(encoder.size, heads)
    smaller = Encoder.from_config({**encoder.get_config(), "size": asdict(size)})
    if len(encoder.variables) != len(smaller.variables):
        raise BertlineError("prune: the encoder carries adapters, which have no heads to lose; merge them into it first.")
    for old, new in zip(encoder.variables, smaller.variables, strict=True):
        if old.shape == new.shape:
            new.assign(old)
    for before, after in zip(encoder.distinct_layers, smaller.distinct_layers, strict=True):
        _copy_heads(before.attention, after.attention)
    return smaller


def prune_model(task: Task, context: Context, model: Any, heads: Mapping[int, Sequence[int]]) -> Any:
    """Makes a task's model without some of the heads of its encoder; the given one stays as it is."""
    encoder = find_encoder(model)
    smaller = prune(encoder, heads)
    made = task.model.build(smaller, context, encoder.size.dropout, encoder.seed)
    for old, new in zip(_beside(model, encoder), _beside(made, smaller), strict=True):
        new.assign(old)
    return made


def _beside(model: Any, encoder: Encoder) -> list[Any]:
    """The variables of a model that are not its encoder's."""
    inside = {id(variable) for variable in encoder.variables}
    return [variable for variable in model.variables if id(variable) not in inside]


def _without(size: EncoderSize, heads: Mapping[int, Sequence[int]]) -> EncoderSize:
    unknown = [layer for layer in heads if layer not in range(size.layers)]
    if unknown:
        raise BertlineError(f"prune: the layers are 0 to {size.layers - 1}; there is no layer {unknown[0]!r}.")
    before = size.pruned or ((),) * size.layers
    # By way of NumPy: heads that were ranked by it come as its integers.
    pruned = ((*gone, *np.asarray(heads.get(layer, ())).tolist()) for layer, gone in enumerate(before))
    return replace(size, pruned=tuple(pruned))


def _copy_heads(before: Attention, after: Attention) -> None:
    """Takes over the columns of query, key and value, and the rows of the output projection, that are left."""
    columns = np.concatenate([np.zeros(0, int), *(_columns(before, head) for head in after.kept_heads)])
    for name in ("query", "key", "value"):
        old, new = getattr(before, name), getattr(after, name)
        new.kernel.assign(ops.convert_to_numpy(old.kernel)[:, columns])
        new.bias.assign(ops.convert_to_numpy(old.bias)[columns])
    after.output_projection.kernel.assign(ops.convert_to_numpy(before.output_projection.kernel)[columns])


def _columns(attention: Attention, head: int) -> np.ndarray:
    start = attention.kept_heads.index(head) * attention.head_size
    return np.arange(start, start + attention.head_size)
