"""A SavedModel is loaded and run without most of TensorFlow, and answers as under all of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text

from bertline.pipeline.config import CHOICES
from bertline.pipeline.inference.predictor import find
from bertline.serving import lean_tensorflow
from bertline.serving.client.rows import columns_of

HEAVY = (
    "keras",
    "tf_keras",
    "tfx",
    "mlflow",
    "apache_beam",
    "pandas",
    "tensorflow",
    "googleapiclient",
    "tensorflow_text",
    "sklearn",
)
TEXT = {"text": b"the cafe", "text_2": b"un abc", CHOICES: [b"abc", b"the un a"]}
NAMES = {"question": "text", "context": "text_2"}
PREDICT = f"""
import json, sys
from click.testing import CliRunner
from bertline.pipeline.cli import main
for arguments in json.loads(sys.argv[1]):
    done = CliRunner().invoke(main, ["predict", "--json", *arguments])
    assert done.exit_code == 0, done.output
    print(json.dumps(json.loads(done.stdout.splitlines()[-1])))
print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]))
"""
THEN_ALL = """
import json, sys
from bertline.pipeline.inference.predictor import find
row = {"text": b"the cafe", "text_2": b"un abc"}
found = find(sys.argv[1], "")
loaded = found.load()
before = loaded.ask([row])[0]["probabilities"].tolist()
lean = "tensorflow" not in sys.modules
import tensorflow as tf, tensorflow_text, keras
assert tf.executing_eagerly() and tf.__version__ and tf.keras.layers.Dense
model = keras.Sequential([keras.layers.Dense(2)])
model.compile("sgd", "mse")
model.fit(tf.data.Dataset.from_tensor_slices((tf.ones([4, 3]), tf.ones([4, 2]))).batch(2), verbose=0)
assert tensorflow_text.WhitespaceTokenizer().tokenize(["a b"]).to_list() == [[b"a", b"b"]]
asked = {name: tf.constant([text]) for name, text in row.items()}
by_function = tf.saved_model.load(sys.argv[1]).signatures["serving_default"](**asked)
again = [one.ask([row])[0]["probabilities"].tolist() for one in (loaded, found.load())]
print(json.dumps([lean, before, by_function["probabilities"][0].numpy().tolist(), *again]))
"""


def run(script: str, *arguments: str, **environment: str) -> list[object]:
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def folders(every_model):
    return every_model()


def test_the_pinned_tensorflow_is_still_imported_in_parts():
    """Where it is not, `bertline predict` and the server work on, but start as slowly as TensorFlow does: what
    `lean_tensorflow` takes of TensorFlow is elsewhere in this version, or needs more of it than before."""
    script = f"""
import json, sys
import bertline.serving.embedded.server
print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]))
"""
    assert run(script) == [[]], lean_tensorflow.__doc__
    told = " ".join(lean_tensorflow.__doc__.split())
    assert f"TensorFlow {tf.__version__} and tensorflow_text {tensorflow_text.__version__}" in told


def test_predict_answers_every_task_as_tensorflow_does_without_most_of_it(folders):
    asked, rows = [], []
    for folder in folders.values():
        keys = find(str(folder), "").text_keys
        row = {key: TEXT[NAMES.get(key, key)] for key in keys}
        texts = [row[key].decode() for key in keys if key != CHOICES]
        choices = [part for choice in row.get(CHOICES, ()) for part in ("--choice", choice.decode())]
        asked.append(["--model", str(folder), texts[0], *(["--second", texts[1]] if len(texts) > 1 else []), *choices])
        rows.append(row)
    *answers, heavy = run(PREDICT, json.dumps(asked))
    assert heavy == []
    for folder, row, answer in zip(folders.values(), rows, answers, strict=True):
        compare(folder, row, answer)


def compare(folder, row, answer):
    """With what the SavedModel says by `tf.saved_model.load`, which loads and runs it by other code."""
    found = find(str(folder), "")
    by_tensorflow = tf.saved_model.load(str(folder))
    asked = {name: tf.constant(value) for name, value in columns_of([row]).items()}
    wanted = {name: value.numpy()[0] for name, value in by_tensorflow.signatures["serving_default"](**asked).items()}
    loaded = found.load()
    given = loaded.ask([row])[0]
    assert given.keys() == wanted.keys()
    for name, value in wanted.items():
        if np.asarray(value).dtype.kind in "OS":
            assert np.array_equal(given[name], value)
        else:
            np.testing.assert_allclose(given[name], value, atol=1e-6)
    shown = json.loads(json.dumps(loaded.plain(wanted)))
    assert {name: answer[name] for name in shown} == nearly(shown)


def nearly(value):
    if isinstance(value, dict):
        return {name: nearly(item) for name, item in value.items()}
    if isinstance(value, list):
        return [nearly(item) for item in value]
    return pytest.approx(value, abs=1e-5) if isinstance(value, float) else value


def test_all_of_tensorflow_can_be_imported_later_in_the_same_process(folders):
    ((lean, *scores),) = run(THEN_ALL, str(folders["classification"]))
    assert lean
    for other in scores[1:]:
        np.testing.assert_allclose(other, scores[0], atol=1e-6)


def test_where_parts_do_not_do_all_of_tensorflow_is_imported(folders, tmp_path):
    """As where a device comes from a plugin, which only TensorFlow itself loads."""
    (tmp_path / "tensorflow-plugins").mkdir()
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    ((lean, *scores),) = run(THEN_ALL, str(folders["classification"]), PYTHONPATH=paths)
    assert not lean
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-6)
