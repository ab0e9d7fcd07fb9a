"""Runs as the pipeline records them in MLflow, written straight to a real store: small, and as odd as a test wants them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from mlflow.entities import Metric, Param
from mlflow.tracking import MlflowClient

from bertline.components.evaluator.predictions.rows import FILE_NAME, ID, SLICES, Description, EvaluationPredictions
from bertline.components.evaluator.predictions.scores import scores
from bertline.components.evaluator.verdict import Verdict
from bertline.models.tasks.base.task import Metric as TaskMetric
from bertline.models.tasks.base.task import Output

PARAMS = {"name": "reviews", "task": "classification", "evaluation.thresholds.accuracy": "0.8", "training.epochs": "2"}
BEGIN = 1_760_000_000_000  # milliseconds, of the first run


class Record:
    """A workspace with a store of its own, or with the one of a server."""

    def __init__(self, workspace: Path, uri: str | None = None) -> None:
        self.workspace = workspace
        workspace.mkdir(parents=True, exist_ok=True)
        self.uri = uri or f"sqlite:///{workspace}/mlflow.db"
        self.client = MlflowClient(self.uri)
        files = None if uri else (workspace / "mlflow-artifacts").as_uri()
        self.experiment = self.client.create_experiment("runs", files)
        self._runs = 0

    def run(
        self,
        name: str,
        *,
        params: Mapping[str, Any] | None = None,
        verdict: Verdict | None = None,
        curves: Mapping[str, Sequence[float]] | None = None,
        tags: Mapping[str, str] | None = None,
        rows: EvaluationPredictions | None = None,
        files: Mapping[str, str] | None = None,
        status: str = "FINISHED",
    ) -> str:
        """Records a run that began a minute after the one before, and gives its id; one that is RUNNING does not end."""
        began = BEGIN + 60_000 * self._runs
        self._runs += 1
        client = self.client
        run_id = client.create_run(self.experiment, start_time=began, run_name=name).info.run_id
        given = [Param(key, str(value)) for key, value in {**PARAMS, **(params or {})}.items()]
        for at in range(0, len(given), 100):
            client.log_batch(run_id, params=given[at : at + 100])
        measured = [
            Metric(key, value, began + 1000 * step, step)
            for key, values in (curves or {}).items()
            for step, value in enumerate(values, 1)
        ]
        if verdict:
            measured += [Metric(f"eval/{key}", value, began, 0) for key, value in verdict.metrics.items()]
            client.log_text(run_id, verdict.to_json(), "verdict.json")
        if measured:
            client.log_batch(run_id, metrics=measured)
        blessed = {"blessed": str(verdict.blessed).lower()} if verdict else {}
        words = {"FINISHED": "succeeded", "FAILED": "failed", "KILLED": "interrupted"}
        ended = {"status": words[status]} if status in words else {}
        told = {"pipeline": "reviews", **ended, **blessed, **(tags or {})}
        for key, value in told.items():
            client.set_tag(run_id, key, value)
        if rows:
            path = self.workspace / FILE_NAME
            rows.write(path)
            client.log_artifact(run_id, str(path), "evaluation")
            path.unlink()
        for name, text in (files or {}).items():
            client.log_text(run_id, text, name)
        if ended:
            client.set_terminated(run_id, status, began + 30_000)
        return run_id


LABELS = ("bad", "good")
SOURCES = ("source=web", "source=Zürich <b>")


def answers(
    count: int = 200, *, right: float, seed: int = 0, texts: Mapping[int, str] | None = None, first: int = 0
) -> Any:
    """Evaluation examples of a model that answers so many of them rightly. Rows of equal number are the same in every
    model.

    Args:
      texts: of single rows, by their numbers.
      first: number of the first row.
    """
    chance = np.random.default_rng(seed)
    numbers = np.arange(first, first + count)
    label = numbers % 2
    probabilities = 0.5 + 0.5 * chance.random(count)
    is_right = chance.random(count) < right
    of_label = np.where(is_right, probabilities, 1 - probabilities)
    predictions = np.stack([np.where(label == 0, of_label, 1 - of_label), np.where(label == 1, of_label, 1 - of_label)], 1)
    table = pa.table(
        {
            ID: [f"{number:016x}" for number in numbers],
            "text": [(texts or {}).get(number, f"text {number}") for number in numbers.tolist()],
            "label": label,
            "prediction": predictions.tolist(),
            "weight": np.ones(count, np.float32),
            SLICES: [["0-9 words" if number % 3 else "10+ words", SOURCES[number % 5 == 0]] for number in numbers.tolist()],
        }
    )
    metrics = {
        "accuracy": TaskMetric("SparseCategoricalAccuracy"),
        "matthews": TaskMetric("Matthews"),
        "cross_entropy": TaskMetric("SparseCategoricalCrossentropy", better="lower"),
    }
    outputs = {"": Output("probabilities", "label_id", "label_weight")}
    return EvaluationPredictions(table, Description("classification", LABELS, ("text",), outputs, metrics))


def judged(rows: EvaluationPredictions, *, blessed: bool = True) -> Verdict:
    """What an evaluator says of such rows."""
    confusion = np.zeros((2, 2), int)
    np.add.at(confusion, (rows.label(), rows.prediction().argmax(axis=1)), 1)
    return Verdict(
        blessed=blessed,
        reasons=[],
        metrics={**scores(rows), "rows": len(rows)},
        slices={name: {**scores(rows.take(at)), "rows": len(at)} for name, at in rows.slices.items()},
        confusion=confusion.tolist(),
        labels=list(LABELS),
    )


def falling(begin: float, end: float, steps: int = 60) -> list[float]:
    """A loss as trainings have it."""
    return [end + (begin - end) * math.exp(-3 * step / steps) * (1 + 0.1 * math.sin(step)) for step in range(steps)]


def summary(workspace: Path, **values: Any) -> None:
    (workspace / "summary.json").write_text(json.dumps(values))
