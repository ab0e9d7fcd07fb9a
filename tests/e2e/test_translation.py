"""Parallel text through the whole pipeline: two files in, translations over the signatures out, judged by sacreBLEU."""

import json
import subprocess
import sys

import numpy as np
import pytest
import sacrebleu
import tensorflow as tf
import tensorflow_text  # noqa: F401
import yaml
from click.testing import CliRunner
from lines import Line
from mlflow.tracking import MlflowClient

from bertline.pipeline.cli import main
from bertline.pipeline.settings.source import PRESET_FOLDER

# Word by word, so that a few hundred sentences teach it; an article agrees with the word behind it.
NOUNS = {
    "man": ("der", "Mann"),
    "woman": ("die", "Frau"),
    "child": ("das", "Kind"),
    "dog": ("der", "Hund"),
    "café": ("das", "Café"),
}
VERBS = {"sees": "sieht", "likes": "mag", "paints": "malt"}
ENDS = [".", "!", " (again)."]
GERMAN_ENDS = [".", "!", " (wieder)."]


def sentences():
    for subject, (article, noun) in NOUNS.items():
        for verb, german in VERBS.items():
            for thing, (_, name) in NOUNS.items():
                for end, its in zip(ENDS, GERMAN_ENDS, strict=True):
                    for many, viele in (("two", "zwei"), ("three", "drei"), ("four", "vier")):
                        yield (
                            f"The {subject} {verb} {many} of {thing}{end}",
                            f"{article.title()} {noun} {german} {viele} {name}{its}",
                        )


@pytest.fixture(scope="module")
def line(tmp_path_factory):
    line = Line(tmp_path_factory.mktemp("translation"))
    rows = list(sentences())
    order = np.random.default_rng(0).permutation(len(rows))
    for name, chosen in (("train", order[60:]), ("val", order[:60])):
        for ending, side in (("en", 0), ("de", 1)):
            (line.folder / f"{name}.{ending}").write_text("".join(f"{rows[at][side]}\n" for at in chosen), encoding="utf-8")
    preset = yaml.safe_load((PRESET_FOLDER / "copy-tiny.yaml").read_text())
    config = {
        **preset,
        "name": "tiny",
        "data": {"format": "parallel", "train": "train.en", "eval": "val.en", "text": "en", "label": "de"},
        "training": {**preset["training"], "epochs": 14, "average_epochs": 2},
        "evaluation": {"thresholds": {"bleu": 60}, "max_drop": 0.5, "length_slices": [7]},
    }
    line.config.write_text(yaml.safe_dump(config, allow_unicode=True))
    done = line.run()
    assert done.exit_code == 0, done.output
    return line


@pytest.fixture(scope="module")
def signatures(line):
    return tf.saved_model.load(line.summary["pushed_path"]).signatures


@pytest.fixture(scope="module")
def evaluation(line):
    return [(line.folder / f"val.{ending}").read_text(encoding="utf-8").splitlines() for ending in ("en", "de")]


def texts(values):
    return [text.decode() for text in values.numpy()]


def test_sentences_that_were_never_seen_are_translated(line):
    assert line.summary["metrics"]["bleu"] >= 60
    assert line.summary["metrics"]["rows"] == 60


def test_the_evaluators_bleu_is_sacrebleus_on_the_served_models_translations(line, signatures, evaluation):
    sources, references = evaluation
    for signature, prefix in (("serving_default", ""), ("greedy", "greedy_")):
        written = texts(signatures[signature](text=tf.constant(sources))["translation"])
        metrics = line.summary["metrics"]
        assert metrics[f"{prefix}bleu"] == pytest.approx(sacrebleu.corpus_bleu(written, [references]).score, abs=1e-6)
        assert metrics[f"{prefix}chrf"] == pytest.approx(sacrebleu.corpus_chrf(written, [references]).score, abs=1e-6)


def test_the_best_ones_come_best_first(signatures, evaluation):
    found = signatures["serving_default"](text=tf.constant(evaluation[0]))
    assert found["n_best"].shape == (60, 2)
    assert (np.diff(found["n_best_scores"], axis=1) <= 0).all()
    assert texts(found["translation"]) == texts(found["n_best"][:, 0])
    np.testing.assert_array_equal(found["score"], found["n_best_scores"][:, 0])


def test_one_text_is_translated_as_in_a_batch(signatures, evaluation):
    serve = signatures["serving_default"]
    together = serve(text=tf.constant(evaluation[0][:8]))
    for row, text in enumerate(evaluation[0][:8]):
        assert texts(serve(text=tf.constant([text]))["translation"])[0] == texts(together["translation"])[row]


def test_chance_follows_its_seed_and_cools_down_to_greedy(signatures, evaluation):
    some = tf.constant(evaluation[0][:6])

    def drawn(temperature, seed):
        rules = {"temperature": tf.fill([6], temperature), "top_k": tf.zeros([6], tf.int32), "top_p": tf.ones([6])}
        return texts(
            signatures["sample"](text=some, seed=tf.fill([6], tf.constant(seed, tf.int64)), **rules)["translation"]
        )

    assert drawn(3.0, 1) == drawn(3.0, 1) != drawn(3.0, 2)
    assert drawn(0.0, 1) == texts(signatures["greedy"](text=some)["translation"])


def test_every_piece_says_where_it_looked(signatures):
    found = signatures["align"](text=tf.constant(["The dog sees two of man.", "The café likes four of child (again)."]))
    weights = found["alignment"].numpy()
    for row, (source, target) in enumerate(
        zip(found["source_pieces"].numpy(), found["target_pieces"].numpy(), strict=True)
    ):
        read, written = (source != b"").sum(), (target != b"").sum()
        np.testing.assert_allclose(weights[row, :written].sum(axis=1), 1, atol=1e-5)
        assert (weights[row, written:] == 0).all() and (weights[row, :, read:] == 0).all()


SCRIPT = """
import sys
import tensorflow as tf, tensorflow_text
serve = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
print(serve(text=tf.constant(["The woman paints three of dog!"]))["translation"].numpy()[0].decode())
"""


def test_a_fresh_process_without_our_code_translates(line, tmp_path):
    command = [sys.executable, "-c", SCRIPT, line.summary["pushed_path"]]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines()[-1].endswith("!")


def test_predict_prints_translations_one_a_line(line, evaluation):
    asked = ["predict", "--workspace", str(line.workspace)]
    person = CliRunner().invoke(main, [*asked, *evaluation[0][:3]])
    assert person.exit_code == 0, person.output
    assert sacrebleu.corpus_bleu(person.output.splitlines(), [evaluation[1][:3]]).score > 30
    program = CliRunner().invoke(main, [*asked, "--json", "--n-best", "2", evaluation[0][0]])
    assert json.loads(program.output)["translation"] == person.output.splitlines()[0]


def test_mlflow_has_the_scores_of_every_epoch(line):
    client = MlflowClient(f"sqlite:///{line.workspace}/mlflow.db")
    run = line.summary["mlflow_run_id"]
    assert client.get_run(run).data.metrics["eval/bleu"] == pytest.approx(line.summary["metrics"]["bleu"])
    for name in ("bleu", "chrf", "greedy_bleu", "greedy_chrf", "perplexity", "loss"):
        assert len(client.get_metric_history(run, f"eval_epoch/{name}")) == 14


def test_the_kept_rows_give_the_evaluators_metrics(line):
    assert line.rows_agree()


def test_the_best_epoch_was_exported(line):
    history = [json.loads(text) for text in (line.artifact("Trainer", "model_run") / "history.jsonl").open()]
    best = max(record["eval_bleu"] for record in history if "eval_bleu" in record)
    assert line.summary["metrics"]["bleu"] == pytest.approx(best, abs=1e-6)


def test_files_whose_lines_do_not_go_together_stop_the_pipeline(line, tmp_path):
    other = Line(tmp_path)
    for name in ("train.en", "train.de", "val.en", "val.de"):
        (other.folder / name).write_text((line.folder / name).read_text(encoding="utf-8"), encoding="utf-8")
    with (other.folder / "train.de").open("a", encoding="utf-8") as file:
        file.write("Einer zu viel.\n")
    other.config.write_text(line.config.read_text())
    refused = other.run()
    assert refused.exit_code == 1 and "train.de" in refused.output and "Traceback" not in refused.output


@pytest.mark.full
def test_two_vocabularies_are_two_files_of_the_model(line, tmp_path):
    other = Line(tmp_path)
    for name in ("train.en", "train.de", "val.en", "val.de"):
        (other.folder / name).write_text((line.folder / name).read_text(encoding="utf-8"), encoding="utf-8")
    other.config.write_text(line.config.read_text())
    quick = (
        "--set",
        "text.separate_vocabularies=true",
        "--set",
        "training.epochs=1",
        "--set",
        "evaluation.thresholds={perplexity: 1000}",
    )
    done = other.run(*quick)
    assert done.exit_code == 0, done.output
    assets = {
        path.name: path.read_text(encoding="utf-8").split()
        for path in (tmp_path / other.summary["pushed_path"] / "assets").iterdir()
    }
    source, target = (next(words for words in assets.values() if word in words) for word in ("T", "D"))
    assert len(assets) == 2 and source != target
