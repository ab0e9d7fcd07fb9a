"""`bertline explain` on a model that has learned which words matter: exported, loaded again, and asked why."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner
from lines import BAD, FILLING, GOOD, make_rows
from wordpiece import words_of, write_vocab

from bertline.models.data.batching import Corpus
from bertline.models.encoders.bert.backbone import Encoder, EncoderSize
from bertline.models.tasks.base.task import Context, get_task
from bertline.models.tokenization.tokenizer import TextEncoder
from bertline.models.tokenization.vocabulary import SPECIAL_TOKENS
from bertline.models.training.loop import train
from bertline.pipeline.cli import main
from bertline.pipeline.config import TextConfig, TrainingConfig
from bertline.pipeline.inference.explain import explain, page
from bertline.pipeline.inference.explain.loading import find, load
from bertline.serving.contract import read_metadata, write_metadata
from bertline.serving.export.saved_model import ServedModel, export

TASK = get_task("classification")
LABELS = ("bad", "good", "plain")
TEXT = TextConfig(seq_len=40)
PLANTED = {*GOOD, *BAD}


def vocabulary() -> list[str]:
    whole = [word for word, _, _ in words_of(" ".join([*GOOD, *BAD, *FILLING]), True)]
    digits = [f"{begin}{digit}" for begin in ("", "##") for digit in range(10)]
    # Some planted words are several tokens.
    cut = [word for word in dict.fromkeys(whole) if word not in ("wonderful", "lifeless")]
    return [*SPECIAL_TOKENS, *cut, "wonder", "##ful", "life", "##less", *digits]


def rows_to_learn_from() -> list[dict[str, str]]:
    """Every third is without its planted word, and plain: or else a model might answer "good" to whatever is not bad, and
    the good words would indeed add nothing."""
    return [row if number % 3 else _plain(row) for number, row in enumerate(make_rows(480, seed=1))]


def _plain(row: dict[str, str]) -> dict[str, str]:
    return {"text": " ".join(word for word in row["text"].split(" ") if word not in PLANTED), "label": "plain"}


def corpus(rows: list[dict[str, str]], text: TextEncoder) -> Corpus:
    ids = text(tf.constant([row["text"] for row in rows]))
    labels = np.asarray([LABELS.index(row["label"]) for row in rows], np.int64)
    return Corpus(ids.flat_values.numpy(), ids.row_splits.numpy(), {"label_id": labels})


@pytest.fixture(scope="module")
def pushed(tmp_path_factory):
    """The folder of versions of a model that knows good and bad reviews by one word of each."""
    folder = tmp_path_factory.mktemp("planted")
    tokens = vocabulary()
    text = TextEncoder.from_config(write_vocab(folder, tokens), TEXT)
    context = Context(text, LABELS)
    size = EncoderSize(vocab_size=len(tokens), layers=1, hidden=64, heads=2, intermediate=64, max_positions=40)
    settings = TrainingConfig(epochs=16, batch_size=16, learning_rate=5e-3, buckets=(40,))
    rows = rows_to_learn_from()
    result = train(
        lambda: TASK.model.build(Encoder(size, seed=1), context, 0.0, 1),
        TASK,
        settings,
        corpus(rows[:440], text),
        corpus(rows[440:], text),
        checkpoint_folder=folder / "checkpoints",
    )
    metadata = {"task": TASK.name, "labels": list(LABELS), "text_keys": ["text"], "text": TEXT.model_dump()}
    export(ServedModel(TASK, context, result.model), str(folder / "models" / "3"), metadata)
    return folder / "models"


def test_the_word_that_was_planted_adds_the_most(pushed):
    explainer, rows = load(find(pushed)), make_rows(40, seed=2)  # which it has not seen
    best, errors = [], []
    for row in rows:
        found = explainer.explain({"text": row["text"].encode()}).attributions[0]
        assert found.name == row["label"]
        best.append(found.reading.words[int(found.words.argmax())].shown in PLANTED)
        errors.append(abs(found.words.sum() - (found.found.score - found.found.baseline)))
    assert np.mean(best) >= 0.95
    assert max(errors) < 1e-3


def call(*arguments):
    result = CliRunner().invoke(main, ["explain", *map(str, arguments)])
    return result.exit_code, result.output


def test_the_command_shades_words_with_and_without_colours_and_gives_json(pushed, monkeypatch, tmp_path):
    text = "The film, a wonderful étude of its plot"
    code, plain = call(pushed / "3", text)
    assert code == 0 and plain.startswith("output  good")
    assert "wonderful(+" in plain and "[12:21]" in plain and "█" in plain and "\x1b" not in plain
    assert "log-odds +" in plain and "for the baseline" in plain
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLORTERM", "truecolor")
    assert "48;2;0;114;178mwonderful" in call(pushed / "3", text)[1]
    monkeypatch.undo()

    # A planted word argues against "plain". Of "bad" nothing follows: the log-odds of a good text may be nearer to it.
    code, given = call(pushed, text, "--label", "plain", "--json", "--attention", "--html", tmp_path / "why.html")
    found = json.loads(given.splitlines()[0])
    (attribution,) = found["attributions"]
    words = {word["shown"]: word for word in attribution["words"]}
    assert code == 0 and attribution["of"] == "plain" and words["wonderful"]["added"] < 0
    assert min(words, key=lambda word: words[word]["added"]) == "wonderful"
    assert text[words["étude"]["start"] : words["étude"]["end"]] == "étude"
    change = attribution["score"] - attribution["baseline"]
    assert attribution["complete"] and abs(sum(word["added"] for word in words.values()) - change) < 1e-3
    layers = found["attention"]["encoder"]["layers"]
    assert np.shape([layer["weights"] for layer in layers])[:2] == (1, 2)
    np.testing.assert_allclose(np.sum([layer["weights"] for layer in layers], axis=-1), 1, atol=1e-4)
    assert "wonderful" in (tmp_path / "why.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("command", [["explain"], ["predict", "--model"]])
def test_nothing_is_said_beside_the_answer_unless_something_is_wrong(pushed, command, tmp_path):
    def told(folder):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TF_CPP")}
        asked = [*command, str(folder), "a wonderful film"]
        script = "from bertline.pipeline.cli import main; main()"
        return subprocess.run([sys.executable, "-c", script, *asked], capture_output=True, text=True, env=environment)

    done = told(pushed / "3")
    assert done.returncode == 0 and done.stdout and done.stderr == ""
    broken = shutil.copytree(pushed / "3", tmp_path / "broken")
    (broken / "variables" / "variables.index").write_bytes(b"no index")
    done = told(broken)
    assert done.returncode == 1 and "variables" in done.stderr


def test_from_python_it_takes_a_line(pushed):
    found = explain(pushed, "the wonderful film")
    assert found.words == ["the", "wonderful", "film"] and found.attributions[0].words.argmax() == 1
    assert found.attentions["encoder"].layers[0].shape == (2, 6, 6)  # [CLS] the wonder ##ful film [SEP]
    assert page(found)._repr_html_().startswith("<iframe")


def test_what_cannot_be_explained_is_told_in_a_sentence(pushed, tmp_path):
    for arguments, told in {
        (tmp_path, "text"): "no SavedModel here, nor has a pipeline of that name",
        ("s3://bucket/model", "text"): "looked into on this machine; copy its folder here",
        (pushed, " "): "no word in the text that could explain anything",
        (pushed, "film", "--label", "worse"): "the model knows no such class; there are bad, good, plain",
        (pushed, "text", "--second", "more"): "the model reads one text; leave out --second",
        (pushed, "text", "--choice", "this"): "the model does not choose between endings; leave out --choice",
        (pushed, "text", "--attention"): "--attention goes with --json",
        (pushed, "text", "--html", tmp_path / "none" / "why.html"): "name a file in a folder that can be written to",
    }.items():
        code, output = call(*arguments)
        assert code == 1 and told in output and "Traceback" not in output


def test_a_version_that_was_pushed_before_is_refused(pushed, tmp_path):
    """It has metadata, and nothing inside that explains it."""
    tf.saved_model.save(tf.Module(), str(tmp_path / "1"))
    write_metadata(tmp_path / "1", read_metadata(pushed / "3"))
    code, output = call(tmp_path / "1", "text")
    assert code == 1 and "without the graphs for explanations; run the pipeline again" in output
