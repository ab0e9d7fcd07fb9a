"""Regression: a number an example, and nothing learned from a row that has none."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf
from wordpiece import VOCAB, write_vocab

from bertline.components.ingest.readers.records import BadRow, Row
from bertline.components.ingest.rows import NOT_A_NUMBER, sort_example
from bertline.models.data.batching import padded, read_corpus
from bertline.models.encoders.bert.backbone import Encoder, EncoderSize
from bertline.models.tasks.base.task import Context, get_task
from bertline.models.tokenization.tokenizer import TextEncoder
from bertline.pipeline.config import DataConfig
from bertline.serving.export.saved_model import ServedModel

TASK = get_task("regression")


@pytest.fixture(scope="module")
def context(tmp_path_factory):
    return Context(TextEncoder(write_vocab(tmp_path_factory.mktemp("vocab"), VOCAB), seq_len=16), ())


def make_model(context):
    size = EncoderSize(vocab_size=len(VOCAB), layers=1, hidden=8, heads=2, intermediate=16)
    return TASK.model.build(Encoder(size, seed=3), context, 0.0, 3)


def columns(labels):
    texts = ["the cafe", "abc", "the the un"][: len(labels)]
    return {"text": tf.constant(texts), "label": tf.constant(labels, tf.float32)}


def test_the_loss_is_the_squared_error_of_each_row(context):
    model, batch = make_model(context), padded(TASK.preprocessing.features(columns([4.5, -1.0, 0.0]), context))
    outputs = model(batch)
    assert outputs.shape == (3, 1)
    expected = (outputs.numpy()[:, 0] - [4.5, -1.0, 0.0]) ** 2
    np.testing.assert_allclose(TASK.objective.loss(outputs, batch), expected, rtol=1e-5)
    assert np.isnan(TASK.objective.accuracy(outputs, batch)).all()


def test_the_answer_is_one_number_a_row(context):
    model, batch = make_model(context), padded(TASK.preprocessing.request(columns([0.0] * 3), context))
    answer = TASK.serving.signature(model(batch), batch, context)
    assert list(answer) == ["value"] and answer["value"].shape == (3,)
    assert TASK.serving.response.readable({"value": np.float32(3.14159)}) == "3.142"


def example(**features):
    kinds = {str: lambda v: {"bytes_list": tf.train.BytesList(value=[v.encode()])}}
    kinds[float] = lambda v: {"float_list": tf.train.FloatList(value=[v])}
    made = {name: tf.train.Feature(**kinds[type(value)](value)) for name, value in features.items()}
    return tf.train.Example(features=tf.train.Features(feature=made)).SerializeToString()


def test_an_example_without_a_label_has_no_weight(context):
    served = ServedModel(TASK, context, make_model(context))
    records = tf.constant([example(text="the", label=2.5), example(text="abc")])
    targets = {name: value.numpy().tolist() for name, value in served.evaluation_targets(records).items()}
    assert targets == {"label_value": [2.5, 0.0], "label_weight": [1.0, 0.0]}


def test_rows_without_a_number_are_not_learned_from(tmp_path):
    path = str(tmp_path / "rows.gz")
    with tf.io.TFRecordWriter(path, tf.io.TFRecordOptions(compression_type="GZIP")) as writer:
        for value in (1.0, math.nan, -2.0):
            tokens = tf.train.Feature(int64_list=tf.train.Int64List(value=[2, 5, 3]))
            label = tf.train.Feature(float_list=tf.train.FloatList(value=[value]))
            features = tf.train.Features(feature={"ids": tokens, "label_value": label})
            writer.write(tf.train.Example(features=features).SerializeToString())
    spec = {
        "token_ids": tf.io.RaggedFeature(tf.int64, value_key="ids"),
        "label_value": tf.io.FixedLenFeature([], tf.float32),
    }
    assert read_corpus([path], spec).targets["label_value"].tolist() == [1.0, -2.0]


@pytest.mark.parametrize(("given", "number"), [("4.25", 4.25), (" -3 ", -3.0), ("1e-3", 0.001)])
def test_a_label_becomes_a_number(given, number):
    kept = sort_example(Row("a.csv", 2, {"text": "a", "label": given}), DataConfig(path="a.csv"), "train", (), "number")
    assert kept.features["label"] == number and kept.labels == ()


@pytest.mark.parametrize("given", ["high", "4,25", "nan", "inf", "1_000x"])
def test_a_label_that_is_no_number_is_a_bad_row_with_its_place(given):
    bad = sort_example(Row("a.csv", 7, {"text": "a", "label": given}), DataConfig(path="a.csv"), "train", (), "number")
    assert isinstance(bad, BadRow) and bad.kind == NOT_A_NUMBER and bad.line == 7 and repr(given) in bad.reason
