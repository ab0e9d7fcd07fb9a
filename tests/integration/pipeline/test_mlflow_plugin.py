"""Models that MLflow keeps from before the package was called bertline are loaded as ever."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_models import EVERY, push

ROOT = Path(__file__).parents[3]
MLMODEL = """
flavors:
  python_function:
    data: pushed.json
    loader_module: pipeline.pyfunc
    python_version: 3.11.0
"""
LOAD = """
import json, sys
import mlflow
model = mlflow.pyfunc.load_model(sys.argv[1])
print(json.dumps(model.predict(["a good film", "bad"]).to_dict("records")))
try:
    import pipeline
    print(pipeline.__file__)
except ModuleNotFoundError:
    print("nothing is called pipeline")
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> Path:
    """A model as the registry had it: a pointer, and the name of what follows it."""
    folder = tmp_path_factory.mktemp("recorded")
    made = push(EVERY[0], folder / "made")
    (folder / "pushed.json").write_text(json.dumps({"path": str(made)}))
    (folder / "MLmodel").write_text(MLMODEL)
    return folder


def load(recorded: Path, where: Path) -> list[str]:
    """In a process that has imported nothing of ours, and finds no sources of ours either."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MLFLOW_TRACKING_URI")}
    command = [sys.executable, "-c", LOAD, str(recorded)]
    done = subprocess.run(command, cwd=where, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()[-2:]


@pytest.mark.parametrize("theirs", [None, "pipeline.py", "pipeline/__init__.py"])
def test_a_model_recorded_under_the_earlier_name_answers_texts(recorded, tmp_path, theirs):
    if theirs:
        (tmp_path / theirs).parent.mkdir(exist_ok=True)
        (tmp_path / theirs).write_text("")
    answers, found = load(recorded, tmp_path)
    first, second = json.loads(answers)
    assert first.keys() == second.keys() and "label" in first
    assert found == (str(tmp_path / theirs) if theirs else "nothing is called pipeline")
