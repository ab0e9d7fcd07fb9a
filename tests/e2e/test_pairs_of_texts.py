"""Rows of two texts through the whole pipeline: what only both together can tell is learned, and asked for by name."""

import json
import random
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401
from click.testing import CliRunner
from lines import ALONE, Line, write_config, write_csv

from bertline.pipeline.cli import main

pytestmark = pytest.mark.full

# Which of two texts speaks of more. Whoever sees one of them alone is right in five of six rows at the best.
LEVELS = [level.split() for level in ("nothing 无 none", "little few café", "many naïve lots", "all everything 全")]
FILLING = "the a house door of and 🎨 e\u0301tude was painted".split(" ")
ONE_ALONE = 5 / 6

PERPLEXITY = {"thresholds": {"perplexity": 60}, "slices": [], "length_slices": []}


def make_pairs(count=600, seed=0):
    chance = random.Random(seed)
    rows = []
    for number in range(count):
        levels = chance.sample(range(4), 2)
        texts = []
        for level in levels:
            words = [chance.choice(FILLING) for _ in range(chance.randint(1, 3))]
            words.insert(chance.randrange(len(words) + 1), chance.choice(LEVELS[level]))
            texts.append(" ".join(words))
        label = "more" if levels[0] > levels[1] else "less"
        rows.append({"premise": f"{texts[0]} {number}", "hypothesis": texts[1], "label": label})
    return rows


@pytest.fixture(scope="module")
def line(tmp_path_factory):
    line = Line(tmp_path_factory.mktemp("pairs"))
    write_csv(line.folder / "pairs.csv", make_pairs())
    line.config = write_config(
        line.folder,
        data={"path": "pairs.csv", "text": ["premise", "hypothesis"]},
        model={"num_layers": 2, "hidden_dim": 64, "num_heads": 4, "intermediate_dim": 128, "dropout": 0.0},
        training={"epochs": 12, "learning_rate": 0.001},
        evaluation={"thresholds": {"accuracy": 0.93}, "slices": []},
        **ALONE,
    )
    done = line.run()
    assert done.exit_code == 0, done.output
    assert '--second "' in done.output  # the command to go on with asks for two texts
    return line


def test_what_only_both_texts_together_tell_is_learned(line):
    assert line.summary["metrics"]["accuracy"] >= 0.93 > ONE_ALONE


SCRIPT = """
import json, sys
import tensorflow as tf, tensorflow_text
serve = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
answer = serve(text=tf.constant(["many 🎨 door", "many 🎨 door"]), text_2=tf.constant(["the 无 house", "a 全"]))
print(json.dumps([label.decode() for label in answer["label"].numpy()]))
"""


def test_the_signature_takes_both_texts_by_name_in_a_process_without_our_code(line, tmp_path):
    command = [sys.executable, "-c", SCRIPT, line.summary["pushed_path"]]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1]) == ["more", "less"]


def test_the_evaluators_accuracy_is_the_served_models_own(line):
    serve = tf.saved_model.load(line.summary["pushed_path"]).signatures["serving_default"]
    files = tf.io.gfile.glob(f"{line.artifact('Ingest', 'examples')}/Split-eval/*")
    spec = {name: tf.io.FixedLenFeature([], tf.string) for name in ("text", "text_2", "label")}
    rows = tf.io.parse_example(list(tf.data.TFRecordDataset(files, "GZIP").as_numpy_iterator()), spec)
    answer = serve(text=rows["text"], text_2=rows["text_2"])
    accuracy = np.mean(answer["label"].numpy() == rows["label"].numpy())
    assert line.summary["metrics"]["accuracy"] == pytest.approx(accuracy, abs=1e-6)


def ask(line, *arguments, stdin=None):
    return CliRunner().invoke(main, ["predict", "--workspace", str(line.workspace), *arguments], input=stdin)


def test_predict_takes_pairs_by_option_and_by_tab(line):
    person = ask(line, "many a door", "nothing was painted", "--second", "the none", "--second", "lots of a house")
    assert [answer.split()[0] for answer in person.output.splitlines()] == ["more", "less"]
    program = ask(line, "--pairs", "--json", stdin="a door of few\teverything\nall\tthe 无 house\n")
    answers = [json.loads(answer) for answer in program.output.splitlines()]
    assert [(answer["text"], answer["text_2"], answer["label"]) for answer in answers] == [
        ("a door of few", "everything", "less"),
        ("all", "the 无 house", "more"),
    ]


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("one text",), "reads two texts, and example 1 has 1; give both as TEXT --second TEXT"),
        (("--pairs", "a\tb", "no tab here"), "example 2 has 1"),
        (("one", "two", "--second", "three"), "there are 2 of TEXTS and 1 of --second"),
    ],
)
def test_too_few_or_too_many_texts_are_refused_in_one_sentence(line, arguments, part):
    refused = ask(line, *arguments)
    assert refused.exit_code == 1 and part in refused.output


def test_an_empty_second_text_stops_the_pipeline_with_its_place(line, tmp_path):
    other = Line(tmp_path)
    rows = make_pairs(100)
    rows[3]["hypothesis"] = "  "
    write_csv(other.folder / "pairs.csv", rows)
    other.config.write_text(line.config.read_text())
    refused = other.run()
    assert refused.exit_code == 1 and "empty second text in 1 of" in refused.output and "pairs.csv:5" in refused.output


def test_a_task_over_one_text_refuses_two_before_anything_runs(line, tmp_path):
    other = Line(tmp_path)
    other.config = write_config(
        tmp_path, task="pretraining", data={"text": ["text", "source"], "label": None}, evaluation=PERPLEXITY
    )
    refused = other.run("--set", "text.tokenizer_variant=huggingface", "--set", "evaluation.thresholds={perplexity: 9}")
    assert refused.exit_code == 1
    assert "data.text: the task pretraining reads 1 text per example, and the config names 2" in refused.output
