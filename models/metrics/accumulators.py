"""Scores by the sums over rows that they follow from.

The training measures its evaluation examples after each epoch, and TFMA measures every slice: both add rows up by the same
family, so their numbers agree. Sums are exact whatever the order in which rows are added and parts are merged.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from bertline.models.data import tag_schemes
from bertline.models.decisions.decision import LIKELIEST, Decision
from bertline.models.metrics import extra as extra_metrics
from bertline.models.metrics.retrieval import OF_RANKS, ranks
from bertline.models.metrics.scores import (
    OF_ANSWERS,
    OF_CONFUSION,
    OF_DECISIONS,
    OF_ENTITIES,
    OF_POSITIVE,
    OF_VALUES,
    Decisions,
    Entities,
)
from bertline.models.metrics.translation import OF_TRANSLATIONS, no_rows, statistics

Scores = Mapping[str, Callable[[Any], float]]


class _Scores(dict[str, Callable[[Any], float]]):
    """Those of a family, and any that another package has registered for it."""

    def __missing__(self, name: str) -> Callable[[Any], float]:
        return extra_metrics.get(name).of_whole


@dataclass(frozen=True)
class Family:
    """What is added up, and the scores that follow from it."""

    scores: Scores
    none: Callable[[Sequence[str]], Any]
    """(labels) -> the sum over no row."""
    add: Callable[[Any, np.ndarray, np.ndarray, Sequence[str]], Any]
    """(sum, label, prediction, labels) -> the sum with one row more."""
    merge: Callable[[Any, Any], Any]
    whole: Callable[[Any], Any] = staticmethod(lambda found: found)
    """(sum over all rows) -> what the scores are functions of."""
    of_classes: Callable[[Any, Sequence[str]], dict[str, dict[str, float]]] | None = None
    """(sum, labels) -> the scores of each class, where they have any of their own."""


def family_of(score: str) -> str | None:
    """The name of the family that a score is of; None for one that is not ours."""
    found = next((name for name, family in FAMILIES.items() if score in family.scores), None)
    return extra_metrics.get(score).family if found is None and score in extra_metrics.names() else found


def _confusion(decision: Decision) -> Family:
    """Of labels that are ids of classes, and predictions that are their probabilities."""

    def add(found: np.ndarray, label: np.ndarray, probabilities: np.ndarray, labels: Sequence[str]) -> np.ndarray:
        found[int(np.ravel(label)[0]), int(decision.classes(np.reshape(probabilities, (1, -1)))[0])] += 1
        return found

    of_positive = {name: partial(score, positive=decision.positive) for name, score in OF_POSITIVE.items()}
    none = lambda labels: np.zeros((len(labels), len(labels)), np.int64)  # noqa: E731
    return Family(_Scores({**OF_CONFUSION, **of_positive}), none, add, lambda a, b: a + b)


def _decisions(decision: Decision) -> Family:
    """Of labels of 0 and 1, and predictions that are probabilities, one of each a class."""
    return Family(
        OF_DECISIONS,
        lambda labels: Decisions.none(len(labels)),
        lambda found, label, probabilities, labels: (
            found + Decisions.of_row(np.ravel(label), np.ravel(probabilities), decision)
        ),
        lambda a, b: a + b,
        of_classes=Decisions.of_classes,
    )


def _add_values(found: tuple[array, array], label: np.ndarray, value: np.ndarray, labels: Sequence[str]) -> Any:
    found[0].append(float(np.ravel(value)[0]))
    found[1].append(float(np.ravel(label)[0]))
    return found


def _add_entities(found: Entities, label: np.ndarray, answer: np.ndarray, labels: Sequence[str]) -> Entities:
    true = [labels[tag] if tag >= 0 else None for tag in np.ravel(label).astype(int)]
    given = [labels[tag] if tag >= 0 else tag_schemes.OUTSIDE for tag in np.ravel(answer).astype(int)]
    # Rows are filled up to the longest of their batch, and words without any token have no answer.
    given = [*given, *[tag_schemes.OUTSIDE] * len(true)][: len(true)]
    return found.add(given, true)


def _add_answers(found: np.ndarray, label: np.ndarray, answer: np.ndarray, labels: Sequence[str]) -> np.ndarray:
    """[scores, 2]: what the answers of the rows that count for a score add to it, and how many such rows there are."""
    right = [text.decode() for text in np.ravel(label).tolist() if text]
    given = np.ravel(answer).tolist()[0].decode(errors="replace")
    for at, score in enumerate(OF_ANSWERS.values()):
        if (value := score(given, right)) is not None:
            found[at] += value, 1
    return found


def _mean_of(at: int) -> Callable[[np.ndarray], float]:
    return lambda found: float(found[at, 0] / found[at, 1]) if found[at, 1] else float("nan")


def _add_translation(found: np.ndarray, label: Any, answer: Any, labels: Sequence[str]) -> np.ndarray:
    given, reference = (_one_text(value).decode(errors="replace") for value in (answer, label))
    return found + statistics(given, reference)


def _one_text(value: Any) -> bytes:
    # Numpy would take zeros from the end of bytes that are in no array of objects.
    return value if isinstance(value, bytes) else np.ravel(value).tolist()[0]


def _add_vectors(found: list, label: np.ndarray, vectors: np.ndarray, labels: Sequence[str]) -> list:
    """Of each row what its candidate is, and both vectors, one after the other."""
    found.append((int(np.ravel(label)[0]), np.ravel(vectors).astype(np.float64)))
    return found


def _places(rows: list) -> np.ndarray:
    """Every question is compared with every candidate of the rows, and with no other."""
    if not rows:
        return np.zeros(0, np.int64)
    names, both = zip(*rows, strict=True)
    questions, candidates = np.split(np.stack(both), 2, axis=1)
    return ranks(questions, candidates, np.asarray(names))


FAMILIES: Mapping[str, Family] = {
    "confusion": _confusion(LIKELIEST),
    # A number each: ranks need the values of all rows beside each other, 16 bytes a row.
    "values": Family(
        _Scores({name: lambda found, of=score: of(*found) for name, score in OF_VALUES.items()}),  # type: ignore[misc]
        lambda labels: (array("d"), array("d")),
        _add_values,
        lambda a, b: (a[0] + b[0], a[1] + b[1]),
        whole=lambda found: (np.asarray(found[0]), np.asarray(found[1])),
    ),
    "decisions": _decisions(LIKELIEST),
    # Ids of tags, one a word; -1 is no tag.
    "entities": Family(
        OF_ENTITIES, Entities.none, _add_entities, lambda a, b: a + b, of_classes=lambda found, labels: found.of_types()
    ),
    # Predictions that are a text, labels that are right ones.
    "answers": Family(
        {name: _mean_of(at) for at, name in enumerate(OF_ANSWERS)},
        lambda labels: np.zeros((len(OF_ANSWERS), 2)),
        _add_answers,
        lambda a, b: a + b,
    ),
    # Predictions and labels that are one text each.
    "translations": Family(OF_TRANSLATIONS, lambda labels: no_rows(), _add_translation, lambda a, b: a + b),
    # Predictions that are two vectors, labels that say which text the second is of.
    "ranks": Family(_Scores(OF_RANKS), lambda labels: [], _add_vectors, lambda a, b: a + b, whole=_places),
}


@cache
def families(decision: Decision) -> Mapping[str, Family]:
    """The families, of a model that decides in this way."""
    return {**FAMILIES, "confusion": _confusion(decision), "decisions": _decisions(decision)}
