"""How the learning rate goes: up over the warm-up, then along one of four curves. Pure functions of the step."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import tensorflow as tf

# (step, steps of the warm-up, all steps) -> share of the peak after the warm-up; 1 up to its end.
_CURVES: dict[str, Callable[[tf.Tensor, float, float], tf.Tensor]] = {
    "linear": lambda step, warmup, total: 1.0 - _progress(step, warmup, total),
    "cosine": lambda step, warmup, total: 0.5 + 0.5 * tf.cos(math.pi * _progress(step, warmup, total)),
    "inverse_sqrt": lambda step, warmup, total: tf.sqrt((warmup + 1.0) / (tf.maximum(step, warmup) + 1.0)),
    "constant": lambda step, warmup, total: tf.ones_like(step),
}


def learning_rate(step: Any, *, schedule: str, peak: float, total_steps: int, warmup: float) -> tf.Tensor:
    """The learning rate of one step.

    Args:
      step: steps that were done before, from 0 on.
      schedule: `linear` and `cosine` fall to 0 at `total_steps`; `inverse_sqrt` halves whenever the steps are four times
        as many; `constant` stays at the peak.
      peak: learning rate at the end of the warm-up.
      total_steps: steps of the whole training.
      warmup: share of `total_steps` over which the learning rate rises linearly. The first step is never wasted on a
        learning rate of 0.

    Returns:
      A float32 scalar.

    Example:
      >>> [float(learning_rate(s, schedule="linear", peak=1.0, total_steps=4, warmup=0.25)) for s in range(5)]
      [0.5, 1.0, 0.6666666269302368, 0.3333333134651184, 0.0]
    """
    step = tf.cast(step, tf.float32)
    warmup_steps = float(int(warmup * total_steps))
    rise = (step + 1.0) / (warmup_steps + 1.0)
    # Each curve is 1 until the warm-up ends, and from there on the rise is above 1: the smaller of both is meant.
    return peak * tf.minimum(rise, _CURVES[schedule](step, warmup_steps, float(total_steps)))


def _progress(step: tf.Tensor, warmup: float, total: float) -> tf.Tensor:
    """0 until the end of the warm-up, 1 from the last step on."""
    return tf.clip_by_value((step - warmup) / max(1.0, total - warmup), 0.0, 1.0)


def layer_scales(paths: list[str], decay: float) -> list[float]:
    """The factor of each variable's learning rate: 1 for the head, less the deeper a variable lies.

    Args:
      paths: of the variables, such as `encoder/layer_3/attention/query/kernel`. The pooler counts as head: a checkpoint
        may not even have one.
      decay: the factor from one layer to the one below.

    Returns:
      `decay` for the top layer, `decay²` for the next, …, `decay^(layers + 1)` for the embeddings.
    """
    depths = [_depth(path) for path in paths]
    layers = 1 + max((depth for depth in depths if depth is not None), default=-1)
    return [1.0 if depth is None else decay ** (layers - depth) for depth in depths]


def _depth(path: str) -> int | None:
    """Number of the encoder layer that a variable is in, -1 for the embeddings, None for what lies above the layers."""
    _, inside, rest = f"/{path}".partition("/encoder/")
    part = rest.partition("/")[0]
    if not inside:
        return None
    if part == "embeddings":
        return -1
    name, _, number = part.rpartition("_")
    return int(number) if name == "layer" and number.isdigit() else None
