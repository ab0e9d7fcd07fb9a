"""The mean of the weights after the last epochs, which often does better than any of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

_PREFIX = "recent/"


class RecentWeights:
    """The trained weights after the last epochs.

    Args:
      model: whose weights they are.
      epochs: epochs that the mean is taken over; with 1 nothing is kept, and the mean is what the model has.
    """

    def __init__(self, model: Any, epochs: int) -> None:
        self._variables = {variable.path: variable for variable in model.trainable_variables}
        self._epochs = epochs
        self._kept: list[dict[str, np.ndarray]] = []

    def add(self) -> None:
        """Keeps what the model has now, and drops the oldest."""
        if self._epochs > 1:
            self._kept = [*self._kept, trained_weights(self._variables)][-self._epochs :]

    @contextmanager
    def mean(self) -> Iterator[None]:
        """Gives the model the mean, and its own weights back at the end."""
        own = trained_weights(self._variables) if self._kept else {}
        self.take_mean()
        yield
        assign(self._variables, own)

    def take_mean(self) -> None:
        """Gives the model the mean for good."""
        if self._kept:
            assign(self._variables, {path: np.mean([kept[path] for kept in self._kept], axis=0) for path in self._kept[0]})

    def tensors(self) -> dict[str, np.ndarray]:
        """All that is to outlive a killed training."""
        return {f"{_PREFIX}{at}/{path}": value for at, kept in enumerate(self._kept) for path, value in kept.items()}

    def restore(self, tensors: Mapping[str, np.ndarray]) -> None:
        found: dict[int, dict[str, np.ndarray]] = {}
        for name, value in tensors.items():
            if name.startswith(_PREFIX):
                at, _, path = name.removeprefix(_PREFIX).partition("/")
                found.setdefault(int(at), {})[path] = value
        self._kept = [found[at] for at in sorted(found)]

    @staticmethod
    def is_of(name: str) -> bool:
        """Whether a tensor of a checkpoint is one of these."""
        return name.startswith(_PREFIX)


def trained_weights(variables: Mapping[str, Any]) -> dict[str, np.ndarray]:
    return {path: variable.numpy() for path, variable in variables.items()}


def assign(variables: Mapping[str, Any], values: Mapping[str, np.ndarray]) -> None:
    for path, value in values.items():
        variables[path].assign(value)
