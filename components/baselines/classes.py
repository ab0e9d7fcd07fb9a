"""Baselines of one class, and of any number of classes, for a text or a pair."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from components.baselines.data import Examples, Given
from components.baselines.features import joined, overlaps, tf_idf
from components.baselines.scoring import Baseline, of_predictions

MOST_CELLS = 1_500_000
"""Training examples times classes: of many classes fewer examples are learned from, so that it takes seconds."""
_MANY_WEIGHTS = 1_000_000
"""Features times classes, from which on stochastic gradient descent learns them, in less time and memory: of 7,500 texts in
150 classes it took 4.7 s for an accuracy of 0.912, where L-BFGS took 10.7 s for 0.906."""
_EXAMPLES_SEEN = 50_000
_STRENGTH = 10.0
"""C of the logistic regression: how little it is regularised. TF-IDF's numbers are small."""
_ITERATIONS = 100


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
    for name, of_train, of_evaluation in _tables(given, train):
        model = _Logistic(len(known)).fit(of_train, labels)
        shares = np.zeros((len(given.evaluation), len(known)))
        shares[:, model.classes_] = model.predict_proba(of_evaluation)
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
    for name, of_train, of_evaluation in _tables(given, train):
        shares = np.tile(fractions, (len(given.evaluation), 1))
        for at in some:
            shares[:, at] = _Logistic(2).fit(of_train, flags[:, at]).predict_proba(of_evaluation)[:, 1]
        yield of_predictions(name, given.rows, {"": shares})


def _tables(given: Given, train: Examples) -> Iterator[tuple[str, Any, Any]]:
    """What is learned from, and what is then asked, by the name of the baseline: TF-IDF, and the overlap of pairs alone."""
    fields = [[examples.texts(key) for key in given.fields] for examples in (train, given.evaluation)]
    if counted := tf_idf(*fields):
        yield "tf-idf", joined(counted.train, fields[0]), joined(counted.evaluation, fields[1])
    if len(given.fields) == 2:
        yield "overlap", overlaps(*fields[0]), overlaps(*fields[1])


class _Logistic:
    """A logistic regression that says nothing where it stops before it has converged: a baseline need not."""

    def __init__(self, classes: int) -> None:
        self._classes = classes

    def fit(self, features: Any, labels: np.ndarray) -> Any:
        from sklearn.linear_model import LogisticRegression, SGDClassifier

        if self._classes > 2 and features.shape[1] * self._classes > _MANY_WEIGHTS:
            epochs = int(np.clip(_EXAMPLES_SEEN // len(labels), 6, 50))
            model = SGDClassifier(loss="log_loss", alpha=1e-5, max_iter=epochs, tol=None, random_state=0)
        else:
            solver = "liblinear" if self._classes == 2 else "lbfgs"
            model = LogisticRegression(C=_STRENGTH, solver=solver, max_iter=_ITERATIONS, tol=1e-3, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return model.fit(features, labels)
