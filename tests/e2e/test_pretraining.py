"""Pre-training through the whole pipeline: plain documents in, a model that fills masks and an encoder to start from
out."""

import json
import math
import random

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401
import yaml
from click.testing import CliRunner
from lines import UNSERVED, Line
from mlflow.tracking import MlflowClient

from bertline.models.checkpoints import load_encoder, load_heads
from bertline.pipeline.cli import main

pytestmark = pytest.mark.full

# What each animal eats, where it lives and what it does at night follow from the animal: all but the order of the
# sentences can be known.
TOPICS = [
    topic.split()
    for topic in (
        "cat milk house meows", "dog bones yard barks", "bird seeds tree sings", "cow grass field moos",
        "bee honey hive buzzes", "fox berries wood yelps", "frog flies pond croaks", "lion meat plain roars",
        "pig roots sty grunts", "owl mice tower hoots", "duck bread lake quacks", "goat thorns hill bleats",
    )
]  # fmt: skip
SENTENCES = (
    "the {0} eats {1} .",
    "every {0} lives near a {2} .",
    "at night the {0} {3} .",
    "in the {2} there is {1} .",
)
CONFIG = {
    "name": "tiny",
    "task": "pretraining",
    "data": {"path": "documents.txt"},
    "text": {"vocab_size": 300},
    "pretraining": {
        "duplicates": 3,
        "phases": [
            {"seq_len": 16, "epochs": 3, "batch_size": 16},
            {"seq_len": 32, "epochs": 9, "batch_size": 32},
        ],
    },
    "model": {"num_layers": 2, "hidden_dim": 64, "num_heads": 4, "intermediate_dim": 128, "dropout": 0.0},
    "training": {"learning_rate": 0.003, "buckets": [16, 32]},
    "evaluation": {"thresholds": {"mlm_accuracy": 0.95, "nsp_accuracy": 0.75, "perplexity": 1.5}, "length_slices": []},
}


def write_documents(path, count=700):
    chance = random.Random(0)
    documents = []
    for _ in range(count):
        topic = chance.choice(TOPICS)
        sentences = [chance.choice(SENTENCES).format(*topic) for _ in range(chance.randint(4, 10))]
        documents.append("\n".join(sentences))
    path.write_text("\n\n".join(documents) + "\n")


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory) -> Line:
    line = Line(tmp_path_factory.mktemp("pretraining"))
    write_documents(line.folder / "documents.txt")
    line.config.write_text(yaml.safe_dump(CONFIG))
    done = line.run()
    assert done.exit_code == 0, done.output
    return line


def test_what_can_be_known_is_learned(pretrained):
    metrics = pretrained.summary["metrics"]
    assert metrics["mlm_accuracy"] >= 0.95
    assert metrics["nsp_accuracy"] >= 0.75  # a random half may be of the same animal
    assert metrics["perplexity"] == pytest.approx(math.exp(metrics["mlm_loss"]))


def test_the_evaluators_numbers_are_those_of_the_encoder_and_heads_that_were_handed_on(pretrained):
    """Recomputed in plain numpy, from the checkpoint that is left for others and the masks stored with the examples."""
    folder = pretrained.workspace / "models" / "tiny" / "1" / "assets.extra" / "encoder"
    encoder, report = load_encoder(folder)
    assert not report.fresh
    heads = load_heads(folder)
    table = encoder.embeddings.token.embeddings.numpy()
    numbers = ("token_ids", "segment_ids", "masked_positions", "masked_ids")
    spec = {name: tf.io.RaggedFeature(tf.int64) for name in numbers} | {"label": tf.io.FixedLenFeature([], tf.string)}
    losses, right, followed = [], [], []
    for path in (pretrained.artifact("SentencePairs", "pairs") / "Split-eval").iterdir():
        for record in tf.data.TFRecordDataset(str(path), "GZIP"):
            example = tf.io.parse_single_example(record, spec)
            ids, places = example["token_ids"].numpy().copy(), example["masked_positions"].numpy()
            labels = ids[places]
            ids[places] = example["masked_ids"].numpy()
            states = encoder(tf.constant([ids]), example["segment_ids"][None])
            dense = states[0].numpy()[places] @ heads["cls.predictions.transform.dense.weight"].T
            dense = tf.nn.gelu(dense + heads["cls.predictions.transform.dense.bias"], approximate=False).numpy()
            centred = dense - dense.mean(axis=1, keepdims=True)
            normed = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-12)
            normed = normed * heads["cls.predictions.transform.LayerNorm.weight"]
            logits = (normed + heads["cls.predictions.transform.LayerNorm.bias"]) @ table.T + heads["cls.predictions.bias"]
            shares = tf.nn.log_softmax(logits).numpy()
            losses += [-share[label] for share, label in zip(shares, labels, strict=True)]
            right += (shares.argmax(axis=1) == labels).tolist()
            follows = encoder.pool(states).numpy()[0] @ heads["cls.seq_relationship.weight"].T
            predicted = (follows + heads["cls.seq_relationship.bias"]).argmax()
            followed.append([b"next", b"random"][predicted] == example["label"].numpy())
    metrics = pretrained.summary["metrics"]
    assert len(followed) == metrics["rows"]
    assert np.mean(right) == pytest.approx(metrics["mlm_accuracy"], abs=1e-5)
    assert np.mean(losses) == pytest.approx(metrics["mlm_loss"], abs=1e-4)
    assert np.mean(followed) == pytest.approx(metrics["nsp_accuracy"], abs=1e-5)


def predict(line, *arguments):
    return CliRunner().invoke(main, ["predict", "--workspace", str(line.workspace), *arguments])


def test_the_pushed_model_fills_masks_in_raw_text(pretrained):
    asked = "The [MASK] eats milk. At night the cat [MASK]."
    shown = predict(pretrained, "--mask", asked).output
    first, second = shown.strip().split("   |   ")
    assert first.startswith("cat ") and second.startswith("meows ")
    answer = json.loads(predict(pretrained, "--mask", "--json", asked).output)
    assert [fillings[0] for fillings in answer["fillings"]] == ["cat", "meows"]


def test_a_fine_tuning_starts_from_the_recorded_run_by_one_line(pretrained, tmp_path):
    run_id, uri = pretrained.summary["mlflow_run_id"], pretrained.summary["mlflow_uri"]
    line = Line(tmp_path)
    config = yaml.safe_load(line.config.read_text())
    config["model"] = {"checkpoint": f"runs:/{run_id}"}
    config["tracking"] = {"uri": uri, "experiment": "fine-tuning"}
    config["training"]["epochs"] = 1
    config |= UNSERVED
    config["evaluation"]["thresholds"] = {"accuracy": 0.0}
    line.config.write_text(yaml.safe_dump(config))
    done = line.run()
    assert done.exit_code == 0, done.output
    recorded = MlflowClient(uri).get_run(line.summary["mlflow_run_id"]).data
    pushed = pretrained.workspace / "models" / "tiny" / "1"
    assert recorded.tags["encoder_run"] == run_id
    assert recorded.params["model.checkpoint"] == str(pushed / "assets.extra" / "encoder")
    # The handed-on vocabulary and reading are taken over with the weights.
    metadata = json.loads((tmp_path / "workspace" / "models" / "tiny" / "1" / "assets.extra" / "bertline.json").read_text())
    assert metadata["text"]["tokenizer_variant"] == "huggingface"
    given = (pushed / "assets" / "vocab.txt").read_text()
    assert (tmp_path / "workspace" / "models" / "tiny" / "1" / "assets" / "vocab.txt").read_text() == given
    # The pushed folder by its path is the same start: nothing is trained again.
    config["model"] = {"checkpoint": str(pushed)}
    line.config.write_text(yaml.safe_dump(config))
    assert line.run().exit_code == 0 and line.steps_run() == []


def test_a_second_run_is_answered_from_the_cache(pretrained):
    assert pretrained.run().exit_code == 0
    assert pretrained.steps_run() == []


def test_the_kept_rows_give_the_evaluators_metrics(pretrained):
    assert pretrained.rows_agree()
