"""Baselines of numbers, and of how alike two texts are."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bertline.components.baselines.data import Given, numbered
from bertline.components.baselines.linear import predicted_numbers
from bertline.components.baselines.scores import Baseline, of_predictions


def numbers(given: Given) -> Iterator[Baseline]:
    """The mean, ridge regressions, and of pairs the overlap alone. A similarity that is learned so is no cosine, which the
    correlations that it is judged by do not ask for."""
    train, values = numbered(given.train)
    if not len(train):
        return
    yield of_predictions("mean", given.rows, {"": np.full(len(given.evaluation), values.mean())})
    for name, predicted in predicted_numbers(given.texts(train), values, given.texts(given.evaluation)):
        yield of_predictions(name, given.rows, {"": predicted})
