"""Which rows change sides so that every class is split as the whole is.

A hash of each row's text says its side, and for a class with thousands of rows that alone is accurate to a few percent. Of
a class with ten it may hold out none, or all. Here such a class is put right: in the order of the hash, the rows nearest to
the threshold change sides until its fraction is about the wanted one. So the split depends on the set of rows alone, not on
their order, files or workers; more rows move few others; and a split in which every class is right stays as it is.

What must be known for that is found while rows are read, and stays small: of each class its counts, and the few texts on
either side of the threshold.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

TOLERANCE = 0.1
"""How far, relative to the wanted number, the evaluation examples of a class may be off before rows change sides."""
MIN_TEXTS = 3
"""A class with fewer different texts is not split: two are the least to learn from, and one is left to evaluate."""
CANDIDATES = 64
"""Texts of a class on either side that may change it: for 64 to be too few, chance would have to be off by over five
standard deviations."""
MAX_CLASSES = 10_000
"""More are no classes; see `report.MAX_CLASSES`, which stops the run."""


class Candidate(NamedTuple):
    """The rows of a class that have one text."""

    rows: int
    labels: tuple[str, ...]
    """All that they have, if a row has several."""
    digest: int
    """Of the text without case, accents and punctuation, see `duplicates.py`."""


class Nearest:
    """The texts of a class on one side that are nearest to the threshold, by their hash."""

    def __init__(self, *, below: bool) -> None:
        self._sign = -1 if below else 1
        self.kept: dict[int, Candidate] = {}
        self._last: int | None = None
        """The farthest hash of which every row was counted; None as long as nothing was let go."""

    @property
    def is_complete(self) -> bool:
        return self._last is None

    def ordered(self) -> list[int]:
        """Hashes, the nearest to the threshold first."""
        return sorted(self.kept, key=lambda bucket: self._sign * bucket)

    def add(self, bucket: int, candidate: Candidate) -> None:
        before = self.kept.get(bucket)
        if before:
            labels = tuple(dict.fromkeys((*before.labels, *candidate.labels)))
            self.kept[bucket] = Candidate(before.rows + candidate.rows, tuple(sorted(labels)), before.digest)
        elif self._last is None or self._sign * bucket <= self._sign * self._last:
            self.kept[bucket] = candidate
            if len(self.kept) > 2 * CANDIDATES:
                self.trim()

    def merge(self, other: Nearest) -> None:
        for bucket, candidate in other.kept.items():
            self.add(bucket, candidate)
        if other._last is not None and (self._last is None or self._sign * other._last < self._sign * self._last):
            self._last = other._last
            self.kept = {
                bucket: found for bucket, found in self.kept.items() if self._sign * bucket <= self._sign * self._last
            }

    def trim(self) -> None:
        if len(self.kept) > CANDIDATES:
            nearest = self.ordered()[:CANDIDATES]
            self._last = nearest[-1]
            self.kept = {bucket: self.kept[bucket] for bucket in nearest}


@dataclass
class ClassExamples:
    rows: int = 0
    evaluation: int = 0
    train: Nearest = field(default_factory=lambda: Nearest(below=False))
    eval: Nearest = field(default_factory=lambda: Nearest(below=True))

    @property
    def texts(self) -> int | None:
        """How many different ones, near duplicates apart; None of a class that has many."""
        if not (self.train.is_complete and self.eval.is_complete):
            return None
        return len({found.digest for side in (self.train, self.eval) for found in side.kept.values()})


class Moves(NamedTuple):
    """Hashes of the texts that change sides."""

    to_train: frozenset[int] = frozenset()
    to_eval: dict[int, int] = {}
    """With their digests."""
    rare: tuple[str, ...] = ()
    """Classes with too few texts to be split."""

    def side(self, split: str, bucket: int) -> str:
        if split == "eval":
            return "train" if bucket in self.to_train else split
        return "eval" if split == "train" and bucket in self.to_eval else split


class Strata:
    """What one reader of raw rows has seen of each class, or all of them together."""

    def __init__(self) -> None:
        self._classes: dict[str, ClassExamples] = {}

    def add(self, labels: Iterable[str], split: str, bucket: int, digest: int) -> None:
        """Args: bucket: the hash that has said the side."""
        names = tuple(sorted(set(labels)))
        for name in names:
            if found := self._class(name):
                found.rows += 1
                found.evaluation += split == "eval"
                (found.eval if split == "eval" else found.train).add(bucket, Candidate(1, names, digest))

    def merge(self, other: Strata) -> None:
        for name, theirs in other._classes.items():
            if found := self._class(name):
                found.rows += theirs.rows
                found.evaluation += theirs.evaluation
                found.train.merge(theirs.train)
                found.eval.merge(theirs.eval)

    def _class(self, name: str) -> ClassExamples | None:
        if name not in self._classes and len(self._classes) <= MAX_CLASSES:
            self._classes[name] = ClassExamples()
        return self._classes.get(name)

    def moves(self, fraction: float) -> Moves:
        """Rarest classes first: where a row has several, the rarer one is harder to put right afterwards."""
        classes = self._classes
        for each in classes.values():
            each.train.trim()
            each.eval.trim()
        evaluation = {name: each.evaluation for name, each in classes.items()}
        to_train: set[int] = set()
        to_eval: dict[int, int] = {}
        settled: set[int] = set()
        rare = []
        for name in sorted(classes, key=lambda name: (classes[name].rows, name)):
            each = classes[name]
            least, most = _wanted(each, fraction)
            if not most:
                rare.append(name)
                settled.update(each.train.kept)
            for bucket in each.eval.ordered():
                if evaluation[name] > most and bucket not in settled:
                    to_train.add(bucket)
                    for label in each.eval.kept[bucket].labels:
                        evaluation[label] -= each.eval.kept[bucket].rows
            settled.update(to_train)
            for bucket in each.train.ordered():
                found = each.train.kept[bucket]
                leaves_some = all(classes[label].rows - evaluation[label] > found.rows for label in found.labels)
                if evaluation[name] < least and leaves_some and bucket not in settled:
                    to_eval[bucket] = found.digest
                    for label in found.labels:
                        evaluation[label] += found.rows
            settled.update(to_eval)
        for each in classes.values():
            _leave_some(each, to_train, to_eval)
        return Moves(frozenset(to_train), to_eval, tuple(sorted(rare)))


def _leave_some(found: ClassExamples, to_train: set[int], to_eval: dict[int, int]) -> None:
    """Rows of one text with different labels change sides together: what was moved for one class must not take the last
    training rows of another."""
    train, evaluation = found.train.ordered(), found.eval.ordered()
    if found.texts is None or set(train) - set(to_eval) or set(evaluation) & to_train:
        return
    for bucket in train[-1:]:
        del to_eval[bucket]
    if not train:
        to_train.update(evaluation[:1])


def _wanted(found: ClassExamples, fraction: float) -> tuple[int, int]:
    """The least and the most evaluation examples of a class; none of one that is too rare to be split."""
    texts = found.texts
    if texts is not None and texts < MIN_TEXTS:
        return 0, 0
    wanted = fraction * found.rows
    nearest = max(1, math.floor(wanted + 0.5))  # of few rows, no whole number may be within the tolerance
    least = max(1, min(nearest, math.ceil(wanted * (1 - TOLERANCE))))
    most = max(nearest, math.floor(wanted * (1 + TOLERANCE)))
    if texts is not None:  # so that near duplicates, which are left out of training, leave it some
        most = min(most, texts - 1)
    return min(least, most), most
