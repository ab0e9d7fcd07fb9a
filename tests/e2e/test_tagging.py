"""Entities through the whole pipeline: learned from CoNLL, judged by their F1, answered with their places in the
request."""

import json
import random
import subprocess
import sys

import entities
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401
from click.testing import CliRunner
from lines import UNSERVED, Line, write_config
from mlflow.tracking import MlflowClient

from bertline.pipeline.cli import main

# A name is a person's or a place's: it takes the first word of the sentence to tell. Who sees the names alone is right in
# every second one.
CUES = {"PER": "asked thanked 见 nai\u0308ve".split(" "), "LOC": "visited toward 在 expose\u0301".split(" ")}
FIRST, SECOND = "Ada Zoe\u0301 王 Kai Mira".split(" "), "Byron Kim 明 Lund Va\u030aga".split(" ")
# Every token that the tests ask about is here: one that no training row has is [UNK], whose vector nothing has taught, and
# any tag may come of it.
FILLING = "the a house door of and 🎨 🎨🎨 was painted , ， (".split(" ")
NAMES_ALONE = 0.5


def make_sentences(count=500, seed=0):
    chance = random.Random(seed)
    sentences = []
    for number in range(count):
        kind = chance.choice(list(CUES))
        words = [(str(number), "O")]
        # Every sixth is longer than the encoder, which then reads it in windows; each has a cue within sight.
        for _ in range(6 if number % 6 == 0 else chance.randint(1, 2)):
            words.append((chance.choice(CUES[kind]), "O"))
            words += [(chance.choice(FILLING), "O") for _ in range(chance.randint(0, 2))]
            words.append((chance.choice(FIRST), f"B-{kind}"))
            words += [(chance.choice(SECOND), f"I-{kind}") for _ in range(chance.randint(0, 1))]
            words += [(chance.choice(FILLING), "O") for _ in range(chance.randint(0, 2))]
        sentences.append(words)
    return sentences


def write_conll(path, sentences):
    """With all that such files have: a byte-order mark, CRLF, document starts, comments, and columns that nobody reads."""
    with path.open("w", encoding="utf-8-sig", newline="\r\n") as file:
        for number, sentence in enumerate(sentences):
            file.write("-DOCSTART- -X- O\n\n" if number % 100 == 0 else f"# sentence {number} of these\n")
            file.writelines(f"{word} x {tag}\n" for word, tag in sentence)
            file.write("\n")


@pytest.fixture(scope="module")
def line(tmp_path_factory):
    line = Line(tmp_path_factory.mktemp("tagging"))
    write_conll(line.folder / "names.conll", make_sentences())
    line.config = write_config(
        line.folder,
        task="tagging",
        data={"path": "names.conll", "tags": "IOB2"},
        text={"seq_len": 24},
        model={"num_layers": 2, "hidden_dim": 64, "num_heads": 4, "intermediate_dim": 128, "dropout": 0.0},
        training={"epochs": 14, "learning_rate": 0.002, "buckets": [16, 24]},
        evaluation={"thresholds": {"f1": 0.9, "accuracy": 0.9}, "slices": [], "length_slices": [20]},
        **UNSERVED,
    )
    done = line.run()
    assert done.exit_code == 0, done.output
    return line


def test_what_only_the_whole_sentence_tells_is_learned(line):
    summary = line.summary
    assert summary["metrics"]["f1"] >= 0.9 > NAMES_ALONE
    assert summary["baseline"]["majority"]["label"] == "O"
    assert summary["metrics"]["accuracy"] > summary["baseline"]["majority"]["accuracy"]
    assert summary["slices"]["20+ words"]["f1"] > NAMES_ALONE  # those that were read in windows
    assert set(summary["classes"]) == {"PER", "LOC"}
    assert all(scores["f1"] > 0.8 and scores["entities"] > 10 for scores in summary["classes"].values())


def test_the_evaluators_numbers_are_those_of_seqevals_rules_on_the_served_models_answers(line):
    model = tf.saved_model.load(line.summary["pushed_path"])
    files = tf.io.gfile.glob(f"{line.artifact('Ingest', 'examples')}/Split-eval/*")
    records = list(tf.data.TFRecordDataset(files, "GZIP").as_numpy_iterator())
    tags = tf.io.parse_example(records, {"label": tf.io.RaggedFeature(tf.string)})["label"].to_list()
    true = [[tag.decode() for tag in row] for row in tags]
    answers = model.signatures["serving_examples"](examples=tf.constant(records))["answer"].numpy()
    names = ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]
    given = [[names[tag] for tag in row[: len(tags)]] for row, tags in zip(answers, true, strict=True)]
    metrics = line.summary["metrics"]
    expected = entities.scores(true, given)
    assert [metrics[name] for name in ("precision", "recall", "f1")] == pytest.approx(expected, abs=1e-6)
    right = [answer == tag for row, tags in zip(given, true, strict=True) for answer, tag in zip(row, tags, strict=True)]
    assert metrics["accuracy"] == pytest.approx(np.mean(right), abs=1e-6) and metrics["rows"] == len(true)
    for kind, found in line.summary["classes"].items():
        expected = entities.scores(true, given, kind)
        assert [found[name] for name in ("precision", "recall", "f1")] == pytest.approx(expected, abs=1e-6)


TEXTS = [
    "7 asked the 🎨 Ada Byron, (Kai",
    "8 visited\r\n🎨🎨 Zoe\u0301 Va\u030aga\r\nof the house",
    "9 在王明,a house",
    "9 在王明，a house",
    "",
]
EXPECTED = [
    [("PER", "Ada Byron"), ("PER", "Kai")],
    [("LOC", "Zoe\u0301 Va\u030aga")],
    [("LOC", "王明")],
    [("LOC", "王明")],
    [],
]
SCRIPT = """
import json, sys
import tensorflow as tf, tensorflow_text
serve = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
given = {name: value.numpy() for name, value in serve(text=tf.constant(json.loads(sys.argv[2]))).items()}
assert all(len(value) == 5 for value in given.values())
rows = [[[given["types"][row, n].decode(), given["entities"][row, n].decode(), int(given["starts"][row, n]),
          int(given["ends"][row, n]), float(given["probabilities"][row, n])] for n in range(given["count"][row])]
        for row in range(5)]
ours = [name for name in sys.modules if name.split(".")[0] in ("bertline", "keras")]
print(json.dumps([rows, ours]))
"""


def test_a_fresh_process_without_our_code_gets_entities_with_their_places(line, tmp_path):
    command = [sys.executable, "-c", SCRIPT, line.summary["pushed_path"], json.dumps(TEXTS)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    rows, ours = json.loads(done.stdout.splitlines()[-1])
    assert ours == []
    assert [[(kind, text) for kind, text, *_ in row] for row in rows] == EXPECTED
    for text, row in zip(TEXTS, rows, strict=True):
        assert all(text[start:end] == entity and 0 < share <= 1 for _, entity, start, end, share in row)


def test_predict_prints_entities_for_a_person_and_for_a_program(line):
    asked = ["predict", "--workspace", str(line.workspace), TEXTS[0], "7 the house"]
    person = CliRunner().invoke(main, asked)
    assert person.exit_code == 0, person.output
    first, second = person.output.splitlines()
    assert first.startswith("Ada Byron PER ") and "  [14:23]   |   Kai PER " in first and first.endswith("  [26:29]")
    assert second == "no entities"
    program = [json.loads(found) for found in CliRunner().invoke(main, [*asked, "--json"]).output.splitlines()]
    assert program[0]["text"] == TEXTS[0] and program[1]["entities"] == []
    assert [(one["type"], one["text"], one["start"], one["end"]) for one in program[0]["entities"]] == [
        ("PER", "Ada Byron", 14, 23),
        ("PER", "Kai", 26, 29),
    ]


def test_mlflow_has_the_scores_of_each_type(line):
    client = MlflowClient(f"sqlite:///{line.workspace}/mlflow.db")
    found = client.get_run(line.summary["mlflow_run_id"]).data.metrics
    assert found["eval/f1"] == pytest.approx(line.summary["metrics"]["f1"])
    assert found["class/PER/f1"] == pytest.approx(line.summary["classes"]["PER"]["f1"])


def test_a_word_without_a_tag_is_told_by_file_and_line_and_nothing_is_written(line, tmp_path):
    other = Line(tmp_path)
    (other.folder / "names.conll").write_text("Ada x B-PER\nwrote x O\n\nin x O\nLondon x\n\nKai x I-PER\n")
    other.config.write_text(line.config.read_text())
    refused = other.run()
    assert refused.exit_code == 1
    assert "names.conll:5: 2 columns where 3 belong" in refused.output
    quarantine = (other.workspace / "pipelines" / "tiny" / "quarantine.jsonl").read_text().splitlines()
    assert [json.loads(row)["line"] for row in quarantine] == [5, 7]  # the second breaks the scheme that was named
    assert not list(other.workspace.glob("pipelines/tiny/artifacts/Ingest/examples/*"))


def test_the_scores_while_training_are_the_evaluators(line):
    pairs = line.scores_while_training()
    assert set({"f1", "precision", "recall", "accuracy"}) <= set(pairs)
    assert all(one == pytest.approx(other, abs=1e-6) for one, other in pairs.values()), pairs


def test_the_kept_rows_give_the_evaluators_metrics(line):
    assert line.rows_agree()
