"""A request of more rows than a run takes: cut into parts, whose outputs are put together again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bertline.serving.embedded.errors import RequestError


def parts_of(arrays: Sequence[np.ndarray], rows: int, limit: int) -> list[list[np.ndarray]]:
    """The arrays in slices of at most `limit` rows, the last one with what is left; views, not copies."""
    return [[array[start : start + limit] for array in arrays] for start in range(0, rows, limit)]


def joined(outputs: Sequence[list[np.ndarray]]) -> list[np.ndarray]:
    """The outputs of all parts, one under another."""
    return [_joined(of_parts) for of_parts in zip(*outputs, strict=True)]


def _joined(of_parts: Sequence[np.ndarray]) -> np.ndarray:
    shapes = sorted({array.shape[1:] for array in of_parts})
    if len(shapes) > 1:
        # As where rows are padded to the longest of their run: no filling is right for every model.
        raise RequestError(
            "FAILED_PRECONDITION",
            f"The parts of a large batch have outputs whose rows differ in shape, {list(shapes[0])} and {list(shapes[-1])};"
            " send smaller requests, or batch without enable_large_batch_splitting",
        )
    return np.concatenate(of_parts)
