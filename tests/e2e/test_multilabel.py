"""Several classes a row through the whole pipeline: every one is learned by itself, and a row may have none."""

import json
import random
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401
from click.testing import CliRunner
from lines import ALONE, Line, write_config
from sklearn.metrics import accuracy_score, f1_score

from bertline.pipeline.cli import main

pytestmark = pytest.mark.full

SIGNS = {"funny": ("joke", "笑"), "sad": ("tears", "悲"), "loud": ("bang", "shout")}
FILLING = "the a house café door of and e\u0301tude was painted".split(" ")


def make_rows(count=1000, seed=0):
    chance = random.Random(seed)
    rows = []
    for number in range(count):
        labels = [name for name in SIGNS if chance.random() < 0.4]
        words = [chance.choice(FILLING) for _ in range(chance.randint(2, 6))]
        words += [chance.choice(SIGNS[name]) for name in labels]
        chance.shuffle(words)
        rows.append({"text": " ".join([*words, str(number)]), "label": labels})
    return rows


@pytest.fixture(scope="module")
def line(tmp_path_factory):
    line = Line(tmp_path_factory.mktemp("multilabel"))
    lines = [json.dumps(row, ensure_ascii=False) for row in make_rows()]
    (line.folder / "rows.jsonl").write_text("\n".join(lines), encoding="utf-8")
    line.config = write_config(
        line.folder,
        task="multilabel",
        data={"path": "rows.jsonl"},
        model={"dropout": 0.0},
        training={"epochs": 14},
        evaluation={"thresholds": {"micro_f1": 0.9, "subset_accuracy": 0.8}, "slices": []},
        **ALONE,
    )
    done = line.run()
    assert done.exit_code == 0, done.output
    return line


def test_every_class_is_learned_by_itself(line):
    metrics = line.summary["metrics"]
    assert metrics["subset_accuracy"] >= 0.8 > 0.3  # always one set of classes is right in less than a third of the rows
    assert metrics["micro_f1"] >= 0.9 and "majority" not in line.summary["baseline"]


def test_the_evaluators_numbers_are_those_of_scikit_learn_on_the_served_models_answers(line):
    serve = tf.saved_model.load(line.summary["pushed_path"]).signatures["serving_default"]
    files = tf.io.gfile.glob(f"{line.artifact('Ingest', 'examples')}/Split-eval/*")
    spec = {"text": tf.io.FixedLenFeature([], tf.string), "label": tf.io.RaggedFeature(tf.string)}
    rows = tf.io.parse_example(list(tf.data.TFRecordDataset(files, "GZIP").as_numpy_iterator()), spec)
    answer = serve(text=rows["text"])
    classes = answer["classes"].numpy()[0].tolist()
    taken = answer["probabilities"].numpy() > 0.5
    true = np.asarray([[name in names for name in classes] for names in rows["label"].to_list()])
    metrics = line.summary["metrics"]
    assert not true.any(axis=1).all()  # some rows have none
    assert metrics["micro_f1"] == pytest.approx(f1_score(true, taken, average="micro"), abs=1e-6)
    assert metrics["macro_f1"] == pytest.approx(f1_score(true, taken, average="macro"), abs=1e-6)
    assert metrics["subset_accuracy"] == pytest.approx(accuracy_score(true, taken), abs=1e-6)
    assert metrics["rows"] == len(true)


SCRIPT = """
import json, sys
import tensorflow as tf, tensorflow_text
serve = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
answer = serve(text=tf.constant(["the 笑 house was 悲", "a painted door"]))
print(json.dumps([[name.decode() for name in row if name] for row in answer["labels"].numpy()]))
"""


def test_a_fresh_process_without_our_code_gets_the_names(line, tmp_path):
    command = [sys.executable, "-c", SCRIPT, line.summary["pushed_path"]]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    first, second = json.loads(done.stdout.splitlines()[-1])
    assert sorted(first) == ["funny", "sad"] and second == []


def test_predict_says_so_where_there_is_none(line):
    asked = ["predict", "--workspace", str(line.workspace), "the house shout was painted tears 7", "the door"]
    some, none = CliRunner().invoke(main, asked).output.splitlines()
    assert "loud" in some and "sad" in some and "funny" not in some
    assert none.startswith("none; the nearest is ")


def test_the_scores_while_training_are_the_evaluators(line):
    pairs = line.scores_while_training()
    while_training, calibrated = pairs.pop("cross_entropy")
    assert calibrated <= while_training + 1e-6  # a temperature was fitted since
    assert set({"micro_f1", "macro_f1", "subset_accuracy"}) <= set(pairs)
    assert all(one == pytest.approx(other, abs=1e-6) for one, other in pairs.values()), pairs


def test_beside_the_model_that_is_pushed_each_class_has_its_own_scores_only(line):
    line.run("--set", "training.epochs=1")
    assert line.summary["baseline"]["pushed"]
    for scores in line.summary["classes"].values():
        assert list(scores) == ["precision", "recall", "f1", "rows"] and scores["rows"] > 10


def test_the_kept_rows_give_the_evaluators_metrics(line):
    assert line.rows_agree()
