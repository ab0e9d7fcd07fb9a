"""What is trained on: what its classes weigh, which of two is looked for, and the phases of a pre-training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import tensorflow as tf

from bertline.models.data import batching
from bertline.models.data.class_balance import class_counts, class_weights
from bertline.models.data.sequence_packing import pack_rows
from bertline.models.decisions.positive_class import Positive, choose_positive
from bertline.models.tasks.base.task import Task
from bertline.models.tasks.graphs.pretraining import PHASE
from bertline.models.training import loop as training
from bertline.pipeline.config import PhaseConfig, PretrainingConfig, TextConfig, TrainingConfig
from bertline.pipeline.core import events

_SHOWN = 20
"""Classes whose weights are shown."""


def positive_of(task: Task, rows: batching.Corpus, labels: Sequence[str], given: str | None) -> Positive | None:
    """The positive class of a task that answers one of two; none of any other."""
    if not any(metric.classes == 2 for metric in task.evaluation.metrics.values()):
        return None
    return choose_positive(labels, counts_of(task, rows, labels).tolist(), given)


def counts_of(task: Task, rows: batching.Corpus, labels: Sequence[str]) -> np.ndarray:
    """Training examples of each class."""
    return class_counts({**rows.targets, **rows.others}[str(task.objective.class_key)], len(labels))


def with_class_weights(
    task: Task, rows: batching.Corpus, setting: Literal["balanced"] | Mapping[str, float], labels: Sequence[str]
) -> batching.Corpus:
    """The rows, with what each class weighs in the loss."""
    apply_class_weights, prepare = task.objective.class_weights, rows.prepare
    counts = counts_of(task, rows, labels)
    weights = class_weights(setting, counts, labels)
    shown = ", ".join(f"{label} {weight:.3g}" for label, weight in list(zip(labels, weights, strict=True))[:_SHOWN])
    events.emit(events.Note(f"class weights: {shown}{', …' if len(labels) > _SHOWN else ''}"))

    def prepared(batch: dict[str, tf.Tensor], seed: tf.Tensor) -> dict[str, tf.Tensor]:
        return apply_class_weights(prepare(batch, seed) if prepare else batch, tf.constant(weights, tf.float32))  # type: ignore[misc]

    return replace(rows, prepare=prepared)


def phases_of(
    rows: batching.Corpus, settings: TrainingConfig, text: TextConfig, pretraining: PretrainingConfig
) -> list[training.Phase]:
    """The rows of each phase of a pre-training, packed if the config says so; any other task has one phase."""
    if PHASE not in rows.targets:
        return [training.Phase(rows, settings)]
    single = PhaseConfig(seq_len=text.seq_len, epochs=settings.epochs, batch_size=settings.batch_size)
    phases = []
    for number, phase in enumerate(pretraining.phases or [single]):
        chosen = rows.where(rows.targets[PHASE] == number)
        if pretraining.pack:
            packed = pack_rows(chosen, phase.seq_len)
            events.emit(
                events.Note(
                    f"{len(chosen):,} examples of up to {phase.seq_len} tokens packed into {len(packed):,} sequences"
                )
            )
            chosen = packed
        phases.append(training.Phase(chosen, settings.model_copy(update=phase.model_dump(exclude={"seq_len"}))))
    return phases
