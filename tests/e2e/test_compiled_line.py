"""The compiled line, run as Kubeflow would run it: each step by its own command line, in a process of its own, and nothing
that they share but a bucket."""

import json

import bucket
import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner
from spec_executor import Engine, read_spec

from bertline.pipeline.cli import main
from bertline.pipeline.core.storage import CACHE_VARIABLE

pytestmark = pytest.mark.full


def weights(model):
    reader = tf.train.load_checkpoint(str(model / "variables" / "variables"))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def files_below(folder):
    return {name.removeprefix(folder): content for name, content in bucket.everything().items() if name.startswith(folder)}


@pytest.fixture(scope="module")
def environment():
    with bucket.running() as found:
        yield found


def test_the_compiled_line_pushes_the_model_of_the_local_one(finished_line, environment, tmp_path, monkeypatch):
    """Its data is where the run is told, which is not where the compiled config has it."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    moved = bucket.put("data/elsewhere.csv", (finished_line.folder / "reviews.csv").read_bytes())
    root, spec = "s3://bucket/root", tmp_path / "line.yaml"
    done = CliRunner().invoke(main, ["compile", str(finished_line.config), "--root", root, "-o", str(spec)])
    assert done.exit_code == 0, done.output
    engine = Engine(read_spec(spec), tmp_path / "log", environment)
    engine.run(**{"data-path": moved})
    (pushed,) = engine.outputs["Pusher"]["pushed_model"]
    assert pushed["metadata"]["pushed_destination"] == f"{root}/models/tiny/1"
    assert pushed["uri"] == f"{root}/tiny/run/Pusher/pushed_model"
    local, compiled = finished_line.workspace / "models" / "tiny" / "1", tmp_path / "compiled"
    for name, content in files_below("root/models/tiny/1/").items():
        (compiled / name).parent.mkdir(parents=True, exist_ok=True)
        (compiled / name).write_bytes(content)
    one, other = weights(local), weights(compiled)
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_array_equal(other[name], value, err_msg=name)
    verdict = json.loads(files_below("root/tiny/run/Evaluator/evaluation/")["verdict.json"])
    assert verdict["metrics"] == finished_line.summary["metrics"]
    asked = ["a wonderful film with a superb ending", "a dreadful and lifeless plot"]
    answers = [
        finished_line.call("predict", "--model", str(model), "--json", *asked).output
        for model in (local, f"{root}/models/tiny/1")
    ]
    assert answers[0] == answers[1] and json.loads(answers[0].splitlines()[0])["text"] == asked[0]
    assert not files_below("root/tiny/run/Trainer/model_run/checkpoints/")  # the training is over
