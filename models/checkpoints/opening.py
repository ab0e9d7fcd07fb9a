"""One door to every format; what a format needs is imported only when it is met, for TensorFlow takes its time."""

from __future__ import annotations

from contextlib import AbstractContextManager

from bertline.models.checkpoints.source import Source
from bertline.pipeline.core import checkpoint_formats as formats
from bertline.pipeline.core.checkpoint_formats import Found


def open_source(found: Found) -> AbstractContextManager[Source]:
    """The tensors of a checkpoint, which can be read as long as the context is open."""
    if found.format == formats.SAFETENSORS:
        from bertline.models.checkpoints.safetensors_file import open_safetensors

        return open_safetensors(found.weights)
    if found.format == formats.TORCH:
        from bertline.models.checkpoints.torch_file import open_torch

        return open_torch(found.weights)
    if found.format == formats.TF1:
        from bertline.models.checkpoints.tf1 import open_tf1

        return open_tf1(found.weights)
    from bertline.models.checkpoints.keras_file import open_keras, open_preset

    return open_keras(found.weights) if found.format == formats.KERAS else open_preset(found.weights)
