"""Runs as the line records them in MLflow, written straight to a real store: small, and as odd as a test wants them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mlflow.entities import Metric, Param
from mlflow.tracking import MlflowClient

from components.verdict import Verdict

PARAMS = {"name": "reviews", "task": "classification", "evaluation.thresholds.accuracy": "0.8", "training.epochs": "2"}
BEGIN = 1_760_000_000_000  # milliseconds, of the first run


class Record:
    """A workspace with a store of its own."""

    def __init__(self, workspace: Path) -> None:
        self.workspace = workspace
        workspace.mkdir(parents=True, exist_ok=True)
        self.uri = f"sqlite:///{workspace}/mlflow.db"
        self.client = MlflowClient(self.uri)
        self.experiment = self.client.create_experiment("runs", (workspace / "mlflow-artifacts").as_uri())
        self._runs = 0

    def run(
        self,
        name: str,
        *,
        params: Mapping[str, Any] | None = None,
        verdict: Verdict | None = None,
        curves: Mapping[str, Sequence[float]] | None = None,
        tags: Mapping[str, str] | None = None,
        files: Sequence[tuple[Path, str]] = (),
        status: str = "FINISHED",
    ) -> str:
        """Records a run that began a minute after the one before, and gives its id."""
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
        told = {"pipeline": "reviews", "status": words[status], **blessed, **(tags or {})}
        for key, value in told.items():
            client.set_tag(run_id, key, value)
        for path, folder in files:
            client.log_artifact(run_id, str(path), folder)
        client.set_terminated(run_id, status, began + 30_000)
        return run_id


def verdict(accuracy: float, *, slices: Mapping[str, float] | None = None, blessed: bool = True, **more: Any) -> Verdict:
    rows = 200
    right = round(rows * accuracy) if math.isfinite(accuracy) else 0
    half = rows // 2
    return Verdict(
        blessed=blessed,
        reasons=[],
        metrics={"accuracy": accuracy, "cross_entropy": 1 - accuracy, "rows": rows, **more},
        slices={name: {"accuracy": value, "rows": 50} for name, value in (slices or {}).items()},
        confusion=[[right - right // 2, half - (right - right // 2)], [half - right // 2, right // 2]],
        labels=["bad", "good"],
    )


def falling(begin: float, end: float, steps: int = 60) -> list[float]:
    """A loss as trainings have it."""
    return [end + (begin - end) * math.exp(-3 * step / steps) * (1 + 0.1 * math.sin(step)) for step in range(steps)]


def summary(workspace: Path, **values: Any) -> None:
    (workspace / "summary.json").write_text(json.dumps(values))
