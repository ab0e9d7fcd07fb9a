"""How attention flows through all layers (Abnar and Zuidema, arXiv 2005.00928)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def rollout(layers: Sequence[np.ndarray]) -> np.ndarray:
    """How much of what stands at each position of the last layer came from each token.

    Half of a state goes on as it is, by the addition around the attention, and half comes from where the heads look, on
    average; layer upon layer, these shares are multiplied.

    Args:
      layers: [heads, seq, seq] of each, where a row sums to 1. A layer may have lost all its heads.

    Returns:
      [seq, seq], where a row sums to 1.
    """
    seq = layers[0].shape[-1]
    flow = np.eye(seq)
    for weights in layers:
        mean = weights.mean(axis=0, dtype=np.float64) if len(weights) else np.eye(seq)
        flow = (0.5 * mean + 0.5 * np.eye(seq)) @ flow
    return flow
