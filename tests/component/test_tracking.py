"""Tracking is never in the way: a store that is down or refuses costs a line in the summary, nothing else."""

import socket

import pytest
from mlflow.tracking import MlflowClient

from components import events, tracking
from components.tracking import Tracker
from components.verdict import Verdict
from models.training import EpochRecord, StepRecord
from pipeline.config_file import load


def config(tmp_path, **overrides):
    return load("reviews", [f"{key}={value}" for key, value in overrides.items()], workspace=str(tmp_path))


def step(number):
    return StepRecord(
        step=number, total_steps=9, epoch=0.1, loss=1 / number, accuracy=0.5, learning_rate=1e-3, tokens_per_second=10.0
    )


def test_a_run_is_recorded_whole(tmp_path):
    tracker = Tracker(config(tmp_path), "2026-01-01T00:00:00")
    tracker.start()
    for number in range(1, 10):
        tracker.hear(events.Training(step(number)))
    tracker.hear(events.Training(EpochRecord(step=9, epoch=1, eval_loss=0.4, eval_accuracy=0.9)))
    tracker.hear(events.StepFinished("Trainer", 1.5, cached=False))
    verdict = Verdict(
        blessed=True,
        reasons=[],
        metrics={"accuracy": 0.9},
        slices={"naïve=☕ +": {"accuracy": float("nan")}},
        confusion=[[3, 1], [0, 4]],
        labels=["no", "yes"],
    )
    tracker.finish("FINISHED", {"reasons": "x" * 9000}, verdict, None)
    assert tracker.problem is None
    client = MlflowClient(f"sqlite:///{tmp_path}/mlflow.db")
    run = client.get_run(tracker.mlflow_run_id)
    assert run.info.status == "FINISHED"
    assert [metric.value for metric in client.get_metric_history(run.info.run_id, "train/loss")] == [
        1 / number for number in range(1, 10)
    ]
    assert run.data.metrics["eval_epoch/accuracy"] == 0.9 and run.data.metrics["step/Trainer/seconds"] == 1.5
    assert "slice/naïve__ _/accuracy" in run.data.metrics
    assert run.data.tags["step.Trainer"] == "run" and run.data.params["name"] == "reviews"


@pytest.mark.timeout(120)  # each call to MLflow would wait for minutes
def test_a_dead_server_neither_fails_nor_holds_up_a_run(tmp_path, monkeypatch):
    monkeypatch.setattr(tracking, "_START_SECONDS", 0.5)
    monkeypatch.setattr(tracking, "_FINISH_SECONDS", 0.5)
    with socket.socket() as hanging:  # takes connections and never answers
        hanging.bind(("127.0.0.1", 0))
        hanging.listen()
        uri = f"http://127.0.0.1:{hanging.getsockname()[1]}"
        tracker = Tracker(config(tmp_path, **{"tracking.uri": uri}), "2026-01-01T00:00:00")
        tracker.start()
        for number in range(1, 1000):
            tracker.hear(events.Training(step(number)))
        tracker.finish("FINISHED", {}, None, None)
    assert tracker.mlflow_run_id is None and "did not answer" in tracker.problem


def test_a_store_that_cannot_be_opened_is_said(tmp_path):
    tracker = Tracker(config(tmp_path, **{"tracking.uri": "sqlite:////proc/nowhere/mlflow.db"}), "2026-01-01T00:00:00")
    tracker.start()
    tracker.hear(events.Training(step(1)))
    tracker.finish("FINISHED", {}, None, None)
    assert tracker.mlflow_run_id is None and tracker.problem


def test_tracking_can_be_switched_off(tmp_path):
    tracker = Tracker(config(tmp_path, **{"tracking.enabled": "false"}), "2026-01-01T00:00:00")
    tracker.start()
    tracker.finish("FINISHED", {}, None, None)
    assert tracker.mlflow_run_id is None and not (tmp_path / "mlflow.db").exists()


def test_a_listener_that_fails_is_left_out_and_the_others_hear_on():
    heard = []

    def broken(event):
        raise RuntimeError

    with events.listening(broken), events.listening(heard.append):
        events.emit(events.Note("one"))
        events.emit(events.Note("two"))
    events.emit(events.Note("three"))
    assert [event.text for event in heard] == ["one", "two"]


@pytest.mark.parametrize("name", ["loss", "a b/c:d-e.f"])
def test_names_that_mlflow_takes_are_left_as_they_are(name):
    assert tracking._key(name) == name
