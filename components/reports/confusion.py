"""Which classes a model takes for each other."""

from __future__ import annotations

from typing import Any, NamedTuple

from bertline.components.evaluator.verdict import Verdict
from bertline.components.reports.page import short
from bertline.pipeline.config import Frozen

MAX_CLASSES = 40
"""A matrix of more is not readable."""


class Confusion(Frozen):
    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]
    """Rows of each true class (first index) by predicted class."""

    @classmethod
    def of(cls, verdict: Verdict) -> Confusion | None:
        """None where the answers of the task are no classes."""
        return cls(labels=tuple(verdict.labels), counts=verdict.confusion) if verdict.confusion else None  # type: ignore[arg-type]


class Mixed(NamedTuple):
    """Rows of a class that were taken for another one."""

    true: str
    answered: str
    rows: int
    share: float
    """Of the rows of the true class."""


def most_mixed(found: Confusion, limit: int) -> list[Mixed]:
    """The pairs of classes that are taken for each other most often.

    >>> most_mixed(Confusion(labels=("a", "b"), counts=((3, 1), (0, 4))), 5)
    [Mixed(true='a', answered='b', rows=1, share=0.25)]
    """
    mixed = [
        Mixed(found.labels[true], found.labels[answered], count, count / sum(counts))
        for true, counts in enumerate(found.counts)
        for answered, count in enumerate(counts)
        if count and true != answered
    ]
    return sorted(mixed, key=lambda pair: -pair.rows)[:limit]


def majority(found: Confusion) -> tuple[str, float] | None:
    """The most frequent true class, and what always answering it would reach; None without a row."""
    rows = [sum(counts) for counts in found.counts]
    if not any(rows):
        return None
    at = max(range(len(rows)), key=lambda place: rows[place])
    return found.labels[at], rows[at] / sum(rows)


def matrix(found: Confusion) -> dict[str, Any] | None:
    """As `parts.html` shows it; None for too many classes."""
    if len(found.labels) > MAX_CLASSES:
        return None
    rows = [
        {"label": label, "cells": [{"count": count, "share": round(count / max(1, sum(counts)), 3)} for count in counts]}
        for label, counts in zip(found.labels, found.counts, strict=True)
    ]
    return {"labels": [short(label) for label in found.labels], "rows": rows}
