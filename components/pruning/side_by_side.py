"""Two exported models beside each other: what they take, how fast they answer, and how good their answers are.

Both are asked the same rows in turns, so that a noisy neighbour hits both.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  the ops inside the models

from bertline.components.evaluator.predictions.in_process import asked_rows
from bertline.components.evaluator.predictions.scores import Spread, bootstrap
from bertline.models.adapters.head_importance import Progress, no_progress
from bertline.models.decisions.decision import Decision
from bertline.models.tasks.base.task import Task
from bertline.serving.contract import EXAMPLES_SIGNATURE, TARGETS_SIGNATURE, folder_bytes, read_metadata

_ROWS_AT_ONCE = 32


@dataclass(frozen=True, kw_only=True)
class SideBySide:
    """Of each pair, the first model's and the other's."""

    parameters: tuple[int, int]
    bytes: tuple[int, int]
    """Of all files."""
    rows_per_second: tuple[float, float]
    metrics: dict[str, Spread]

    @property
    def speed(self) -> float:
        """How many times as fast the other is."""
        return self.rows_per_second[1] / self.rows_per_second[0]


def side_by_side(
    one: str | Path,
    other: str | Path,
    task: Task,
    labels: Sequence[str],
    records: Sequence[bytes],
    *,
    rounds: int = 1,
    progress: Progress = no_progress,
) -> SideBySide:
    """Asks two models that answer alike.

    Args:
      task: as it is learned; its metrics are measured.
      records: evaluation examples: serialized Examples, as Ingest writes them.
      rounds: how often they are asked everything; more make the speed surer.
    """
    folders = (Path(one), Path(other))
    models = [tf.saved_model.load(str(folder)) for folder in folders]
    asked = [model.signatures[EXAMPLES_SIGNATURE] for model in models]
    ordered = sorted(records, key=len)  # about by the lengths of their texts, so that little is padding
    batches = [tf.constant(ordered[begin : begin + _ROWS_AT_ONCE]) for begin in range(0, len(ordered), _ROWS_AT_ONCE)]
    for ask in asked:  # to warm up
        ask(examples=batches[0])
    seconds = np.zeros(2)
    answers: tuple[list[Mapping[str, Any]], ...] = ([], [])
    for turn in range(rounds * len(batches)):
        batch = batches[turn % len(batches)]
        for which in (0, 1) if turn % 2 else (1, 0):
            began = time.perf_counter()
            given = {name: value.numpy() for name, value in asked[which](examples=batch).items()}
            seconds[which] += time.perf_counter() - began
            if turn < len(batches):
                targets = models[which].signatures[TARGETS_SIGNATURE](examples=batch)
                answers[which].append({**given, **{name: value.numpy() for name, value in targets.items()}})
        progress(turn + 1, rounds * len(batches))
    speeds = rounds * len(records) / seconds
    decisions = [Decision.of_metadata(read_metadata(folder)) for folder in folders]
    rows = [asked_rows(task, labels, found, decision) for found, decision in zip(answers, decisions, strict=True)]
    return SideBySide(
        parameters=(parameters_of(folders[0]), parameters_of(folders[1])),
        bytes=(folder_bytes(folders[0]), folder_bytes(folders[1])),
        rows_per_second=(float(speeds[0]), float(speeds[1])),
        metrics=bootstrap(*rows),
    )


def parameters_of(folder: Path) -> int:
    """Numbers that a model has learned: whole ones are the states of its dropout."""
    reader = tf.train.load_checkpoint(str(folder / "variables" / "variables"))
    types = reader.get_variable_to_dtype_map()
    shapes = reader.get_variable_to_shape_map()
    return sum(int(np.prod(shape)) for name, shape in shapes.items() if types[name].is_floating)
