"""Runs that are recorded without a pipeline: a config, events as the pipeline tells them, and MLflow's own view of the
result."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

from mlflow import MlflowClient

from bertline.components.evaluator.verdict import Verdict
from bertline.components.tracking.backend.store import quiet
from bertline.components.tracking.sync import send_all
from bertline.components.tracking.tracker import Tracker
from bertline.models.training.loop import EpochRecord, StepRecord
from bertline.pipeline.config import Config
from bertline.pipeline.core import events
from bertline.pipeline.settings.loader import load

VERDICT = Verdict(
    blessed=True,
    reasons=[],
    metrics={"accuracy": 0.9},
    slices={"naïve=☕ +": {"accuracy": math.nan}},
    confusion=[[3, 1], [0, 4]],
    labels=["no", "yes"],
    baselines={"tf-idf": {"accuracy": 0.7}},
    test={"accuracy": {"value": 0.8, "low": 0.75, "high": 0.85}},
    test_rows=40,
)


def evaluation(folder: Path) -> dict[str, str]:
    """What the Evaluator leaves behind, as the tracker is told of it."""
    folder.mkdir()
    (folder / "verdict.json").write_text(VERDICT.to_json())
    return {"evaluation": str(folder)}


def make_store(folder: Path) -> Path:
    """An sqlite store without runs. MLflow takes seconds to make one, so tests copy this one."""
    quiet()
    path = folder / "empty.db"
    MlflowClient(f"sqlite:///{path}").search_experiments()
    return path


def config_in(folder: Path, store: Path | None = None, **overrides: Any) -> Config:
    if store:
        shutil.copyfile(store, folder / "mlflow.db")
    return load("reviews", [f"{key}={value}" for key, value in overrides.items()], workspace=str(folder))


def step(number: int) -> events.Training:
    return events.Training(
        StepRecord(
            step=number, total_steps=9, epoch=0.1, loss=1 / number, accuracy=0.5, learning_rate=1e-3, tokens_per_second=10.0
        )
    )


def epoch(number: int) -> events.Training:
    return events.Training(EpochRecord(step=number, epoch=1, eval_loss=0.4, eval_accuracy=0.9))


def send(config: Config) -> list[str]:
    """What `bertline sync` does; returns what it says."""
    said: list[str] = []
    left = send_all(config.spool_path, said.append)
    assert not left, left
    return said


def runs_of(uri: str, **tags: str) -> list[Any]:
    client = MlflowClient(uri)
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    wanted = " and ".join(f"tags.{name} = '{value}'" for name, value in tags.items())
    return list(client.search_runs(experiments, wanted, order_by=["attributes.start_time ASC"]))


def only_run_of(config: Config) -> Any:
    (run,) = runs_of(config.tracking_uri)
    return run


def history(config: Config, run_id: str, key: str) -> list[tuple[int, float]]:
    """Step and value, in the order of the steps: a value that was recorded twice stands twice."""
    found = MlflowClient(config.tracking_uri).get_metric_history(run_id, key)
    return sorted((metric.step, metric.value) for metric in found)


def tracked(config: Config, run_id: str = "2026-01-01T00:00:00", **how: Any) -> Tracker:
    tracker = Tracker(config, run_id, **{"sends": False, **how})
    tracker.start()
    return tracker
