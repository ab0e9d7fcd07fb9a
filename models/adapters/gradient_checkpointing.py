"""Gradient checkpointing: memory for time.

Of each encoder layer only the input is kept for the backward pass, which then computes the layer once more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import keras
import tensorflow as tf

from bertline.models.compat import layers_within


def recompute_layers(layers: Sequence[keras.layers.Layer]) -> None:
    """Changes encoder layers so that their gradients are those of a second forward pass, with the noise of the first.

    While training they give no attention weights any more.
    """
    for layer in layers:
        layer.call = _recomputed(layer)


def _recomputed(layer: keras.layers.Layer) -> Callable[..., tuple[Any, Any]]:
    plain = layer.call
    noisy = [part for part in layers_within(layer) if hasattr(part, "seeds") and part.rate]
    sources = [part.seeds for part in noisy]

    def call(states: Any, *args: Any, training: bool = False, **options: Any) -> tuple[Any, Any]:
        if not training:
            return plain(states, *args, training=False, **options)
        # Drawn here, once: a draw inside would give the second pass other noise, and so the gradients of another function.
        seeds = [source.next() for source in sources]

        def run(states: Any) -> Any:
            with _fixed(sources, seeds):
                return plain(states, *args, training=True, **options)[0]

        # No attention weights: handed out, they would have to be kept, and they are what takes the memory.
        return tf.recompute_grad(run)(states), None

    return call


@contextmanager
def _fixed(sources: Sequence[keras.random.SeedGenerator], seeds: Sequence[Any]) -> Iterator[None]:
    """Each source gives the seed that was drawn for it, and does not count."""
    for source, seed in zip(sources, seeds, strict=True):
        source.next = lambda ordered=True, seed=seed: seed
    try:
        yield
    finally:
        for source in sources:
            del source.next
