"""What is decided about rows once all are read: which change sides, and which training rows are left out as duplicates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import apache_beam as beam
import numpy as np

from bertline.components.ingest.duplicates import Digests, digest_of, looks_for_duplicates
from bertline.components.ingest.readers.records import Row
from bertline.components.ingest.rows import TEST, KeptExample, hash_of, split_key
from bertline.components.ingest.strata import Moves, Strata
from bertline.pipeline.config import DataConfig, LabelKind

_CLASSES = ("class", "classes", "tags")
"""Kinds of labels whose classes a split can keep apart."""


def is_stratified(data: DataConfig, label: LabelKind) -> bool:
    """Only a split by the hash of single rows: one that the user gives, by files, a column or groups, stays as it is."""
    split = data.split
    by_hash = data.path is not None and split.column is None and split.group is None
    return split.stratify and by_hash and data.label is not None and label in _CLASSES


@dataclass
class Seen:
    """What readers have seen of the rows as a whole; bounded, whatever the number of rows."""

    strata: Strata = field(default_factory=Strata)
    digests: Digests = field(default_factory=Digests)

    def add(self, row: Row, kept: KeptExample, data: DataConfig, label: LabelKind, lists: Sequence[str]) -> tuple[int, int]:
        """Takes note of a row; returns the hash that has said its side, and the digest of its text."""
        stratified = is_stratified(data, label) and kept.split != TEST
        compared = looks_for_duplicates(data, lists)
        bucket = hash_of(split_key(row, data)) if stratified else 0
        digest = digest_of(kept.features) if stratified or compared else 0
        if stratified:
            self.strata.add(kept.labels, kept.split, bucket, digest)
        if compared:
            self.digests.add(kept, digest, bucket)
        return bucket, digest

    def merge(self, other: Seen) -> None:
        self.strata.merge(other.strata)
        self.digests.merge(other.digests)


class Plan(NamedTuple):
    moves: Moves
    evaluation: np.ndarray
    """[digests] uint64, sorted: texts of evaluation and test examples, which no training example may have."""
    conflicts: int
    """Texts that have different labels."""
    too_many: bool
    """Whether there are too many evaluation examples for duplicates to be looked for."""
    tested: int
    """Texts of evaluation examples that are test examples, too."""

    @classmethod
    def of(cls, seen: Seen, fraction: float) -> Plan:
        moves = seen.strata.moves(fraction)
        digests = seen.digests
        evaluation = digests.evaluation(moves.to_train, list(moves.to_eval.values()))
        in_test = digests.in_test()
        tested = len(np.intersect1d(evaluation, in_test))
        return cls(moves, np.union1d(evaluation, in_test), digests.conflicts(), digests.are_too_many, tested)


class MakePlan(beam.CombineFn):
    def __init__(self, fraction: float) -> None:
        self._fraction = fraction

    def create_accumulator(self) -> Seen:
        return Seen()

    def add_input(self, total: Seen, seen: Seen) -> Seen:
        total.merge(seen)
        return total

    def merge_accumulators(self, parts: Iterable[Seen]) -> Seen:
        total = Seen()
        for seen in parts:
            total.merge(seen)
        return total

    def extract_output(self, total: Seen) -> Plan:
        return Plan.of(total, self._fraction)
