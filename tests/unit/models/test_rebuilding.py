"""A pushed folder as a Keras model again."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from tiny_pushed import SIZE, built, push, records, text_settings

from bertline.models.adapters.lora import find_encoder
from bertline.models.checkpoints.from_saved_model import rebuild
from bertline.models.encoders.bert.backbone import EncoderSize
from bertline.pipeline.config import PretrainingConfig
from bertline.pipeline.core.errors import BertlineError
from bertline.serving.contract import read_metadata, write_metadata
from bertline.serving.export.exporter import description
from bertline.serving.export.saved_model import ServedModel, export


@pytest.fixture(scope="module")
def pushed(tmp_path_factory):
    return push("classification", tmp_path_factory.mktemp("pushed") / "1")


@pytest.fixture
def model(pushed, tmp_path):
    return shutil.copytree(pushed, tmp_path / "model")


def assert_answers_alike(folder, rebuilt, name):
    asked = tf.constant(records(name))
    tf.config.run_functions_eagerly(True)  # what is asked once need not be traced
    given = ServedModel(*rebuilt).predict_examples(asked)
    tf.config.run_functions_eagerly(False)
    wanted = tf.saved_model.load(str(folder)).signatures["serving_examples"](examples=asked)
    assert given.keys() == wanted.keys()
    for output, values in wanted.items():
        if values.dtype.is_floating:
            np.testing.assert_allclose(given[output], values, atol=1e-5, rtol=1e-5)
        else:
            np.testing.assert_array_equal(given[output], values)


def test_a_rebuilt_model_answers_as_the_pushed_graph(pushed):
    task, context, model = rebuilt = rebuild(pushed)
    assert task.name == "classification" and context.text_keys == ("text",) and context.text.seq_len == 16
    assert find_encoder(model).size == SIZE
    assert_answers_alike(pushed, rebuilt, "classification")


@pytest.mark.parametrize(
    ("name", "pooling"), [("classification", "cls"), ("classification", "mean"), ("multilabel", "pair")]
)
def test_a_model_of_another_pooling_is_made_again_by_its_card(tmp_path, name, pooling):
    task, context, model = built(name, tmp_path / "vocabulary", pooling=pooling)
    folder, text = tmp_path / "1", text_settings(name).model_dump(exclude={"vocab", "target_vocab"})
    metadata = {"task": name, "labels": list(context.labels), "text_keys": list(context.text_keys), "text": text}
    export(ServedModel(task, context, model), str(folder), {**metadata, "model": description(context, model)})
    rebuilt = rebuild(folder)
    assert rebuilt.context.pooling == rebuilt.model.pooling == pooling
    assert_answers_alike(folder, rebuilt, name)


def test_a_card_names_a_crf_and_what_is_pre_trained(tmp_path):
    described = description(*built("tagging", tmp_path, crf=True)[1:])
    assert described["crf"] and EncoderSize(**json.loads(json.dumps(described["size"]))) == SIZE
    _, context, model = built("pretraining", tmp_path)
    context = replace(context, pretraining=PretrainingConfig(next_sentence=False, masking="word"))
    assert description(context, model)["pretraining"] == {"next_sentence": False, "masking": "word"}


def test_the_sizes_of_a_model_with_older_metadata_are_found_by_its_answers(model):
    metadata = read_metadata(model)
    del metadata["model"]
    write_metadata(model, metadata)
    rebuilt = rebuild(model)
    found = find_encoder(rebuilt.model).size
    assert (found.layers, found.hidden, found.heads, found.intermediate) == (2, 16, 4, 24)
    assert_answers_alike(model, rebuilt, "classification")


def test_weights_that_do_not_answer_as_the_graph_are_refused(model):
    metadata = read_metadata(model)
    metadata["model"]["size"]["heads"] = 2
    write_metadata(model, metadata)
    with pytest.raises(BertlineError, match="another version of Bertline has exported it; run the pipeline again"):
        rebuild(model)
    metadata["model"]["size"] |= {"heads": 4, "layers": 1}
    write_metadata(model, metadata)
    with pytest.raises(BertlineError, match="another version of Bertline has exported it"):
        rebuild(model)


@pytest.mark.parametrize(
    "change, reason",
    [
        ({"task": "juggling"}, "its task is juggling, which this version of Bertline does not know"),
        ({"task": ["classification"]}, "its task is"),
        ({"model": {}}, "model sizes in its metadata"),
        ({"model": {"size": {"wings": 2}}}, "model sizes in its metadata"),
        ({"text": {"seq_len": 1}}, "invalid model metadata .*: seq_len"),
        ({"labels": ["a"]}, "another version of Bertline"),
    ],
)
def test_metadata_that_is_wrong_is_told(model, change, reason):
    write_metadata(model, {**read_metadata(model), **change})
    with pytest.raises(BertlineError, match=reason):
        rebuild(model)


def test_a_folder_that_is_no_pushed_model_is_told(model, tmp_path):
    with pytest.raises(BertlineError, match="no SavedModel here"):
        rebuild(tmp_path)
    (model / "variables" / "variables.index").write_bytes(b"nothing")
    with pytest.raises(BertlineError, match="its variables cannot be read"):
        rebuild(model)
    (model / "assets.extra" / "bertline.json").write_text(json.dumps([1]))
    with pytest.raises(BertlineError, match="no model metadata"):
        rebuild(model)
