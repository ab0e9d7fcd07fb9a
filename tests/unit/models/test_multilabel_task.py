"""Several classes a row: from a list or a delimited column to one decision a class."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from wordpiece import VOCAB, write_vocab

from bertline.components.ingest.files import InputFile
from bertline.components.ingest.readers.records import NESTED, BadRow, Row
from bertline.components.ingest.readers.registry import read
from bertline.components.ingest.rows import sort_example
from bertline.models.data.batching import padded
from bertline.models.encoders.bert.backbone import Encoder, EncoderSize
from bertline.models.tasks.base.task import Context, get_task
from bertline.models.tasks.graphs.multilabel import label_flags
from bertline.models.tokenization.tokenizer import TextEncoder
from bertline.pipeline.config import DataConfig
from bertline.serving.export.saved_model import ServedModel

TASK = get_task("multilabel")
LABELS = ("funny", "sad", "short")


@pytest.fixture(scope="module")
def context(tmp_path_factory):
    return Context(TextEncoder(write_vocab(tmp_path_factory.mktemp("vocab"), VOCAB), seq_len=16), LABELS)


def make_model(context):
    size = EncoderSize(vocab_size=len(VOCAB), layers=1, hidden=8, heads=2, intermediate=16)
    return TASK.model.build(Encoder(size, seed=3), context, 0.0, 3)


def test_names_become_flags_and_unknown_ones_count_nothing():
    names = tf.ragged.constant([["sad", "funny"], [], ["short", "unheard of"], ["funny"]])
    assert label_flags(names, LABELS).numpy().tolist() == [[1, 1, 0], [0, 0, 0], [0, 0, 1], [1, 0, 0]]
    assert label_flags(tf.ragged.constant([[], []], dtype=tf.string), LABELS).shape == (2, 3)


def test_the_loss_is_the_mean_over_the_classes(context):
    batch = padded(
        {
            **TASK.preprocessing.request({"text": tf.constant(["the", "abc"])}, context),
            "label_flags": [[1, 0, 1], [0, 0, 0]],
        }
    )
    logits = tf.constant([[2.0, -1.0, 0.5], [-3.0, 1.0, 0.0]])
    shares = 1 / (1 + np.exp(-logits.numpy()))
    flags = np.asarray(batch["label_flags"])
    expected = -(flags * np.log(shares) + (1 - flags) * np.log(1 - shares)).mean(axis=1)
    batch["label_flags"] = tf.constant(flags, tf.int64)
    np.testing.assert_allclose(TASK.objective.loss(logits, batch), expected, rtol=1e-5)
    np.testing.assert_allclose(TASK.objective.accuracy(logits, batch), [1, 2 / 3], rtol=1e-6)


def test_the_answer_names_what_is_likelier_than_not_the_likeliest_first(context):
    logits = tf.constant([[0.5, -1.0, 2.0], [-3.0, -1.0, -2.0]])
    answer = {name: value.numpy() for name, value in TASK.serving.signature(logits, {}, context).items()}
    assert answer["labels"].tolist() == [[b"short", b"funny", b""], [b"", b"", b""]]
    first, second = ({name: value[row] for name, value in answer.items()} for row in (0, 1))
    assert TASK.serving.response.readable(first) == "short 0.881  funny 0.622"
    assert TASK.serving.response.readable(second) == "none; the nearest is sad 0.269"
    assert (
        TASK.serving.response.plain(first)["labels"] == ["short", "funny"]
        and TASK.serving.response.plain(second)["labels"] == []
    )


def test_examples_with_any_number_of_names_have_targets(context):
    served = ServedModel(TASK, context, make_model(context))

    def example(*names):
        feature = {
            "text": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"the"])),
            "label": tf.train.Feature(bytes_list=tf.train.BytesList(value=[name.encode() for name in names])),
        }
        return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()

    targets = served.evaluation_targets(tf.constant([example("sad", "short"), example()]))
    assert targets["label_flags"].numpy().tolist() == [[0, 1, 1], [0, 0, 0]]
    assert served.predict_examples(tf.constant([example("sad"), example()]))["probabilities"].shape == (2, 3)


def fate(label, kind="classes", **settings):
    return sort_example(
        Row("a.csv", 2, {"text": "a", "label": label}), DataConfig(path="a.csv", **settings), "train", (), kind
    )


def test_classes_are_parted_by_the_delimiter_and_named_once():
    assert fate(" sad , funny,sad,").labels == ("sad", "funny")
    assert fate("sad|very, very funny", label_delimiter="|").labels == ("sad", "very, very funny")


def test_a_row_may_have_none_of_the_classes():
    kept = fate(None)
    assert kept.missing == () and kept.labels == () and "label" not in kept.features


def rows_of(tmp_path, *lines):
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(lines))
    data = DataConfig(path=str(path))
    return data, list(read(InputFile(str(path), "jsonl", None), data, ("text", "label")))


def test_a_json_list_names_the_classes(tmp_path):
    data, rows = rows_of(tmp_path, '{"text": "a", "label": ["x, y", 2]}', '{"text": "b", "label": []}')
    assert [sort_example(row, data, "train", (), "classes").labels for row in rows] == [("x, y", "2"), ()]


def test_brackets_are_a_list_of_classes_and_in_any_other_text_just_brackets():
    assert fate('["x, y", 2]').labels == ("x, y", "2") and fate("[]").labels == ()
    text = sort_example(Row("a.csv", 2, {"text": "[]", "label": "x"}), DataConfig(path="a.csv"), "train", (), "class")
    assert text.features["text"] == "[]" and text.missing == ()


def test_a_list_where_one_class_belongs_is_a_bad_row(tmp_path):
    data, rows = rows_of(tmp_path, '{"text": "a", "label": ["x"]}', '{"text": "a", "label": [["x"]]}')
    bad = sort_example(rows[0], data, "train", (), "class")
    assert isinstance(bad, BadRow) and bad.kind == NESTED and "multilabel" in bad.reason
    assert isinstance(rows[1], BadRow) and rows[1].kind == NESTED
