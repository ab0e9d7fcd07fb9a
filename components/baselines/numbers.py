"""Baselines of numbers, and of how alike two texts are."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from components.baselines.data import Examples, Given
from components.baselines.features import joined, overlaps, tf_idf
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

    from sklearn.linear_model import Ridge

    fields = [[examples.texts(key) for key in given.fields] for examples in (train, given.evaluation)]
    if counted := tf_idf(*fields):
        model = Ridge(solver="sparse_cg", random_state=0).fit(joined(counted.train, fields[0]), values)
        predicted = model.predict(joined(counted.evaluation, fields[1]))
        yield of_predictions("tf-idf", given.rows, {"": predicted})
    if len(given.fields) == 2:
        model = Ridge().fit(overlaps(*fields[0]), values)
        yield of_predictions("overlap", given.rows, {"": model.predict(overlaps(*fields[1]))})
