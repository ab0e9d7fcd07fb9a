"""The project's own metrics of a baseline's predictions, on the rows of the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bertline.components.evaluator.predictions.rows import EvaluationPredictions, as_column, column_name
from bertline.components.evaluator.predictions.scores import scorer
from bertline.models.decisions.decision import Decision
from bertline.models.decisions.tuning import threshold_of
from bertline.pipeline.core.arrow import pa

Score = Callable[[np.ndarray], dict[str, float]]
"""(how often each row counts) -> metrics."""


@dataclass(frozen=True)
class Baseline:
    """A simple way to answer, and what its answers come to."""

    name: str
    score: Score


def of_predictions(name: str, rows: EvaluationPredictions, predictions: Mapping[str, Any]) -> Baseline:
    """A baseline that predicts what the model predicts.

    Args:
      predictions: of each row, by the names of the task's outputs. Metrics of other outputs are left out.
    """
    return Baseline(name, scorer(answered(rows, predictions)))


def answered(rows: EvaluationPredictions, predictions: Mapping[str, Any]) -> EvaluationPredictions:
    """The rows with other predictions in place of the model's: labels and weights stay, so that all are judged alike."""
    table = rows.table
    for output, values in predictions.items():
        column = column_name(output, "prediction")
        found = as_column(values) if isinstance(values, np.ndarray) else pa.array(values)
        table = table.set_column(table.column_names.index(column), column, found)
    own = {
        name: metric for name, metric in rows.description.metrics.items() if metric.tfma and metric.output in predictions
    }
    kept = [name for name, metric in rows.description.metrics.items() if name in own or metric.of in own]
    return _measured_by(EvaluationPredictions(table, rows.description).deciding(_decision(rows, predictions)), kept)


def _decision(rows: EvaluationPredictions, predictions: Mapping[str, Any]) -> Decision:
    """A threshold is chosen for a baseline where one was for the model, on the same examples: all are judged alike."""
    of_model = rows.description.decision
    decision = Decision(positive=of_model.positive)
    if of_model.threshold is None or "" not in predictions:
        return decision
    kept = rows.weight() > 0
    return replace(decision, threshold=threshold_of(predictions[""][kept], rows.label()[kept], of_model.positive))


def only(rows: EvaluationPredictions, metric: str) -> EvaluationPredictions:
    """The same rows, measured by one metric and by what it follows from."""
    return _measured_by(rows, [rows.description.metrics[metric].of, metric])


def _measured_by(rows: EvaluationPredictions, names: Sequence[str]) -> EvaluationPredictions:
    metrics = {name: rows.description.metrics[name] for name in names if name}
    return EvaluationPredictions(rows.table, replace(rows.description, metrics=metrics))
