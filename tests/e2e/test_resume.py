"""Killed with SIGKILL while training, a run goes on from its last checkpoint and ends where it would have ended."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from lines import UNSERVED, Line, write_config
from mlflow.tracking import MlflowClient

pytestmark = pytest.mark.full


def history(line):
    path = line.artifact("Trainer", "model_run") / "history.jsonl"
    return [record["loss"] for record in map(json.loads, path.read_text().splitlines()) if "loss" in record]


def test_a_killed_training_resumes_and_reaches_the_same_loss(tmp_path):
    lines = {}
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
        lines[name] = Line(tmp_path / name)
        # Any model will do: what is tested is that both trainings are one and the same.
        training = {"epochs": 16, "checkpoint_steps": 20}
        write_config(tmp_path / name, training=training, evaluation={"thresholds": {"accuracy": 0.0}}, **UNSERVED)
    killed = lines["killed"]
    command = [
        sys.executable,
        "-m",
        "bertline.pipeline.cli",
        "run",
        str(killed.config),
        "--workspace",
        str(killed.workspace),
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    checkpoints = killed.workspace / "pipelines" / "tiny" / "checkpoints"
    while process.poll() is None and not list(checkpoints.glob("*/step-*.safetensors")):
        time.sleep(0.02)
    assert process.poll() is None, "the training ended before it could be killed"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (killed.workspace / "models").exists()

    resumed = killed.run()
    assert resumed.exit_code == 0, resumed.output
    assert "resumed from the checkpoint at step" in resumed.output
    # What was done before is not done again.
    assert set(killed.steps_run()) == {"Trainer", "Evaluator", "Pusher"}
    assert not list(checkpoints.iterdir())
    assert lines["whole"].run().exit_code == 0
    ours, theirs = history(killed), history(lines["whole"])
    assert len(ours) == len(theirs) > 250
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)
    check_record(killed, ours)


def check_record(line, losses):
    """MLflow has one run, of which no step is missing and none is there twice."""
    assert line.call("sync").exit_code == 0  # a busy machine may have left some of it to be sent later
    client = MlflowClient(f"sqlite:///{line.workspace}/mlflow.db")
    (run,) = client.search_runs([experiment.experiment_id for experiment in client.search_experiments()])
    assert run.info.run_id == line.summary["mlflow_run_id"] and run.info.status == "FINISHED"
    found = sorted(client.get_metric_history(run.info.run_id, "train/loss"), key=lambda metric: metric.step)
    assert [metric.step for metric in found] == list(range(1, len(losses) + 1))
    np.testing.assert_allclose([metric.value for metric in found], losses, rtol=1e-4, atol=1e-6)
    assert run.data.tags["step.Ingest"] == "run" and run.data.tags["resumed_as"] > run.data.tags["line_run_id"]
