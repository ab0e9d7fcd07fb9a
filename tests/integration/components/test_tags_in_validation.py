"""Tags of words at the gate: a list of classes a row, and one that nobody trained on stops the pipeline."""

import json

import pytest
import tensorflow as tf
import tensorflow_data_validation as tfdv

from bertline.components.ingest.executor import make_example
from bertline.components.ingest.readers.records import Row
from bertline.components.ingest.report import Tally
from bertline.components.ingest.rows import sort_example
from bertline.components.validation.anomalies import explain, validate
from bertline.components.validation.executor import make_schema
from bertline.pipeline.config import DataConfig, ValidationConfig
from bertline.pipeline.core.errors import BertlineError

GOOD = [("Ada wrote to Charles", "B-PER O O B-PER"), ("In London town", "O B-LOC I-LOC")] * 20


def found_in(folder, train, evaluation, **settings):
    """The schema of the training rows, and the anomalies of all rows."""
    data = DataConfig(train="train.conll", eval="eval.conll", **settings)
    tally, statistics = Tally(), {}
    for split, rows in (("train", train), ("eval", evaluation)):
        path = str(folder / split)
        with tf.io.TFRecordWriter(path) as writer:
            for line, (text, label) in enumerate(rows, 1):
                row = Row(f"{split}.conll", line, {"text": text, "label": label})
                kept = sort_example(row, data, split, (), "tags")
                tally.add(row, kept)
                writer.write(make_example(kept.features))
        statistics[split] = tfdv.generate_statistics_from_tfrecord(path)
    report = json.loads(json.dumps(tally.as_report([])))
    schema = make_schema(data, ValidationConfig(), (), report, "tags")
    return schema, explain(validate(statistics, schema, {}), statistics, schema, report, {})


def test_good_tags_pass_and_a_type_has_all_its_letters(tmp_path):
    schema, anomalies = found_in(tmp_path, GOOD, [("an Ada Byron", "O B-PER I-PER")])
    assert list(schema.feature[1].string_domain.value) == ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]
    assert anomalies == []


def test_a_tag_that_nobody_trained_on_is_told_with_the_words_that_have_it(tmp_path):
    _, (anomaly,) = found_in(tmp_path, GOOD, [*GOOD, ("a b c", "B-LOK I-LOC B-LOK")])
    assert (anomaly.split, anomaly.feature) == ("eval", "label")
    assert anomaly.what == "class 'B-LOK' in 2 of 143 labels is not a known class; the nearest is 'B-LOC'"


def test_a_sentence_without_tags_is_told(tmp_path):
    _, (anomaly,) = found_in(tmp_path, GOOD, [*GOOD, ("a b c", None)])
    assert anomaly.what.startswith("missing label in 1 of 41 examples")


def test_named_tags_are_taken_as_they_are_and_checked(tmp_path):
    named = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
    schema, _ = found_in(tmp_path, GOOD, GOOD, labels=named)
    assert tuple(schema.feature[1].string_domain.value) == named
    with pytest.raises(BertlineError, match="data.labels: O, the tag of words outside of entities, is not among them"):
        found_in(tmp_path, GOOD, GOOD, labels=named[1:])
    with pytest.raises(BertlineError, match="data.labels: 'PER' is no tag"):
        found_in(tmp_path, GOOD, GOOD, labels=("O", "PER"))
