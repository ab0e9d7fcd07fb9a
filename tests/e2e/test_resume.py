"""Killed with SIGKILL while training, a run goes on from its last checkpoint and ends where it would have ended."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
from lines import Line, write_config


def history(line):
    path = line.artifact("Trainer", "model_run") / "history.jsonl"
    return [record["loss"] for record in map(json.loads, path.read_text().splitlines()) if "loss" in record]


def test_a_killed_training_resumes_and_reaches_the_same_loss(tmp_path):
    lines = {}
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
        lines[name] = Line(tmp_path / name)
        # Any model will do: what is tested is that both trainings are one and the same.
        training = {"epochs": 30, "checkpoint_steps": 20}
        write_config(tmp_path / name, training=training, evaluation={"thresholds": {"accuracy": 0.0}})
    killed = lines["killed"]
    command = [sys.executable, "-m", "pipeline.cli", "run", str(killed.config), "--workspace", str(killed.workspace)]
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
    assert "went on from the checkpoint at step" in resumed.output
    # What was done before is not done again.
    assert set(killed.steps_run()) == {"Trainer", "Evaluator", "ServeCheck", "Pusher"}
    assert not list(checkpoints.iterdir())
    assert lines["whole"].run().exit_code == 0
    ours, theirs = history(killed), history(lines["whole"])
    assert len(ours) == len(theirs) > 400
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)
