"""The original's checkpoints, in and out."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from checkpoint_files import CONFIG, HEAD_SHAPES, Arrays, assert_holds, assert_same, random, write

from bertline.models.checkpoints import load_encoder, load_heads, load_size, save_tf1
from bertline.pipeline.core.errors import BertlineError

# Hugging Face's names -> the original's, by hand.
TF1_HEADS = {
    "cls.predictions.bias": "cls/predictions/output_bias",
    "cls.predictions.transform.dense.weight": "cls/predictions/transform/dense/kernel",
    "cls.predictions.transform.dense.bias": "cls/predictions/transform/dense/bias",
    "cls.predictions.transform.LayerNorm.weight": "cls/predictions/transform/LayerNorm/gamma",
    "cls.predictions.transform.LayerNorm.bias": "cls/predictions/transform/LayerNorm/beta",
    "cls.seq_relationship.weight": "cls/seq_relationship/output_weights",
    "cls.seq_relationship.bias": "cls/seq_relationship/output_bias",
    "classifier.weight": "output_weights",
    "classifier.bias": "output_bias",
}
TF1_NAMES = (
    {
        "embeddings.word_embeddings.weight": "bert/embeddings/word_embeddings",
        "embeddings.position_embeddings.weight": "bert/embeddings/position_embeddings",
        "embeddings.token_type_embeddings.weight": "bert/embeddings/token_type_embeddings",
        "embeddings.LayerNorm.weight": "bert/embeddings/LayerNorm/gamma",
        "embeddings.LayerNorm.bias": "bert/embeddings/LayerNorm/beta",
        "pooler.dense.weight": "bert/pooler/dense/kernel",
        "pooler.dense.bias": "bert/pooler/dense/bias",
    }
    | {
        f"encoder.layer.{index}.{part}.{ours}": f"bert/encoder/layer_{index}/{part.replace('.', '/')}/{theirs}"
        for index in range(2)
        for part in (
            "attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense",
            "intermediate.dense", "output.dense",
        )
        for ours, theirs in (("weight", "kernel"), ("bias", "bias"))
    }
    | {
        f"encoder.layer.{index}.{part}.{ours}": f"bert/encoder/layer_{index}/{part.replace('.', '/')}/{theirs}"
        for index in range(2)
        for part in ("attention.output.LayerNorm", "output.LayerNorm")
        for ours, theirs in (("weight", "gamma"), ("bias", "beta"))
    }
)  # fmt: skip
TF1_CONFIG = {key: value for key, value in CONFIG.items() if key not in ("model_type", "layer_norm_eps")}


def as_tf1(tensors: Arrays) -> Arrays:
    names = {ours: (TF1_NAMES | TF1_HEADS)[ours] for ours in tensors}
    return {name: tensors[ours].T if name.endswith("kernel") else tensors[ours] for ours, name in names.items()}


def write_tf1(folder: Path, arrays: Arrays, **changes: object) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "bert_config.json").write_text(json.dumps(TF1_CONFIG | changes))
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        for name, array in arrays.items():
            tf.compat.v1.get_variable(name, initializer=tf.constant(array), use_resource=False)
        session.run(tf.compat.v1.global_variables_initializer())
        tf.compat.v1.train.Saver().save(session, str(folder / "bert_model.ckpt"))
    return folder


def test_an_original_checkpoint_fills_every_weight_and_leaves_the_optimizer_behind(tmp_path, tensors):
    heads = random(HEAD_SHAPES)
    arrays = as_tf1(tensors | heads)
    memory = {"global_step": np.array(7), "bert/pooler/dense/bias/adam_m": np.zeros(8), "output_bias/adam_v": np.zeros(3)}
    folder = write_tf1(tmp_path, arrays | memory)
    encoder, report = load_encoder(folder)
    assert_holds(encoder, tensors)
    assert set(report.loaded) == set(TF1_NAMES.values())
    assert set(report.left_out) == set(TF1_HEADS.values()) | set(memory)
    assert_same(load_heads(folder), heads)


@pytest.mark.parametrize(
    "given, ours", [({}, "gelu_new"), ({"hidden_act": "relu"}, "relu"), ({"gelu_form": "erf"}, "gelu")]
)
def test_gelu_is_the_tanh_form_in_an_original_config(tmp_path, given, ours):
    folder = write_tf1(tmp_path, {"a": np.zeros(1, np.float32)}, **given)
    size = load_size(folder)
    assert (size.activation, size.layer_norm_eps, size.hidden) == (ours, 1e-12, 8)
    with pytest.raises(BertlineError, match="hidden_act is 'tanh'; known are gelu, relu"):
        load_size(write_tf1(tmp_path, {"a": np.zeros(1, np.float32)}, hidden_act="tanh"))


@pytest.mark.parametrize("activation", ["gelu", "gelu_new", "relu"])
def test_there_and_back_through_the_original_format_is_bit_equal(tmp_path, tensors, activation):
    heads = random(HEAD_SHAPES)
    first, _ = load_encoder(write(tmp_path / "in", tensors, hidden_act=activation))
    save_tf1(first, tmp_path / "out", heads=heads)
    reader = tf.train.load_checkpoint(str(tmp_path / "out" / "bert_model.ckpt"))
    assert_same({name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}, as_tf1(tensors | heads))
    second, report = load_encoder(tmp_path / "out")
    assert_holds(second, tensors)
    assert second.size == first.size and report.fresh == ()
    assert_same(load_heads(tmp_path / "out"), heads)
    assert json.loads((tmp_path / "out" / "bert_config.json").read_text())["hidden_act"] in ("gelu", "relu")


def test_an_original_checkpoint_that_cannot_be_read_is_named(tmp_path, tensors):
    arrays = as_tf1(tensors)
    arrays["bert/pooler/dense/other"] = arrays.pop("bert/pooler/dense/bias")
    folder = write_tf1(tmp_path, arrays)
    with pytest.raises(BertlineError) as caught:
        load_encoder(folder)
    problems = [line.strip() for line in str(caught.value).splitlines()[1:]]
    assert problems == ["bert/pooler/dense/other is unknown", "pooler.dense.bias is missing"]
    data = folder / "bert_model.ckpt.data-00000-of-00001"
    write_tf1(tmp_path, as_tf1(tensors))
    data.write_bytes(data.read_bytes()[:1000])
    with pytest.raises(BertlineError, match="bert_model.ckpt: .*; fetch (it|the files) again"):
        load_encoder(folder)
    data.unlink()
    with pytest.raises(BertlineError, match="bert_model.ckpt: .*; fetch (it|the files) again"):
        load_encoder(folder)
    (folder / "bert_model.ckpt.index").rename(folder / "model.ckpt-1.index")
    (folder / "model.ckpt-2.index").write_bytes(b"")
    with pytest.raises(BertlineError, match="holds 2 checkpoints .model.ckpt-1, model.ckpt-2.; leave one"):
        load_encoder(folder)
