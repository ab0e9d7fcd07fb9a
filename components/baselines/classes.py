"""Baselines of one class, and of any number of classes, for a text or a pair."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from components.baselines.data import Examples, Given
from components.baselines.linear import Logistic, shares_of_classes, tables
from components.baselines.scoring import Baseline, of_predictions

MOST_CELLS = 1_500_000
"""Training examples times classes: of many classes fewer examples are learned from, so that it takes seconds."""


def most_examples(classes: int) -> int:
    """Training examples that are learned from."""
    return MOST_CELLS // max(1, classes)


def classification(given: Given) -> Iterator[Baseline]:
    known = {name: at for at, name in enumerate(given.labels)}
    ids = np.asarray([known.get(name, -1) for name in given.train.texts("label")], int)
    counts = np.bincount(ids[ids >= 0], minlength=len(known))
    if not counts.any():
        return
    fractions = np.tile(counts / counts.sum(), (len(given.evaluation), 1))
    yield of_predictions("majority", given.rows, {"": fractions})
    if np.count_nonzero(counts) < 2:
        return
    chosen = np.flatnonzero(ids >= 0)[: most_examples(len(known))]
    train, labels = Examples([given.train.features[at] for at in chosen]), ids[chosen]
    for name, shares in shares_of_classes(given.texts(train), labels, given.texts(given.evaluation), len(known)):
        yield of_predictions(name, given.rows, {"": shares})


def multilabel(given: Given) -> Iterator[Baseline]:
    known = {name: at for at, name in enumerate(given.labels)}
    train = given.train.first(most_examples(len(known)))
    flags = np.zeros((len(train), len(known)), np.int64)
    for row, names in enumerate(train.lists("label")):
        flags[row, [known[name] for name in names if name in known]] = 1
    if not len(train):
        return
    fractions = flags.mean(axis=0)
    yield of_predictions("majority", given.rows, {"": np.tile(fractions, (len(given.evaluation), 1))})
    some = np.flatnonzero((fractions > 0) & (fractions < 1))  # of the others there is nothing to learn
    for name, of_train, of_evaluation in tables(given.texts(train), given.texts(given.evaluation)):
        shares = np.tile(fractions, (len(given.evaluation), 1))
        for at in some:
            shares[:, at] = Logistic(2).fit(of_train, flags[:, at]).predict_proba(of_evaluation)[:, 1]
        yield of_predictions(name, given.rows, {"": shares})
