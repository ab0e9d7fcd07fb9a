"""Which numbers a model computes with; its weights are float32 in any case."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import keras
import tensorflow as tf

HAS_BFLOAT16 = (8, 0)


def dtype_policy(precision: str, capabilities: Sequence[tuple[int, int]]) -> str:
    """The Keras policy of a setting.

    Args:
      precision: `auto`, `float32`, `bfloat16` or `float16`.
      capabilities: the compute capability of each GPU; empty on a CPU, where half precision is slower than float32.
    """
    if precision == "auto":
        precision = "bfloat16" if capabilities and min(capabilities) >= HAS_BFLOAT16 else "float32"
    return precision if precision == "float32" else f"mixed_{precision}"


def gpu_capabilities() -> list[tuple[int, int]]:
    """The compute capability of each GPU; (0, 0) where the driver does not tell."""
    devices = tf.config.list_physical_devices("GPU")
    return [tf.config.experimental.get_device_details(device).get("compute_capability", (0, 0)) for device in devices]


@contextmanager
def building_with(policy: str) -> Iterator[None]:
    """Layers that are made inside compute by this policy."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def in_float32(logits: Any) -> Any:
    """Logits, or a structure of them, as the losses need them: a softmax in half precision loses too much."""
    return tf.nest.map_structure(lambda part: tf.cast(part, tf.float32) if part.dtype.is_floating else part, logits)
