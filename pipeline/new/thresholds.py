"""Thresholds by what counting words reaches on the very file that `new` looks at: above it, or, where that itself may be
pushed, within its reach."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from bertline.components.baselines.linear import class_probabilities, predicted_numbers
from bertline.components.ingest.rows import as_number
from bertline.pipeline.new.tables.table import Table, Values

FEWEST = 100
"""On fewer examples the score of a baseline is chance, and says nothing of a threshold."""
HIGHEST = 0.95
"""From here on a threshold is left to the comparison of a run, which knows what is noise."""
_LIMIT = 4_000
_MAX_CELLS = 400_000
"""Examples times classes that are learned from, so that it takes seconds."""
_FOLDS = 5
_FEW = 2_000
"""Examples that each fold is asked of; of more, one fold is enough to ask."""

Predict = Callable[[list[list[str]], np.ndarray, list[list[str]]], Iterator[tuple[str, np.ndarray]]]
"""(texts, labels, further texts) -> predictions for these, by the name of a baseline."""


class Reached(NamedTuple):
    """The best baseline, on examples that it had not learned from."""

    name: str
    score: float
    examples: int

    @property
    def threshold(self) -> float:
        """The next hundredth above it."""
        return min(HIGHEST, math.floor(self.score * 100 + 1) / 100)

    def within_reach(self, evaluation: int) -> float:
        """A threshold that it keeps on other examples, as good as always: two standard errors below.

        Args:
          evaluation: so many examples.
        """
        score = min(1.0, max(0.0, self.score))
        error = max(math.sqrt(score * (1 - score)), 1 - score**2) / math.sqrt(max(1, evaluation))  # fractions; correlations
        return min(HIGHEST, math.floor((self.score - 2 * error) * 100) / 100)

    def why(self, measure: str) -> str:
        more = f"; a run compares with it as well, above {HIGHEST}" if self.score >= HIGHEST else ""
        return f"{self.told(measure)}{more}"

    def told(self, measure: str) -> str:
        return f"{_SHOWN[self.name]} has {measure} {self.score:.3f} on {self.examples:,} examples"


_SHOWN = {"tf-idf": "counting words (TF-IDF)", "overlap": "word overlap"}


def of_classes(table: Table, texts: Sequence[str], label: str, measure: str) -> Reached | None:
    """
    Args:
      measure: `accuracy` or `matthews`.
    """
    rows = _Rows.of(table, texts, label)
    names = sorted({str(row[label]) for row in (*rows.train, *rows.evaluation)})
    ids = {name: at for at, name in enumerate(names)}

    def predict(train: list[list[str]], labels: np.ndarray, asked: list[list[str]]) -> Iterator[tuple[str, np.ndarray]]:
        if len(np.unique(labels)) > 1:
            for name, probabilities in class_probabilities(train, labels, asked, len(names)):
                yield name, probabilities.argmax(axis=1)

    def score(predicted: np.ndarray, labels: np.ndarray) -> float:
        from sklearn.metrics import matthews_corrcoef

        return float(matthews_corrcoef(labels, predicted) if measure == "matthews" else (predicted == labels).mean())

    limit = min(_LIMIT, _MAX_CELLS // max(1, len(names)))
    return _best(rows, lambda row: ids[str(row[label])], predict, score, limit)


def of_numbers(table: Table, texts: Sequence[str], label: str) -> Reached | None:
    """By Pearson's correlation."""

    def score(predicted: np.ndarray, values: np.ndarray) -> float:
        return float(np.corrcoef(predicted, values)[0, 1]) if predicted.std() > 0 and values.std() > 0 else 0.0

    rows = _Rows.of(table, texts, label)
    rows = rows._replace(evaluation=[row for row in rows.evaluation if as_number(str(row[label])) is not None])
    return _best(rows, lambda row: float(str(row[label])), predicted_numbers, score, _LIMIT)


class _Rows(NamedTuple):
    """What is learned from and, where the user holds a file out, what is asked; each text once, or it would be known by
    heart."""

    texts: Sequence[str]
    train: list[Values]
    evaluation: list[Values]

    @classmethod
    def of(cls, table: Table, texts: Sequence[str], label: str) -> _Rows:
        def once(rows: Sequence[Values]) -> dict[tuple[str | None, ...], Values]:
            return {tuple(row[column] for column in texts): row for row in rows}

        train, evaluation = (once(rows((*texts, label))) for rows in (table.complete, table.evaluation))
        return cls(texts, [row for key, row in train.items() if key not in evaluation], list(evaluation.values()))

    def fields(self, rows: Sequence[Values]) -> list[list[str]]:
        return [[str(row[column]) for row in rows] for column in self.texts]


def _best(
    rows: _Rows,
    label: Callable[[Values], float],
    predict: Predict,
    score: Callable[[np.ndarray, np.ndarray], float],
    limit: int,
) -> Reached | None:
    """On the evaluation file; without one by cross-validation, or of many examples by one fifth."""
    train, evaluation = (_drawn(of, limit) for of in (rows.train, rows.evaluation))
    if len(evaluation) >= FEWEST:
        splits = [(train, evaluation)]
    elif len(train) >= FEWEST:
        folds = _FOLDS if len(train) <= _FEW else 1
        splits = [
            ([row for at, row in enumerate(train) if at % _FOLDS != fold], train[fold::_FOLDS]) for fold in range(folds)
        ]
    else:
        return None
    found: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
    for seen, asked in splits:
        of_seen, of_asked = (np.asarray([label(row) for row in of]) for of in (seen, asked))
        for name, predicted in predict(rows.fields(seen), of_seen, rows.fields(asked)):
            found.setdefault(name, []).append((predicted, of_asked))
    scores = {name: score(*map(np.concatenate, zip(*parts, strict=True))) for name, parts in found.items()}
    if not scores:
        return None
    name = max(scores, key=lambda one: scores[one])
    return Reached(name, scores[name], sum(len(asked) for _, asked in splits))


def _drawn(rows: Sequence[Values], limit: int) -> list[Values]:
    return [rows[at] for at in np.random.default_rng(0).permutation(len(rows))[:limit]]
