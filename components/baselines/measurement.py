"""Which baselines a task has, and what they come to on the evaluation examples of a model."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from bertline.components.baselines.data import MAX_EXAMPLES, Examples, Given, beside, most_examples, read_examples
from bertline.components.baselines.probe import probe
from bertline.components.baselines.scores import Baseline
from bertline.components.evaluator.predictions.rows import EvaluationPredictions
from bertline.models.tasks.base.task import Raw, Task, raw_features


@dataclass(frozen=True)
class Measured:
    """What the baselines of a task came to."""

    baselines: tuple[Baseline, ...] = ()
    metrics: dict[str, dict[str, float]] = field(default_factory=dict)
    """Baseline -> its metrics, those with a threshold first; what is no number is left out."""
    rows: EvaluationPredictions | None = None
    """The model's own rows that they were measured on; None where nothing was measured."""
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    """On how many examples they were measured, in sentences."""


def measure_baselines(
    task: Task,
    rows: EvaluationPredictions,
    text_keys: Sequence[str],
    *,
    train: Sequence[str],
    evaluation: Sequence[str],
    first: Sequence[str] = (),
    probed: str = "",
) -> Measured:
    """Learns the baselines of a task from the raw training Examples, and asks them what the model was asked.

    Args:
      rows: the evaluation examples with the model's predictions, as the Evaluator has kept them.
      text_keys: the raw features with the texts of an Example.
      train, evaluation: globs of the raw Examples of both splits.
      first: metrics that stand before the others.
      probed: the file with what the Trainer's probe predicts, where it has left one.
    """
    of_task = task.evaluation.baselines
    if of_task is None:
        return Measured(notes=(f"The task {task.name} has no simple baseline.",))
    began = time.perf_counter()
    raw = raw_features(task, text_keys)
    given = _given(raw, rows, train, evaluation)
    if not len(given.train) or not len(given.evaluation):
        return Measured(notes=("There are no raw examples to measure baselines on.",))
    every = np.ones(len(given.rows), np.int64)
    baselines = (*of_task(given), *(probe(given, probed) if probed else ()))
    metrics = {baseline.name: _ordered(baseline.score(every), first) for baseline in baselines}
    seconds = round(time.perf_counter() - began, 2)
    notes = tuple(_notes(task, given, len(rows)))
    return Measured(baselines, {name: found for name, found in metrics.items() if found}, given.rows, seconds, notes)


def _given(raw: Mapping[str, Raw], rows: EvaluationPredictions, train: Sequence[str], evaluation: Sequence[str]) -> Given:
    examples, kept = beside(read_examples(evaluation, raw), raw, rows)
    return Given(read_examples(train, raw), examples, kept)


def _ordered(metrics: Mapping[str, float], first: Sequence[str]) -> dict[str, float]:
    known = {name: float(value) for name, value in metrics.items() if np.isfinite(value)}
    return {name: known[name] for name in (*(name for name in first if name in known), *known)}


def _notes(task: Task, given: Given, rows: int) -> Iterator[str]:
    learned: Examples = given.train
    classes = len(given.labels) if task.serving.decides else 0
    count = min(len(learned), most_examples(classes)) if classes else len(learned)
    if count >= MAX_EXAMPLES or count < len(learned):
        yield f"Baselines learn from the first {count:,} training examples, as shuffled by Ingest."
    if len(given.rows) < rows:
        yield f"Baselines are measured on the first {len(given.rows):,} of {rows:,} evaluation examples, shuffled as well."
