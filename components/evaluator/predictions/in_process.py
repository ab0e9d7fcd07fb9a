"""Evaluation examples of a model that is asked in this process, without Beam and TFMA, for looks that are taken many
times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from bertline.components.evaluator.predictions.rows import ID, Description, EvaluationPredictions, as_column, column_name
from bertline.models.decisions.decision import LIKELIEST, Decision
from bertline.models.tasks.base.task import Task
from bertline.pipeline.core.arrow import pa


def asked_rows(
    task: Task, labels: Sequence[str], batches: Iterable[Mapping[str, np.ndarray]], decision: Decision = LIKELIEST
) -> EvaluationPredictions:
    """What a model has answered to rows, from which every metric follows; a row's id is its number.

    Args:
      batches: of each batch the tensors of both of the evaluator's signatures, by their names.
      decision: how the model decides.
    """
    described = Description.of(task, labels, (), decision)
    measured = {metric.output for metric in described.metrics.values() if metric.tfma}
    described = replace(
        described, outputs={name: task.evaluation.outputs[name] for name in task.evaluation.outputs if name in measured}
    )
    wanted = {
        column_name(name, what): getattr(output, what)
        for name, output in described.outputs.items()
        for what in ("label", "prediction", "weight")
    }
    parts = [{column: as_column(batch[tensor]) for column, tensor in wanted.items()} for batch in batches]
    columns = {column: pa.chunked_array([part[column] for part in parts]) for column in wanted}
    ids = [f"{number:08d}" for number in range(len(next(iter(columns.values()))))]
    return EvaluationPredictions(pa.table({ID: ids, **columns}), described)
