"""What runs answered to the same held-out rows: how much better or worse, how sure that is, and which answers flipped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from components.verdict import Verdict
from pipeline.run_store import Run, RunStore

LEVEL = 0.95


class Change(NamedTuple):
    """A metric of two runs, both on the rows that they share."""

    reference: float
    value: float
    difference: float
    low: float
    """The interval of the difference."""
    high: float

    @property
    def is_clear(self) -> bool:
        """Whether the interval leaves out that nothing changed."""
        return self.low > 0 or self.high < 0


class Shared(NamedTuple):
    rows: int
    of_reference: int
    of_run: int


class Flip(NamedTuple):
    """A row that one run answers rightly and the other wrongly."""

    text: str
    label: str
    reference: str
    """What the reference answered."""
    answer: str
    became: str
    """`right` or `wrong`."""


@dataclass(frozen=True, kw_only=True)
class ComparedRows:
    shared: tuple[Shared | None, ...]
    flips: tuple[tuple[Flip, ...], ...]
    by_slice: tuple[Mapping[str | None, Mapping[str, Change]], ...]
    """Of each run: slice -> metric -> change; None stands for all rows."""
    notes: tuple[str, ...] = ()
    level: float = LEVEL

    def changes(self, name: str | None) -> list[Mapping[str, Change]]:
        return [found.get(name, {}) for found in self.by_slice]


def compare_rows(store: RunStore, runs: Sequence[Run], verdicts: Sequence[Verdict | None]) -> ComparedRows:
    none = tuple(() for _ in runs)
    return ComparedRows(shared=tuple(None for _ in runs), flips=none, by_slice=tuple({} for _ in runs))
