"""Baselines of numbers, and of how alike two texts are."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from components.baselines.data import Examples, Given
from components.baselines.linear import predicted_numbers
from components.baselines.scoring import Baseline, of_predictions


def numbers(given: Given) -> Iterator[Baseline]:
    """The mean, ridge regressions, and of pairs the overlap alone. A similarity that is learned so is no cosine, which the
    correlations that it is judged by do not ask for."""
    values = given.train.numbers("label")
    chosen = np.flatnonzero(np.isfinite(values))
    if not len(chosen):
        return
    train, values = Examples([given.train.features[at] for at in chosen]), values[chosen]
    yield of_predictions("mean", given.rows, {"": np.full(len(given.evaluation), values.mean())})
    for name, predicted in predicted_numbers(given.texts(train), values, given.texts(given.evaluation)):
        yield of_predictions(name, given.rows, {"": predicted})
