"""What the baseline `tf-idf` of a task learns, as one linear layer: the same examples, the same linear model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from bertline.components.baselines.data import Examples, flagged, labelled, numbered
from bertline.components.baselines.linear import Logistic, ridge
from bertline.models.training.probing import Linear, layer_of

_CERTAIN = 20.0
"""The logit of a label that every example has."""


class Learned(NamedTuple):
    layer: Linear
    one_against_rest: bool = False
    """Whether each of several classes was learned for itself."""


class Lesson(NamedTuple):
    """What there is to learn."""

    examples: Examples
    outputs: int
    fit: Callable[[Any], Learned]
    """(the examples' TF-IDF) -> the layer."""


def of_classes(examples: Examples, labels: Sequence[str]) -> Lesson | None:
    """None where the examples teach nothing, as those of a single class."""
    examples, ids = labelled(examples, labels)

    def fit(table: Any) -> Learned:
        learned = Logistic(len(labels)).fit(table, ids)
        # Stochastic gradient descent, which has no C, learns each class against all others.
        return Learned(layer_of(learned, len(labels)), not hasattr(learned, "C") and len(learned.classes_) > 2)

    return Lesson(examples, len(labels), fit) if len(np.unique(ids)) > 1 else None


def of_flags(examples: Examples, labels: Sequence[str]) -> Lesson | None:
    examples, flags = flagged(examples, labels)

    def fit(table: Any) -> Learned:
        kernel = np.zeros((table.shape[1], len(labels)))
        bias = np.where(flags.all(axis=0), _CERTAIN, -_CERTAIN)
        for at in np.flatnonzero(flags.any(axis=0) & ~flags.all(axis=0)):
            learned = Logistic(2).fit(table, flags[:, at])
            kernel[:, at], bias[at] = learned.coef_[0], learned.intercept_[0]
        return Learned(Linear(kernel, bias))

    return Lesson(examples, len(labels), fit) if len(np.unique(flags, axis=0)) > 1 else None


def of_numbers(examples: Examples, labels: Sequence[str]) -> Lesson | None:
    examples, values = numbered(examples)

    def fit(table: Any) -> Learned:
        learned = ridge(is_sparse=True).fit(table, values)
        return Learned(Linear(learned.coef_[:, np.newaxis], np.asarray([learned.intercept_])))

    return Lesson(examples, 1, fit) if len(np.unique(values)) > 1 else None
