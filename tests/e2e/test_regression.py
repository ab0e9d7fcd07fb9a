"""Numbers through the whole pipeline: learned from pairs of texts, judged by correlation, answered over the signature."""

import json
import random
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401
from click.testing import CliRunner
from lines import UNSERVED, Line, write_config, write_csv
from mlflow.tracking import MlflowClient
from scipy import stats
from sklearn.metrics import mean_squared_error

from bertline.pipeline.cli import main

pytestmark = pytest.mark.full

# How much more the first text speaks of than the second, from 0 to 6. Each text alone gives a correlation of 0.71.
LEVELS = [level.split() for level in ("nothing 无 none", "little few café", "many naïve lots", "all everything 全")]
FILLING = "the a house door of and 🎨 e\u0301tude was painted".split(" ")
ONE_ALONE = 0.5**0.5


def make_rows(count=600, seed=0):
    chance = random.Random(seed)
    rows = []
    for number in range(count):
        levels = chance.randrange(4), chance.randrange(4)
        texts = []
        for level in levels:
            words = [chance.choice(FILLING) for _ in range(chance.randint(1, 3))]
            words.insert(chance.randrange(len(words) + 1), chance.choice(LEVELS[level]))
            texts.append(" ".join(words))
        rows.append({"one": f"{texts[0]} {number}", "other": texts[1], "score": f"{3 + levels[0] - levels[1]:.2f}"})
    return rows


@pytest.fixture(scope="module")
def line(tmp_path_factory):
    line = Line(tmp_path_factory.mktemp("regression"))
    write_csv(line.folder / "pairs.csv", make_rows())
    line.config = write_config(
        line.folder,
        task="regression",
        data={"path": "pairs.csv", "text": ["one", "other"], "label": "score"},
        model={"num_layers": 2, "hidden_dim": 64, "num_heads": 4, "intermediate_dim": 128, "dropout": 0.0},
        training={"epochs": 12, "learning_rate": 0.001},
        evaluation={"thresholds": {"pearson": 0.9, "mean_squared_error": 0.6}, "slices": []},
        **UNSERVED,
    )
    done = line.run()
    assert done.exit_code == 0, done.output
    assert "accuracy" not in done.output  # a number is not right or wrong
    return line


def test_what_only_both_texts_together_tell_is_learned(line):
    assert line.summary["metrics"]["pearson"] >= 0.9 > ONE_ALONE
    assert line.summary["classes"] == {} and line.summary["baseline"]["majority"] == {}


def test_the_evaluators_numbers_are_those_of_scipy_on_the_served_models_answers(line):
    serve = tf.saved_model.load(line.summary["pushed_path"]).signatures["serving_default"]
    files = tf.io.gfile.glob(f"{line.artifact('Ingest', 'examples')}/Split-eval/*")
    spec = {name: tf.io.FixedLenFeature([], tf.string) for name in ("text", "text_2")}
    spec["label"] = tf.io.FixedLenFeature([], tf.float32)
    rows = tf.io.parse_example(list(tf.data.TFRecordDataset(files, "GZIP").as_numpy_iterator()), spec)
    given = serve(text=rows["text"], text_2=rows["text_2"])["value"].numpy().astype(np.float64)
    true, metrics = rows["label"].numpy().astype(np.float64), line.summary["metrics"]
    assert metrics["pearson"] == pytest.approx(stats.pearsonr(given, true).statistic, abs=1e-6)
    assert metrics["spearman"] == pytest.approx(stats.spearmanr(given, true).statistic, abs=1e-6)
    assert metrics["mean_squared_error"] == pytest.approx(mean_squared_error(true, given), abs=1e-5)
    assert metrics["rows"] == len(true)


SCRIPT = """
import json, sys
import tensorflow as tf, tensorflow_text
serve = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
answer = serve(text=tf.constant(["all 🎨 door", "the 无"]), text_2=tf.constant(["the 无 house", "a 全"]))
print(json.dumps(answer["value"].numpy().tolist()))
"""


def test_a_fresh_process_without_our_code_gets_numbers(line, tmp_path):
    command = [sys.executable, "-c", SCRIPT, line.summary["pushed_path"]]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    most, least = json.loads(done.stdout.splitlines()[-1])
    assert most == pytest.approx(6, abs=1.5) and least == pytest.approx(0, abs=1.5)


def test_predict_prints_a_number(line):
    asked = ["predict", "--workspace", str(line.workspace), "everything was painted", "--second", "none of the door"]
    person = CliRunner().invoke(main, asked)
    assert person.exit_code == 0 and float(person.output) == pytest.approx(6, abs=1.5)
    program = json.loads(CliRunner().invoke(main, [*asked, "--json"]).output)
    assert program["value"] == pytest.approx(float(person.output), abs=1e-3)


def test_mlflow_has_the_correlations_and_no_accuracy(line):
    client = MlflowClient(f"sqlite:///{line.workspace}/mlflow.db")
    found = client.get_run(line.summary["mlflow_run_id"]).data.metrics
    assert found["eval/pearson"] == pytest.approx(line.summary["metrics"]["pearson"])
    assert "eval_epoch/loss" in found and not any("accuracy" in name for name in found)


def test_a_label_that_is_no_number_is_told_by_place(line, tmp_path):
    other = Line(tmp_path)
    rows = make_rows(60)
    rows[3]["score"] = "high"
    write_csv(other.folder / "pairs.csv", rows)
    other.config.write_text(line.config.read_text())
    refused = other.run()
    assert refused.exit_code == 1
    assert "pairs.csv:5: column 'score' says 'high', which is not a number" in refused.output


def test_an_allowed_row_without_a_number_has_no_weight(line, tmp_path):
    other = Line(tmp_path)
    rows = make_rows(200)
    for row in rows[:40]:
        row["score"] = ""
    write_csv(other.folder / "pairs.csv", rows)
    other.config.write_text(line.config.read_text())
    assert "missing label in" in other.run().output
    easy = ("--set", "training.epochs=1", "--set", "evaluation.thresholds={mean_squared_error: 1000}")
    done = other.run("--allow-anomalies", *easy)
    assert done.exit_code == 0, done.output
    summary = other.summary
    assert summary["metrics"]["rows"] < summary["rows"]["eval"] and np.isfinite(summary["metrics"]["mean_squared_error"])


def test_the_scores_while_training_are_the_evaluators(line):
    pairs = line.scores_while_training()
    assert set({"pearson", "spearman", "mean_squared_error"}) <= set(pairs)
    assert all(one == pytest.approx(other, abs=1e-6) for one, other in pairs.values()), pairs


def test_the_kept_rows_give_the_evaluators_metrics(line):
    assert line.rows_agree()
