"""Baselines of one class, and of any number of classes, for a text or a pair."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bertline.components.baselines.data import Given, class_ids, flagged, labelled
from bertline.components.baselines.linear import Logistic, class_probabilities, tables
from bertline.components.baselines.scores import Baseline, of_predictions


def classification(given: Given) -> Iterator[Baseline]:
    ids = class_ids(given.train, given.labels)
    counts = np.bincount(ids[ids >= 0], minlength=len(given.labels))
    if not counts.any():
        return
    fractions = np.tile(counts / counts.sum(), (len(given.evaluation), 1))
    yield of_predictions("majority", given.rows, {"": fractions})
    if np.count_nonzero(counts) < 2:
        return
    train, labels = labelled(given.train, given.labels)
    for name, probabilities in class_probabilities(
        given.texts(train), labels, given.texts(given.evaluation), len(given.labels)
    ):
        yield of_predictions(name, given.rows, {"": probabilities})


def multilabel(given: Given) -> Iterator[Baseline]:
    train, flags = flagged(given.train, given.labels)
    if not len(train):
        return
    fractions = flags.mean(axis=0)
    yield of_predictions("majority", given.rows, {"": np.tile(fractions, (len(given.evaluation), 1))})
    some = np.flatnonzero((fractions > 0) & (fractions < 1))  # of the others there is nothing to learn
    for name, of_train, of_evaluation in tables(given.texts(train), given.texts(given.evaluation)):
        probabilities = np.tile(fractions, (len(given.evaluation), 1))
        for at in some:
            probabilities[:, at] = Logistic(2).fit(of_train, flags[:, at]).predict_proba(of_evaluation)[:, 1]
        yield of_predictions(name, given.rows, {"": probabilities})
