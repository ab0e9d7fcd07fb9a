"""Baselines of choices: the place that is right most often, and the ending that shares most words with the text."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bertline.components.baselines.data import Given
from bertline.components.baselines.features import Rarity, words
from bertline.components.baselines.scores import Baseline, of_predictions
from bertline.pipeline.config import CHOICES


def choice(given: Given) -> Iterator[Baseline]:
    label = given.rows.label("index")
    places = given.train.numbers("label")
    counted = np.bincount(places[np.isfinite(places) & (places >= 0)].astype(int), minlength=1)
    endings = given.evaluation.lists(CHOICES)
    # A place that a row does not have cannot be chosen in it.
    first = [int(np.argmax(counted[: max(1, len(texts))])) for texts in endings]
    yield _chosen("majority", given, label, np.asarray(first, int))
    train = [" ".join(row) for row in zip(*(given.train.texts(key) for key in given.fields), strict=True)]
    rarity = Rarity([*train, *(text for texts in given.train.lists(CHOICES) for text in texts)])
    texts = [" ".join(row) for row in zip(*(given.evaluation.texts(key) for key in given.fields), strict=True)]
    best = [_nearest(text, among, rarity) for text, among in zip(texts, endings, strict=True)]
    yield _chosen("overlap", given, label, np.asarray(best, int))


def _chosen(name: str, given: Given, label: np.ndarray, index: np.ndarray) -> Baseline:
    return of_predictions(name, given.rows, {"right": (index == label).astype(np.float32), "index": index})


def _nearest(text: str, endings: list[str], rarity: Rarity) -> int:
    """The place of the ending of which the text has most, by what each word says; the first of equal ones."""
    seen = set(words(text))

    def fraction(ending: str) -> float:
        found = set(words(ending))
        return sum(map(rarity, sorted(found & seen))) / max(1e-9, sum(map(rarity, sorted(found))))

    return int(np.argmax([fraction(ending) for ending in endings])) if endings else 0
