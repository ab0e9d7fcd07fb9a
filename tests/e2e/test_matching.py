"""Texts that get a vector each, through the whole pipeline: learned from pairs that belong together, and from scores."""

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
from scipy import stats

from bertline.models.metrics.retrieval import ranks, reciprocal_rank
from bertline.pipeline.cli import main

pytestmark = pytest.mark.full

# A thing and what it does: no word of a first text is in a second one, so that only learning brings them together.
THINGS = "cat dog fish bird cow 马 wolf bee frog naïve owl mouse".split()
DEEDS = "meows barks swims sings moos 跑 howls hums leaps café hoots squeaks".split()
FILLING = "the a of and 🎨".split()
MODEL = {"num_layers": 2, "hidden_dim": 64, "num_heads": 4, "intermediate_dim": 128, "dropout": 0.0}


def phrase(chance, words):
    filled = [*words, *(chance.choice(FILLING) for _ in range(chance.randint(0, 2)))]
    return " ".join(chance.sample(filled, len(filled)))


def make_pairs(count=900, seed=0):
    chance = random.Random(seed)
    rows = []
    for _ in range(count):
        kinds = chance.sample(range(len(THINGS)), 3)
        question, answer = phrase(chance, [THINGS[kind] for kind in kinds]), phrase(chance, [DEEDS[kind] for kind in kinds])
        rows.append({"question": question, "answer": answer})
    return rows


def make_scores(count=900, seed=0):
    """The score is how many of three things also do something in the second text, in an unusual unit."""
    chance = random.Random(seed)
    rows = []
    for _ in range(count):
        kinds, shared = chance.sample(range(len(THINGS)), 6), chance.randint(0, 3)
        doing = [*kinds[:shared], *kinds[3 : 6 - shared]]
        texts = phrase(chance, [THINGS[kind] for kind in kinds[:3]]), phrase(chance, [DEEDS[kind] for kind in doing])
        rows.append({"one": texts[0], "other": texts[1], "score": str(100 - 40 * (3 - shared))})
    return rows


def run(folder, task, rows, **changes):
    line = Line(folder)
    write_csv(line.folder / "pairs.csv", rows)
    texts = list(rows[0])[:2]
    changes["data"] = {"path": "pairs.csv", "text": texts, "label": "score" if task == "similarity" else None}
    changes["evaluation"] = {"slices": [], "length_slices": [], **changes["evaluation"]}
    line.config = write_config(folder, task=task, model=MODEL, **ALONE, **changes)
    done = line.run()
    assert done.exit_code == 0, done.output
    return line


@pytest.fixture(scope="module")
def matching(tmp_path_factory):
    training = {"epochs": 6, "learning_rate": 0.001, "batch_size": 32}
    evaluation = {"thresholds": {"mrr": 0.6, "recall_at_10": 0.9}}
    return run(tmp_path_factory.mktemp("matching"), "matching", make_pairs(), training=training, evaluation=evaluation)


@pytest.fixture(scope="module")
def similarity(tmp_path_factory):
    training = {"epochs": 12, "learning_rate": 0.001, "batch_size": 32}
    evaluation = {"thresholds": {"spearman": 0.85}}
    return run(tmp_path_factory.mktemp("similarity"), "similarity", make_scores(), training=training, evaluation=evaluation)


def evaluation(line, **further):
    files = tf.io.gfile.glob(f"{line.artifact('Ingest', 'examples')}/Split-eval/*")
    spec = {name: tf.io.FixedLenFeature([], tf.string) for name in ("text", "text_2")} | further
    return tf.io.parse_example(list(tf.data.TFRecordDataset(files, "GZIP").as_numpy_iterator()), spec)


def test_what_belongs_together_is_found_among_all_evaluation_texts(matching):
    metrics, rows = matching.summary["metrics"], matching.summary["rows"]["eval"]
    by_chance = sum(1 / place for place in range(1, rows + 1)) / rows
    assert metrics["mrr"] >= 0.6 > 5 * by_chance
    assert metrics["recall_at_1"] <= metrics["recall_at_5"] <= metrics["recall_at_10"] and metrics["recall_at_10"] >= 0.9


def test_the_scores_while_training_are_the_evaluators(matching):
    pairs = matching.scores_while_training()
    assert set({"mrr", "recall_at_1"}) <= set(pairs)
    assert all(one == pytest.approx(other, abs=1e-6) for one, other in pairs.values()), pairs


def test_the_evaluators_places_are_those_of_the_embed_signatures_vectors(matching):
    embed = tf.saved_model.load(matching.summary["pushed_path"]).signatures["embed"]
    rows = evaluation(matching)
    questions, answers = (embed(text=rows[name])["vector"].numpy() for name in ("text", "text_2"))
    places = ranks(questions, answers, rows["text_2"].numpy())
    metrics = matching.summary["metrics"]
    assert metrics["mrr"] == pytest.approx(reciprocal_rank(places), abs=0.01)
    assert metrics["recall_at_5"] == pytest.approx(np.mean(places <= 5), abs=0.02)


def test_the_similarity_of_two_texts_is_the_product_of_their_vectors(matching):
    signatures = tf.saved_model.load(matching.summary["pushed_path"]).signatures
    rows = evaluation(matching)
    one, other = (signatures["embed"](text=rows[name])["vector"].numpy() for name in ("text", "text_2"))
    given = signatures["serving_default"](text=rows["text"], text_2=rows["text_2"])["similarity"].numpy()
    np.testing.assert_allclose(given, (one * other).sum(axis=1), atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(one, axis=1), 1, atol=1e-5)


SCRIPT = """
import json, sys
import tensorflow as tf, tensorflow_text
embed = tf.saved_model.load(sys.argv[1]).signatures["embed"]
question = embed(text=tf.constant(["the 马 and cat 🎨 bee"]))["vector"].numpy()
answers = embed(text=tf.constant(["barks swims howls", "meows hums 跑 of", "sings moos leaps a"]))["vector"].numpy()
print(json.dumps((answers @ question[0]).tolist()))
"""


def test_a_fresh_process_without_our_code_finds_the_right_text_by_its_vector(matching, tmp_path):
    command = [sys.executable, "-c", SCRIPT, matching.summary["pushed_path"]]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    assert np.argmax(json.loads(done.stdout.splitlines()[-1])) == 1


def ask(line, *arguments):
    return CliRunner().invoke(main, ["predict", "--workspace", str(line.workspace), *arguments])


def test_predict_gives_a_similarity_and_vectors(matching, tmp_path):
    alike = ask(matching, "cat dog bee", "cat dog bee", "--second", "barks hums meows", "--second", "moos swims leaps")
    right, wrong = (float(answer) for answer in alike.output.splitlines())
    assert right > wrong
    vector = json.loads(ask(matching, "--embed", "--json", "cat dog bee").output)["vector"]
    assert len(vector) == MODEL["hidden_dim"] and np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)
    (tmp_path / "in.txt").write_text("cat dog bee\n马\n", encoding="utf-8")
    done = ask(matching, "--embed", "--file", str(tmp_path / "in.txt"), "--out", str(tmp_path / "out.jsonl"))
    assert done.exit_code == 0, done.output
    first = json.loads((tmp_path / "out.jsonl").read_text().splitlines()[0])
    assert first["vector"] == pytest.approx(vector, abs=1e-5)


def test_scores_in_any_unit_are_learned_by_their_order(similarity):
    assert similarity.summary["metrics"]["spearman"] >= 0.85
    serve = tf.saved_model.load(similarity.summary["pushed_path"]).signatures["serving_default"]
    rows = evaluation(similarity, label=tf.io.FixedLenFeature([], tf.float32))
    given = serve(text=rows["text"], text_2=rows["text_2"])["similarity"].numpy().astype(np.float64)
    spearman = stats.spearmanr(given, rows["label"].numpy()).statistic
    assert similarity.summary["metrics"]["spearman"] == pytest.approx(spearman, abs=1e-4)


def test_the_kept_rows_give_the_evaluators_metrics(matching, similarity):
    assert matching.rows_agree() and similarity.rows_agree()


def test_a_label_is_refused_where_nothing_is_learned_from_it(matching):
    refused = matching.run("--set", "data.label=answer_label")
    assert refused.exit_code == 1 and "data.label: the task matching learns from the texts alone" in refused.output
