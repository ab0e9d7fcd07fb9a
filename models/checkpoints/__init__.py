"""Encoders from and to checkpoints of every spelling: Hugging Face's, the original BERT's, Keras'.

Each format becomes a `Source`: Hugging Face's names -> tensors that are read when they are wanted. Loading compares it with
an encoder and fills all of that or nothing; saving writes the same names. The table of names is in `names.py`.

What needs TensorFlow is imported when it is first asked for: finding out what a folder holds takes no time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bertline.pipeline.core.checkpoint_formats import CONFIG, WEIGHTS, find

if TYPE_CHECKING:
    from bertline.models.checkpoints.keras_file import save_keras
    from bertline.models.checkpoints.loading import LoadReport, load_encoder, load_heads, load_size, load_weights
    from bertline.models.checkpoints.saving import save_encoder
    from bertline.models.checkpoints.tf1 import save_tf1

__all__ = [
    "CONFIG", "WEIGHTS", "LoadReport", "find", "load_encoder", "load_heads", "load_size", "load_weights", "save_encoder",
    "save_keras", "save_tf1",
]  # fmt: skip

_HEAVY = {
    "loading": ("LoadReport", "load_encoder", "load_heads", "load_size", "load_weights"),
    "saving": ("save_encoder",),
    "keras_file": ("save_keras",),
    "tf1": ("save_tf1",),
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    for module, names in _HEAVY.items():
        if name in names:
            return getattr(import_module(f"bertline.models.checkpoints.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
