"""What baselines are given: the raw Examples of both splits, as Ingest wrote them, beside the model's own rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from bertline.components.evaluator.predictions.rows import EvaluationPredictions, as_text, row_ids
from bertline.models.data.example_parsing import read_records
from bertline.models.tasks.base.task import Raw
from bertline.pipeline.config import CHOICES

MAX_EXAMPLES = 20_000
"""Examples of a split that are read: the first ones, which are a sample, because Ingest has shuffled them by a hash."""

MIN_EXAMPLES = 50
"""On fewer evaluation examples baselines are shown, and nothing is decided because of them."""
MAX_CELLS = 1_500_000
"""Training examples times classes: of many classes fewer examples are learned from, so that it takes seconds."""


@dataclass(frozen=True)
class Examples:
    """Raw Examples: of each the values of its features."""

    features: Sequence[Mapping[str, Sequence[Any]]]

    def __len__(self) -> int:
        return len(self.features)

    def first(self, limit: int) -> Examples:
        return Examples(self.features[:limit])

    def texts(self, key: str) -> list[str]:
        """One text each, empty where there is none."""
        return [as_text(one[key][0]) if one[key] else "" for one in self.features]

    def lists(self, key: str) -> list[list[str]]:
        return [[as_text(value) for value in one[key]] for one in self.features]

    def numbers(self, key: str) -> np.ndarray:
        """One number each, NaN where there is none."""
        return np.asarray([float(one[key][0]) if one[key] else np.nan for one in self.features])


@dataclass(frozen=True)
class Given:
    """Everything that the baselines of a task may look at."""

    train: Examples
    evaluation: Examples
    rows: EvaluationPredictions
    """The evaluation examples, in the same order, with their labels and the model's predictions."""

    @property
    def labels(self) -> tuple[str, ...]:
        return self.rows.description.labels

    @property
    def fields(self) -> tuple[str, ...]:
        """The features that are one text each."""
        return tuple(key for key in self.rows.description.text_keys if key != CHOICES)

    def texts(self, examples: Examples) -> list[list[str]]:
        """Field by field."""
        return [examples.texts(key) for key in self.fields]


def read_examples(patterns: Sequence[str], raw: Mapping[str, Raw], limit: int = MAX_EXAMPLES) -> Examples:
    """The first examples of gzipped TFRecord files.

    Args:
      patterns: globs of the files.
      raw: the features that are kept.
    """
    files = [path for pattern in patterns for path in tf.io.gfile.glob(pattern)]
    return Examples([_values(record, raw) for record in read_records(files, limit)] if files else [])


def _values(record: bytes, raw: Mapping[str, Raw]) -> dict[str, Sequence[Any]]:
    features = tf.train.Example.FromString(record).features.feature
    found: dict[str, Sequence[Any]] = dict.fromkeys(raw, ())
    for name in raw:
        if name in features:
            kind = features[name].WhichOneof("kind")
            found[name] = getattr(features[name], kind).value[:] if kind else ()
    return found


def ids_of(examples: Examples, raw: Mapping[str, Raw]) -> list[str]:
    """What the model's rows of them are called; equal examples have the same."""
    return row_ids({name: [one[name] for one in examples.features] for name in raw}, raw, len(examples))


def beside(
    examples: Examples, raw: Mapping[str, Raw], rows: EvaluationPredictions
) -> tuple[Examples, EvaluationPredictions]:
    """The examples that the model was asked too, and its rows in their order."""
    places: dict[str, list[int]] = defaultdict(list)
    for place, name in enumerate(rows.ids):
        places[name.partition("-")[0]].append(place)  # equal rows are told apart by a number
    found = [
        (one, places[name].pop(0))
        for one, name in zip(examples.features, ids_of(examples, raw), strict=True)
        if places.get(name)
    ]
    return Examples([one for one, _ in found]), rows.take([place for _, place in found])


def most_examples(classes: int) -> int:
    """Training examples that are learned from."""
    return MAX_CELLS // max(1, classes)


def class_ids(examples: Examples, labels: Sequence[str]) -> np.ndarray:
    """The place of each example's class; -1 where it has none of these."""
    known = {name: at for at, name in enumerate(labels)}
    return np.asarray([known.get(name, -1) for name in examples.texts("label")], int)


def labelled(examples: Examples, labels: Sequence[str]) -> tuple[Examples, np.ndarray]:
    """The examples that are learned from, and the ids of their classes."""
    ids = class_ids(examples, labels)
    chosen = np.flatnonzero(ids >= 0)[: most_examples(len(labels))]
    return Examples([examples.features[at] for at in chosen]), ids[chosen]


def flagged(examples: Examples, labels: Sequence[str]) -> tuple[Examples, np.ndarray]:
    """The examples that are learned from, and which of the labels each has: [examples, labels] of 0 and 1."""
    known = {name: at for at, name in enumerate(labels)}
    examples = examples.first(most_examples(len(known)))
    flags = np.zeros((len(examples), len(known)), np.int64)
    for row, names in enumerate(examples.lists("label")):
        flags[row, [known[name] for name in names if name in known]] = 1
    return examples, flags


def numbered(examples: Examples) -> tuple[Examples, np.ndarray]:
    """The examples that have a number, and their numbers."""
    values = examples.numbers("label")
    chosen = np.flatnonzero(np.isfinite(values))
    return Examples([examples.features[at] for at in chosen]), values[chosen]
