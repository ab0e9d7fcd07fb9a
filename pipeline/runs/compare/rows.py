"""What runs answered to the same evaluation examples: how much better or worse, how sure that is, and which answers
flipped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any, NamedTuple

from bertline.components.evaluator.predictions import outcomes
from bertline.components.evaluator.predictions.rows import FILE_NAME, EvaluationPredictions, Texts, shared
from bertline.components.evaluator.predictions.scores import LEVEL, bootstrap, enough_draws
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.runs.store import Run, RunStore

_PATH = f"evaluation/{FILE_NAME}"
_MAX_SLICES = 50  # with intervals


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
    """A row that one run answers otherwise than the reference."""

    texts: Texts
    label: str
    reference: str
    """What the reference answered."""
    answer: str
    became: str
    """`right` or `wrong`; `better` or `worse` where answers are not right or wrong."""

    @property
    def text(self) -> str:
        """All texts of the row in one."""
        return " | ".join(" / ".join(text) if isinstance(text, list) else text for text in self.texts.values())


@dataclass(frozen=True, kw_only=True)
class ComparedExamples:
    shared: tuple[Shared | None, ...]
    flips: tuple[tuple[Flip, ...], ...]
    by_slice: tuple[Mapping[str | None, Mapping[str, Change]], ...]
    """Of each run: slice -> metric -> change; None stands for all rows."""
    better: Mapping[str, str]
    """Whether `higher` or `lower` is better, of each metric of the reference."""
    notes: tuple[str, ...] = ()
    level: float = LEVEL

    def changes(self, name: str | None) -> list[Mapping[str, Change]]:
        return [found.get(name, {}) for found in self.by_slice]


def compare_examples(store: RunStore, runs: Sequence[Run]) -> ComparedExamples:
    """Every run against the first, as far as the rows of both are kept."""
    reference, *others = [_read(store, run) for run in runs]
    found = [_Pair(reference, other, runs[0], run) for run, other in zip(runs[1:], others, strict=True)]
    problems = [reference] if isinstance(reference, str) else [pair.problem for pair in found if pair.problem]
    metrics = {} if isinstance(reference, str) else reference.description.metrics
    return ComparedExamples(
        shared=(None, *(pair.shared for pair in found)),
        flips=((), *(tuple(pair.flips()) for pair in found)),
        by_slice=({}, *(pair.changes() for pair in found)),
        better={name: metric.better for name, metric in metrics.items()},
        notes=tuple(problems),
    )


def _read(store: RunStore, run: Run) -> EvaluationPredictions | str:
    """The rows of a run, or a sentence that says why there are none."""
    path = store.file(run.run_id, _PATH)
    if path is None:
        return (
            f"the evaluation examples of the run {run.short_id} are not recorded, so nothing says how sure its differences"
            " are."
        )
    try:
        return EvaluationPredictions.read(path)
    except (BertlineError, ValueError, KeyError, OSError):
        return (
            f"the evaluation examples of the run {run.short_id} ({_PATH}) cannot be read; its differences have no"
            " intervals."
        )


class _Pair:
    """The rows of two runs; empty where they cannot be compared, which `problem` then says."""

    def __init__(
        self, one: EvaluationPredictions | str, other: EvaluationPredictions | str, reference: Run, run: Run
    ) -> None:
        self.problem: str | None = None
        self.shared: Shared | None = None
        self._rows: tuple[EvaluationPredictions, EvaluationPredictions] | None = None
        if isinstance(one, str) or isinstance(other, str):
            self.problem = other if isinstance(other, str) else None
            return
        tasks = one.description.task, other.description.task
        if tasks[0] != tasks[1]:
            self.problem = (
                f"the run {run.short_id} has the task {tasks[1]} and {reference.short_id} the task {tasks[0]}:"
                " their predictions cannot be compared example by example."
            )
            return
        both = shared(one, other)
        self.shared = Shared(len(both[0]), len(one), len(other))
        if not self.shared.rows:
            self.problem = (
                f"the runs {reference.short_id} and {run.short_id} have no evaluation example in common: their"
                " differences may come from the examples, and have no intervals."
            )
            return
        self._rows = both

    def changes(self) -> dict[str | None, dict[str, Change]]:
        if self._rows is None:
            return {}
        one, other = self._rows
        found: dict[str | None, dict[str, Change]] = {None: _changes(one, other)}
        largest = sorted(other.slices.items(), key=lambda item: -len(item[1]))[:_MAX_SLICES]
        for name, places in largest:
            found[name] = _changes(one.take(places), other.take(places))
        return found

    def flips(self) -> Iterator[Flip]:
        """What became worse and what became better in turn, those that changed most first."""
        if self._rows is None:
            return
        try:
            worse, better = outcomes.flips(*self._rows)
        except BertlineError as error:  # a task that came to be after it
            self.problem = str(error)
            return
        for flip in chain.from_iterable(zip_longest(worse, better)):
            if flip is not None:
                yield Flip(flip.texts, flip.before.expected, flip.before.answered, flip.after.answered, _became(flip))


def _became(flip: Any) -> str:
    if flip.before.right is None or flip.after.right is None:
        return "worse" if flip.after.badness > flip.before.badness else "better"
    return "right" if flip.after.right else "wrong"


def _changes(one: EvaluationPredictions, other: EvaluationPredictions) -> dict[str, Change]:
    spreads = bootstrap(one, other, draws=enough_draws(len(one)), level=LEVEL)
    return {
        name: Change(spread.one.value, spread.other.value, *spread.difference)
        for name, spread in spreads.items()
        if spread.other and spread.difference
    }
