"""Heads of pushed models: what is exported without them answers as the model with them masked."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf
from tiny_pushed import SIZE, TEXTS, push, records

from bertline.components.pruning.heads import PushedHeads, check_prunable
from bertline.components.pruning.plots import draw_plots
from bertline.components.pruning.side_by_side import side_by_side
from bertline.components.serve_check.executor import differences, read_samples
from bertline.models.adapters.head_importance import mask_without
from bertline.models.adapters.lora import find_encoder
from bertline.models.checkpoints import load_encoder, load_heads
from bertline.pipeline.core import events
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.runs.eval_examples import evaluation_records, records_of_file
from bertline.serving.contract import ENCODER, METADATA_FILE, folder_bytes, read_metadata
from bertline.serving.export.saved_model import ServedModel

LOST = {0: [0, 1, 2, 3], 1: [2]}
"""The first layer has no head left."""


@pytest.fixture(scope="module")
def heads(tmp_path_factory):
    return PushedHeads(push("classification", tmp_path_factory.mktemp("pushed") / "1"), records("classification"))


@pytest.fixture(scope="module")
def smaller(heads):
    return heads.export(LOST, heads.folder.parent / "smaller")


def asked(folder, name):
    model = tf.saved_model.load(str(folder))
    return {key: value.numpy() for key, value in model.signatures["serving_examples"](examples=records(name)).items()}


def masked(heads, name):
    """What the model answers with the heads masked, by the functions that are exported."""
    tf.config.run_functions_eagerly(True)
    try:
        with find_encoder(heads.model).masking(mask_without(SIZE, LOST)):
            given = ServedModel(heads.task, heads.context, heads.model).predict_examples(tf.constant(records(name)))
    finally:
        tf.config.run_functions_eagerly(False)
    return {key: value.numpy() for key, value in given.items()}


def test_an_exported_pruned_model_answers_as_the_masked_one_and_is_smaller(heads, smaller):
    given = asked(smaller, "classification")
    reasons, largest = differences(masked(heads, "classification"), given)
    assert reasons == [] and largest <= 1e-5
    before = asked(heads.folder, "classification")
    assert np.abs(before["probabilities"] - given["probabilities"]).max() > 0.01
    assert folder_bytes(smaller) < folder_bytes(heads.folder)
    weights = [folder / "variables" / "variables.data-00000-of-00001" for folder in (smaller, heads.folder)]
    # Five heads of size 4, of each three projections with a bias, and the rows of the output's; four bytes a number.
    assert weights[1].stat().st_size - weights[0].stat().st_size == 4 * 5 * (3 * (16 * 4 + 4) + 4 * 16)


def test_a_pruned_model_brings_along_what_the_other_does(heads, smaller):
    metadata, before = read_metadata(smaller), read_metadata(heads.folder)
    assert metadata["pruned"]["heads"] == 3 and metadata["pruned"]["of"] == 8 and len(metadata["pruned"]["digest"]) == 64
    assert metadata["model"]["size"]["pruned"] == [[0, 1, 2, 3], [2]]
    same = ("pipeline", "task", "labels", "text_keys", "columns", "text")
    assert {key: metadata[key] for key in same} == {key: before[key] for key in same}
    samples, others = read_samples(smaller), read_samples(heads.folder)
    assert [sample.inputs for sample in samples] == [sample.inputs for sample in others] and len(samples) == 2
    signature = tf.saved_model.load(str(smaller)).signatures["serving_default"]
    for sample in samples:
        given = signature(**{name: tf.constant(value) for name, value in sample.inputs.items()})
        assert differences(sample.outputs, {name: value.numpy() for name, value in given.items()})[0] == []


def test_a_pre_trained_model_leaves_its_smaller_encoder_for_others(tmp_path):
    heads = PushedHeads(push("pretraining", tmp_path / "1"), records("pretraining"))
    out = heads.export(LOST, tmp_path / "smaller")
    assert differences(masked(heads, "pretraining"), asked(out, "pretraining"))[0] == []
    encoder, _ = load_encoder(out / ENCODER)
    assert encoder.size.pruned == ((0, 1, 2, 3), (2,)) and "cls.predictions.bias" in load_heads(out / ENCODER)
    assert json.loads((out / ENCODER / "config.json").read_text())["pruned_heads"] == {"0": [0, 1, 2, 3], "1": [2]}


def test_metrics_and_ablation_are_those_of_the_masked_model(heads):
    labels = np.arange(24) % 3
    shares = masked(heads, "classification")["probabilities"]
    given = heads.metrics(LOST)
    assert given["accuracy"] == pytest.approx((shares.argmax(axis=1) == labels).mean())
    assert given["cross_entropy"] == pytest.approx(-np.log(shares[range(24), labels]).mean(), rel=1e-4)
    seen = []
    found = heads.importance("ablation", "cross_entropy", lambda *done: seen.append(done))
    one = heads.metrics({1: [3]})["cross_entropy"] - heads.metrics()["cross_entropy"]
    assert found[1, 3] == pytest.approx(one, abs=1e-9) and found.shape == (2, 4) and seen[-1] == (8, 8)


def test_a_curve_goes_from_few_heads_to_all_of_them(heads):
    importance = heads.importance("gradient")
    points = heads.curve(importance, "cross_entropy", (0.1, 0.5, 1.0))
    assert [(point.keep, point.heads) for point in points] == [(0.125, 1), (0.5, 4), (1.0, 8)]
    assert points[-1].value == heads.metrics()["cross_entropy"]
    assert points[1].value == heads.metrics(heads.least_important(importance, 4))["cross_entropy"]
    report = {"importance": {"gradient": importance.tolist()}, "lost": {"1": [2]}, "metric": "cross_entropy", "rows": 24,
              "curve": [point._asdict() for point in points], "heads_before": 8, "heads_after": 4}  # fmt: skip
    assert {name: len(figure.axes) for name, figure in draw_plots(report).items()} == {
        "head_importance.png": 2,
        "heads_kept.png": 1,
    }


def test_two_models_are_compared_on_the_same_rows(heads, smaller):
    found = side_by_side(heads.folder, smaller, heads.task, heads.context.labels, records("classification"))
    assert found.parameters[0] - found.parameters[1] == 5 * (3 * (16 * 4 + 4) + 4 * 16)
    assert found.bytes == (folder_bytes(heads.folder), folder_bytes(smaller)) and min(found.rows_per_second) > 0
    for which, lost in enumerate(({}, LOST)):
        measured = {name: spread[which].value for name, spread in found.metrics.items()}
        assert measured == pytest.approx(heads.metrics(lost), rel=1e-4, abs=1e-6)


def test_a_pruned_model_can_be_pruned_further(heads, smaller):
    again = PushedHeads(smaller, records("classification"))
    assert again.count == 3 and np.isnan(again.importance("gradient")).sum() == 5
    assert again.metrics({1: [0]}) == pytest.approx(heads.metrics({0: [0, 1, 2, 3], 1: [0, 2]}), rel=1e-4)
    with pytest.raises(BertlineError, match="the model has 3 heads; keep at least one, and fewer than that. Received: 3"):
        again.least_important(np.ones((2, 4)), 3)


def test_what_cannot_be_done_is_told(heads, tmp_path):
    with pytest.raises(BertlineError, match="smaller already exists; name another folder by --out"):
        (tmp_path / "smaller").mkdir()
        heads.export(LOST, tmp_path / "smaller")
    with pytest.raises(BertlineError, match="has no metric 'acuracy'; did you mean accuracy"):
        heads.metric("acuracy")
    with pytest.raises(BertlineError, match="no evaluation examples to measure its heads on"):
        PushedHeads(heads.folder, [])
    with pytest.raises(BertlineError, match="its task is translation, with an encoder and a decoder"):
        (tmp_path / "assets.extra").mkdir()
        (tmp_path / METADATA_FILE).write_text('{"task": "translation"}')
        check_prunable(tmp_path)
    assert set(TEXTS) == {tiny for tiny in TEXTS if check_task(tiny, tmp_path)}


def check_task(name, folder):
    (folder / METADATA_FILE).write_text(json.dumps({"task": name}))
    check_prunable(folder)
    return True


def test_rows_of_another_file_are_read_as_the_metadata_says(tmp_path):
    (tmp_path / "rows.csv").write_text("body;queue\na good film;good\n;bad\nan advert;spam\nbad;bad\nthe film;good\n")
    data = {"text": "body", "label": "queue", "delimiter": ";", "exclude": {"queue": ["spam"]}, "incomplete": "quarantine"}
    metadata = {"task": "classification", "columns": {"text": "body"}, "data": data}
    noted = []
    with events.listening(noted.append):
        found = records_of_file(str(tmp_path / "rows.csv"), metadata, 2)
    rows = [tf.train.Example.FromString(record).features.feature for record in found]
    texts = [(row["text"].bytes_list.value[0], row["label"].bytes_list.value[0]) for row in rows]
    assert texts == [(b"a good film", b"good"), (b"bad", b"bad")]
    assert "2 examples of" in noted[0].text and "were left out" in noted[0].text


def test_rows_that_cannot_be_had_are_told(tmp_path):
    (tmp_path / "rows.csv").write_text("body,queue\na good film,good\n")
    older = {"task": "classification", "columns": {"text": "body"}}  # which names no column of labels
    with pytest.raises(BertlineError, match="data.label: there is no column 'label'. Columns: body, queue"):
        records_of_file(str(tmp_path / "rows.csv"), older, 10)
    with pytest.raises(BertlineError, match="evaluated on examples that its pipeline has made from documents"):
        records_of_file(str(tmp_path / "rows.csv"), {"task": "pretraining"}, 10)
    with pytest.raises(
        BertlineError, match="has pushed this model, so its evaluation examples are unknown; give its --workspace"
    ):
        evaluation_records({"pipeline": "tiny"}, "ab", tmp_path, 10)


def test_rows_without_a_known_label_have_no_gradient(heads):
    unlabelled = PushedHeads(heads.folder, [tf.train.Example().SerializeToString()])
    with pytest.raises(BertlineError, match="no example has a known label"):
        unlabelled.importance("gradient")
