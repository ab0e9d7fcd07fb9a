"""The compiled line, run as Kubeflow would run it: each step by its own command line, in a process of its own."""

import json

import numpy as np
import tensorflow as tf
from click.testing import CliRunner
from spec_executor import Engine, read_spec

from pipeline.cli import main


def weights(model):
    reader = tf.train.load_checkpoint(str(model / "variables" / "variables"))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def test_the_compiled_line_pushes_the_model_of_the_local_one(finished_line, tmp_path):
    """Its data is where the run is told, which is not where the compiled config has it."""
    moved = tmp_path / "elsewhere.csv"
    moved.write_bytes((finished_line.folder / "reviews.csv").read_bytes())
    root, spec = tmp_path / "root", tmp_path / "line.yaml"
    done = CliRunner().invoke(main, ["compile", str(finished_line.config), "--root", str(root), "-o", str(spec)])
    assert done.exit_code == 0, done.output
    engine = Engine(read_spec(spec), root, tmp_path / "log")
    engine.run(**{"data-path": str(moved)})
    (pushed,) = engine.outputs["Pusher"]["pushed_model"]
    local, compiled = finished_line.workspace / "models" / "tiny" / "1", root / "models" / "tiny" / "1"
    assert pushed["metadata"]["pushed_destination"] == str(compiled)
    one, other = weights(local), weights(compiled)
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_array_equal(other[name], value, err_msg=name)
    verdict = json.loads((root / "tiny" / "run" / "Evaluator" / "evaluation" / "verdict.json").read_text())
    assert verdict["metrics"] == finished_line.summary["metrics"]
    asked = ["a wonderful film with a superb ending", "a dreadful and lifeless plot"]
    answers = [finished_line.call("predict", "--model", str(model), "--json", *asked).output for model in (local, compiled)]
    assert answers[0] == answers[1]
