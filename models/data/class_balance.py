"""What is done where some classes are rare: what is learned from them weighs more, or they are drawn more often.

Both change the training alone: evaluation examples are measured as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from bertline.pipeline.config import Sampling, nearest
from bertline.pipeline.core.errors import BertlineError

_POWER: Mapping[Sampling, float] = {"natural": 1.0, "square_root": 0.5, "balanced": 0.0}


def class_counts(found: Any, classes: int) -> np.ndarray:
    """How often each class occurs.

    Args:
      found: ids of classes (-1 is none), one a row or any number; or [rows, classes] flags.
    """
    values = np.asarray(getattr(found, "flat_values", found))
    if values.ndim == 2:
        return values.sum(axis=0)
    return np.bincount(values[values >= 0], minlength=classes)


def class_weights(
    setting: Literal["balanced"] | Mapping[str, float], counts: np.ndarray, labels: Sequence[str]
) -> np.ndarray:
    """The weight of each class: as named (1 for others), or so that all classes weigh the same in sum, and 1 in the mean.

    >>> class_weights("balanced", np.asarray([30, 10]), ["often", "seldom"]).round(3).tolist()
    [0.667, 2.0]
    """
    if setting == "balanced":
        occurs = counts > 0
        return np.divide(counts.sum(), counts * occurs.sum(), out=np.ones(len(counts)), where=occurs)
    for name in setting:
        if name not in labels:
            known = f"{nearest(name, labels)}; the classes are {', '.join(labels)}"
            raise BertlineError(f"training.class_weights: there is no class {name!r}{known}.")
    return np.asarray([setting.get(label, 1.0) for label in labels], float)


def drawn_rows(classes: np.ndarray, sampling: Sampling, *, seed: int, epoch: int) -> np.ndarray:
    """The rows of one epoch, as many as there are: more of the rare classes, fewer of the frequent ones.

    Of each class the rows come in turn, so that none is drawn a second time more than another.

    Args:
      classes: [rows], the id of each row's class.
    """
    names, which, counts = np.unique(classes, return_inverse=True, return_counts=True)
    random = np.random.default_rng((seed, epoch, 1))
    chosen = []
    for at, quota in enumerate(_quotas(counts ** _POWER[sampling], len(classes))):
        rows = np.flatnonzero(which == at)
        whole, part = divmod(quota, len(rows))
        chosen += [np.tile(rows, whole), random.permutation(rows)[:part]]
    return np.concatenate(chosen)


def _quotas(fractions: np.ndarray, total: int) -> np.ndarray:
    """Whole numbers in the proportion of the shares that add up to the total; the largest rests are rounded up."""
    exact = fractions / fractions.sum() * total
    quotas = np.floor(exact).astype(int)
    quotas[np.argsort(quotas - exact, kind="stable")[: total - quotas.sum()]] += 1
    return quotas
