"""What the Trainer's probe predicts is a baseline of the Evaluator."""

import numpy as np
import pytest
import tensorflow as tf
from made_rows import make
from tiny_pushed import CLASSES as LABELS
from tiny_pushed import built, records

from bertline.components.baselines.data import Examples, Given, ids_of, read_examples
from bertline.components.baselines.judgement import lost_to
from bertline.components.baselines.measurement import Measured
from bertline.components.baselines.probe import probe
from bertline.components.baselines.scores import of_predictions
from bertline.components.trainer.probe_predictions import write_probe
from bertline.models.data.batching import padded
from bertline.models.data.example_parsing import features_of
from bertline.models.tasks.base.task import get_task, raw_features
from bertline.models.training.probing import Linear, Probe
from bertline.pipeline.config import EvaluationConfig

KEYS = ("text", "text_2")


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """The path of what a probe left, the rows of a model that knows nothing, and what a model with its head answers."""
    folder = tmp_path_factory.mktemp("probe")
    task, context, model = built("multilabel", folder, pooling="pair")
    with tf.io.TFRecordWriter(str(folder / "eval.gz"), "GZIP") as writer:
        for record in records("multilabel"):
            writer.write(record)
    path, files = str(folder / "probe.npz"), [str(folder / "eval.gz")]
    layer = Linear(model.head.kernel.numpy(), model.head.bias.numpy())
    write_probe(path, Probe("pair", layer, {}, 100), task, context, model.encoder, files)
    features = features_of(tf.constant(records("multilabel")), task, context)
    answers = task.evaluation.measure(model(padded(features)), {}, context)
    raw = raw_features(task, KEYS)
    examples = read_examples(files, raw)
    targets = task.evaluation.targets(features)
    output = task.evaluation.outputs[""]
    label = targets[output.label].numpy()
    outputs = {"": (label, np.full(label.shape, 0.5), targets[output.weight].numpy())}
    texts = {key: examples.texts(key) for key in KEYS}
    rows = make("multilabel", outputs, texts, LABELS, [f"{name}-{at}" for at, name in enumerate(ids_of(examples, raw))])
    return path, Given(Examples([]), examples, rows), answers[output.prediction].numpy()


def test_a_probe_is_judged_by_what_a_model_with_its_head_answers(asked):
    path, given, answers = asked
    (found,) = probe(given, path)
    every = np.ones(len(given.rows), np.int64)
    assert found.name == "probe"
    wanted = of_predictions("model", given.rows, {"": answers}).score(every)
    assert wanted and found.score(every) == pytest.approx(wanted, abs=1e-5)


def test_without_a_prediction_for_each_example_there_is_no_such_baseline(asked, tmp_path):
    path, given, _ = asked
    assert list(probe(given, str(tmp_path / "none.npz"))) == []
    np.savez(tmp_path / "fewer.npz", ids=np.asarray(["other"]), predictions=np.zeros((1, len(LABELS))))
    assert list(probe(given, str(tmp_path / "fewer.npz"))) == []


def refused(baseline, **told):
    """Why a model that is always wrong is refused, beside a baseline that is always right."""
    label = np.arange(100) % 2
    rows = make("classification", {"": (label, np.eye(2)[1 - label], np.ones(100, np.float32))}, labels=("a", "b"))
    right = of_predictions(baseline, rows, {"": np.eye(2)[label]})
    measured = Measured((right,), {baseline: right.score(np.ones(100, np.int64))}, rows)
    (reason,) = lost_to(measured, get_task("classification"), EvaluationConfig(thresholds={"accuracy": 0.0}), **told)
    return reason


def test_a_model_that_fine_tuning_made_worse_is_told_so():
    reason = refused("probe", long_enough=True)
    assert "1.0000 of the baseline probe" in reason and "fine-tuning has done harm" in reason


def test_more_epochs_are_no_way_out_of_a_training_that_was_long_enough():
    assert "more epochs" in refused("tf-idf")
    reason = refused("tf-idf", long_enough=True)
    assert "try a checkpoint of this language" in reason and "epochs" not in reason
