"""Multiple choice through the whole pipeline: rows of two to four endings, of which only the context tells the right
one."""

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

from bertline.pipeline.cli import main

pytestmark = pytest.mark.full

# A context asks for the ending that speaks of the most, or of the least; without it one is right in half of the rows.
ASKED = {"most": ["most", "多"], "least": ["least", "café"]}
LEVELS = [level.split() for level in ("none 无", "few 😺", "lots naïve", "all 全")]
FILLING = "the a house of and 🎨 was painted".split()
WITHOUT_CONTEXT = 1 / 2


def phrase(chance, word, most=2):
    words = [chance.choice(FILLING) for _ in range(chance.randint(0, most))]
    words.insert(chance.randrange(len(words) + 1), word)
    return " ".join(words)


def make_rows(count=900, seed=0):
    chance = random.Random(seed)
    rows = []
    for _ in range(count):
        levels = chance.sample(range(len(LEVELS)), chance.randint(2, 4))
        asked = chance.choice(list(ASKED))
        right = levels.index(max(levels) if asked == "most" else min(levels))
        context = phrase(chance, chance.choice(ASKED[asked]), most=4)
        endings = [phrase(chance, chance.choice(LEVELS[level])) for level in levels]
        rows.append({"prompt": context, "endings": endings, "answer": "ABCD"[right]})
    return rows


def write_rows(line, rows):
    """As CODAH has them, without a header; a row with fewer endings has empty columns after them."""
    with (line.folder / "rows.tsv").open("w", encoding="utf-8") as file:
        for row in rows:
            endings = [*row["endings"], *[""] * (4 - len(row["endings"]))]
            file.write("\t".join([row["prompt"], *endings, row["answer"]]) + "\n")


@pytest.fixture(scope="module")
def line(tmp_path_factory):
    line = Line(tmp_path_factory.mktemp("choice"))
    write_rows(line, make_rows())
    endings = [f"ending{number}" for number in range(4)]
    line.config = write_config(
        line.folder,
        task="choice",
        data={
            "path": "rows.tsv",
            "columns": ["prompt", *endings, "answer"],
            "text": "prompt",
            "choices": endings,
            "label": "answer",
        },
        model={"num_layers": 2, "hidden_dim": 64, "num_heads": 4, "intermediate_dim": 128, "dropout": 0.0},
        training={"epochs": 10, "learning_rate": 0.002, "buckets": [16, 24, 32, 40, 48, 64]},
        evaluation={"thresholds": {"accuracy": 0.9}, "slices": [], "length_slices": [12]},
        **ALONE,
    )
    done = line.run()
    assert done.exit_code == 0, done.output
    assert '--choice "' in done.output  # the command to go on with has choices
    return line


def test_what_only_context_and_ending_together_tell_is_learned(line):
    assert line.summary["metrics"]["accuracy"] >= 0.9 > WITHOUT_CONTEXT
    assert line.summary["metrics"]["rows"] == line.summary["rows"]["eval"]


SCRIPT = """
import json, sys
import tensorflow as tf, tensorflow_text
serve = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
endings = [["a few 🎨", "the 无", "全"], ["lots", "none was the house e\\u0301", ""]]
answer = serve(text=tf.constant(["the 多 🎨", "a café"]), choices=tf.constant(endings))
index, choice, shares = (answer[name].numpy() for name in ("index", "choice", "probabilities"))
print(json.dumps([index.tolist(), [text.decode() for text in choice], shares.tolist()]))
"""


def test_a_fresh_process_without_our_code_gets_the_index_the_ending_and_the_shares(line, tmp_path):
    command = [sys.executable, "-c", SCRIPT, line.summary["pushed_path"]]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    index, choice, shares = json.loads(done.stdout.splitlines()[-1])
    assert index == [2, 1] and choice == ["全", "none was the house e\u0301"]
    assert np.argmax(shares, axis=1).tolist() == index and shares[1][2] == 0
    assert np.sum(shares, axis=1) == pytest.approx([1, 1], abs=1e-5)


def evaluation(line):
    """Prompts, endings ([rows, most], filled with empty ones) and labels of the rows that were not trained on."""
    files = tf.io.gfile.glob(f"{line.artifact('Ingest', 'examples')}/Split-eval/*")
    spec = {"text": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    spec["choices"] = tf.io.RaggedFeature(tf.string)
    rows = tf.io.parse_example(list(tf.data.TFRecordDataset(files, "GZIP").as_numpy_iterator()), spec)
    return rows["text"], rows["choices"].to_tensor(), rows["label"].numpy()


def test_the_evaluators_numbers_are_those_of_the_served_models_answers(line):
    serve = tf.saved_model.load(line.summary["pushed_path"]).signatures["serving_default"]
    texts, choices, labels = evaluation(line)
    answer = {name: value.numpy() for name, value in serve(text=texts, choices=choices).items()}
    metrics, shares = line.summary["metrics"], answer["probabilities"][np.arange(len(labels)), labels]
    assert metrics["accuracy"] == pytest.approx(np.mean(answer["index"] == labels), abs=1e-6)
    assert metrics["cross_entropy"] == pytest.approx(-np.log(shares).mean(), abs=1e-4)


def test_it_is_the_context_that_decides(line):
    """Nothing in the endings alone tells the right one: with another row's context the answer is another."""
    serve = tf.saved_model.load(line.summary["pushed_path"]).signatures["serving_default"]
    texts, choices, labels = evaluation(line)
    answer = serve(text=tf.roll(texts, 1, axis=0), choices=choices)
    assert np.mean(answer["index"].numpy() == labels) < 0.75


def ask(line, *arguments):
    return CliRunner().invoke(main, ["predict", "--workspace", str(line.workspace), *arguments])


def test_predict_prints_the_ending_and_tells_a_program_everything(line):
    asked = ["the most", "a least", "--choice", "none", "--choice", "all and", "--choice", "a few"]
    person = ask(line, *asked)
    assert [answer.split("  ")[0] for answer in person.output.splitlines()] == ["all and", "none"]
    first, second = (json.loads(answer) for answer in ask(line, *asked, "--json").output.splitlines())
    assert (first["index"], first["choice"], second["index"]) == (1, "all and", 0)
    assert first["choices"] == ["none", "all and", "a few"] and len(first["probabilities"]) == 3


def test_a_file_of_rows_with_any_number_of_endings_is_answered(line, tmp_path):
    rows = make_rows(100, seed=1)
    lines = [{"text": row["prompt"], "choices": row["endings"], "right": row["answer"]} for row in rows]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(given) + "\n" for given in lines), encoding="utf-8")
    done = ask(line, "--file", str(tmp_path / "in.jsonl"), "--out", str(tmp_path / "out.jsonl"))
    assert done.exit_code == 0, done.output
    answers = [json.loads(answer) for answer in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert np.mean(["ABCD"[answer["index"]] == answer["right"] for answer in answers]) >= 0.85
    assert all(answer["choice"] == answer["choices"][answer["index"]] for answer in answers)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("the most",), "example 1 has none; give --choice TEXT"),
        (("the most", "--second", "b", "--choice", "c"), "the model reads one text, and example 1 has 2"),
    ],
)
def test_a_question_that_does_not_fit_is_refused_in_one_sentence(line, arguments, part):
    refused = ask(line, *arguments)
    assert refused.exit_code == 1 and part in refused.output


def test_rows_that_cannot_be_learned_from_are_told_by_place(line, tmp_path):
    other = Line(tmp_path)
    other.config.write_text(line.config.read_text())
    rows = make_rows(60)
    rows[3]["answer"] = "F"
    write_rows(other, rows)
    refused = other.run()
    assert refused.exit_code == 1 and "rows.tsv:4: column 'answer' says 'F', which is none of the" in refused.output
    rows[3] = {"prompt": "the most", "endings": ["all"], "answer": "A"}
    write_rows(other, rows)
    refused = other.run()
    assert refused.exit_code == 1 and "fewer than two choices in 1 of" in refused.output and "rows.tsv:4" in refused.output


def test_a_task_that_does_not_choose_refuses_choices_before_anything_runs(line, tmp_path):
    other = Line(tmp_path)
    other.config.write_text(line.config.read_text())
    write_rows(other, make_rows(20))
    refused = other.run("--set", "task=classification")
    assert refused.exit_code == 1 and "data.choices: the task classification does not choose" in refused.output


def test_the_kept_rows_give_the_evaluators_metrics(line):
    assert line.rows_agree()
