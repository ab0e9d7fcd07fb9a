"""ServeCheck without TFX: a real export, a server process of its own, gRPC."""

import shutil

import numpy as np
import pytest
import tensorflow as tf
from tiny_models import EVERY, Tiny, make

from bertline.components.serve_check import executor as serve_check_module
from bertline.components.serve_check.executor import differences, read_samples, serve_check, started_early
from bertline.models.tasks.base.task import get_task
from bertline.pipeline.config import CHOICES
from bertline.serving.contract import DEFAULT_SIGNATURE, WARM_UP
from bertline.serving.embedded.lifecycle.warm_up import records
from bertline.serving.export.samples import choose_examples, make_samples, write_samples
from bertline.serving.export.saved_model import export

TEXTS = [b"a good film", b"bad", b"a bad film " * 20, "très 好 film".encode(), b"", b"a a good one"]


def write_examples(path, texts):
    """Raw Examples in which a row has one text for each of the keys, and two choices."""
    with tf.io.TFRecordWriter(str(path), "GZIP") as writer:
        for text in TEXTS:
            feature = {
                key: tf.train.Feature(bytes_list=tf.train.BytesList(value=[text, b"film"] if key == CHOICES else [text]))
                for key in texts
            }
            writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    return str(path)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("check")
    served = make(Tiny("classification", ("text",)), folder)
    context = served._context
    rows = choose_examples(get_task("classification"), context, [write_examples(folder / "raw.gz", ("text",))], 3)
    samples = make_samples(served.predict, rows, "tiny")
    export(served, str(folder / "model"), {"task": "classification"})
    write_samples(samples, folder / "model")
    return folder / "model"


@pytest.fixture
def model(exported, tmp_path):
    return shutil.copytree(exported, tmp_path / "model")


def test_a_model_that_answers_alike_is_blessed(exported):
    report = serve_check(exported, name="tiny", max_ms=60_000)
    assert report.blessed, report.reasons
    assert report.samples == 3 and report.difference <= 1e-5 and 0 < report.median_ms <= report.slowest_ms


def test_a_server_that_was_started_early_is_the_one_that_is_asked_once_and_ends(exported):
    with started_early(exported, "tiny"):
        early = serve_check_module._early[0].server
        assert serve_check(exported, name="tiny", max_ms=60_000).blessed
        assert early.process.poll() is not None and not serve_check_module._early
    with started_early(exported, "tiny"):
        unused = serve_check_module._early[0].server
    assert unused.process.poll() is not None and not serve_check_module._early and not unused.folder.exists()


def test_the_samples_are_short_and_long_rows_of_the_files(exported):
    asked = [sample.inputs["text"].tolist() for sample in read_samples(exported)]
    assert asked[0] == [b"bad"] and asked[-1] == [b"a bad film " * 20] and len(asked) == 3
    (first, *_) = (record.predict_log for record in records(exported))
    assert first.request.model_spec.name == "tiny" and first.request.model_spec.signature_name == DEFAULT_SIGNATURE
    assert first.response.outputs["probabilities"].float_val  # typed fields, which every client reads


def test_another_answer_or_a_slow_one_is_refused_with_every_reason(model):
    logs = list(records(model))
    changed = logs[1].predict_log.response.outputs
    changed["probabilities"].float_val[0] += 0.01
    changed["label"].string_val[0] = b"another"
    write_samples(logs, model)
    report = serve_check(model, name="tiny", max_ms=1e-6)
    assert not report.blessed and len(report.reasons) == 3
    told = "\n".join(report.reasons)
    assert "sample 2 as the trained model did: probabilities is off by 0.01" in told
    assert "instead of 'another'" in told and "above serve_check.max_latency_ms 1e-06" in told


def test_a_model_that_does_not_load_is_refused(model):
    (model / "variables" / "variables.data-00000-of-00001").unlink()
    report = serve_check(model, name="tiny", max_ms=60_000)
    assert not report.blessed and len(report.reasons) == 1 and "cannot be loaded" in report.reasons[0]


def test_damaged_samples_are_refused(model):
    (model / WARM_UP).write_bytes(b"no record of anything")
    report = serve_check(model, name="tiny", max_ms=60_000)
    assert not report.blessed and "the model cannot be served" in report.reasons[0]


@pytest.mark.parametrize("tiny", EVERY, ids=lambda tiny: f"{tiny.task}-{len(tiny.texts)}")
def test_every_task_has_samples_by_the_names_of_its_signature(tiny, tmp_path):
    served, task = make(tiny, tmp_path), get_task(tiny.task)
    rows = choose_examples(task, served._context, [write_examples(tmp_path / "raw.gz", tiny.texts)], 2)
    made_up = choose_examples(task, served._context, [], 2)  # where the files hold no text
    write_samples(make_samples(served.predict, [*rows, *made_up], "tiny"), tmp_path)
    samples = read_samples(tmp_path)
    assert len(samples) == 4
    specs = served.predict.input_signature
    for sample in samples:
        assert [*sample.inputs] and set(sample.inputs) == {spec.name for spec in specs}
        again = served.predict(*(tf.constant(sample.inputs[spec.name]) for spec in specs))
        assert differences(sample.outputs, {name: value.numpy() for name, value in again.items()}) == ([], 0.0)
    if tiny.task == "pretraining":
        assert all(b"[MASK]" in sample.inputs["text"][0] for sample in samples)


def test_no_samples_leave_no_file(tmp_path):
    served = make(EVERY[0], tmp_path)
    rows = choose_examples(get_task("classification"), served._context, [write_examples(tmp_path / "raw.gz", ("text",))], 0)
    write_samples(make_samples(served.predict, rows, "tiny"), tmp_path)
    assert not (tmp_path / WARM_UP).exists()


def test_numbers_may_differ_by_rounding_and_texts_not_at_all():
    expected = {"value": np.float32([1.0, 20_000.0]), "label": np.array([b"a"], object)}
    near = {"value": np.float32([1.000005, 20_000.1]), "label": np.array([b"a"], object)}
    assert differences(expected, near)[0] == []
    far = {"value": np.float32([1.00005, np.nan]), "label": np.array([b"b"], object)}
    assert len(differences(expected, far)[0]) == 2
    infinite = {"value": np.float32([-np.inf, np.nan])}
    assert differences(infinite, dict(infinite)) == ([], 0.0)
    for now in (-5.0, np.inf, np.nan):
        assert differences({"value": np.float32([-np.inf])}, {"value": np.float32([now])})[0]
        assert differences({"value": np.float32([now])}, {"value": np.float32([-np.inf])})[0]
    assert "instead of" in differences(expected, {"value": expected["value"]})[0][0]
    assert "[1]" in differences(expected, {**expected, "value": np.float32([1.0])})[0][0]
