"""BERT's relatives under their own names: pruned, RoBERTa, ALBERT, mixtures."""

from __future__ import annotations

import json

import numpy as np
import pytest
from checkpoint_files import assert_holds, assert_same, random, weights, write
from safetensors.numpy import load_file

from bertline.models.checkpoints import load_encoder, load_heads, load_size, save_encoder, save_keras, save_tf1
from bertline.models.encoders.bert.backbone import Encoder, EncoderSize
from bertline.pipeline.core.errors import BertlineError


def test_pruned_heads_come_and_go(tmp_path, tensors):
    for name in ("query", "key", "value"):  # layer 1 has lost one of two heads of four
        for ending in ("weight", "bias"):
            full = f"encoder.layer.1.attention.self.{name}.{ending}"
            tensors[full] = tensors[full][4:].copy()
    dense = "encoder.layer.1.attention.output.dense.weight"
    tensors[dense] = tensors[dense][:, 4:].copy()
    encoder, _ = load_encoder(write(tmp_path / "in", tensors, pruned_heads={"1": [0]}))
    assert encoder.size.pruned == ((), (0,))
    assert_holds(encoder, tensors)
    save_encoder(encoder, tmp_path / "out")
    assert_same(load_file(tmp_path / "out" / "model.safetensors"), tensors)
    assert json.loads((tmp_path / "out" / "config.json").read_text())["pruned_heads"] == {"1": [0]}
    with pytest.raises(BertlineError, match="The original format has BERT itself, with all its heads"):
        save_tf1(encoder, tmp_path / "tf1")


def test_a_roberta_counts_its_positions_from_behind_the_padding_token(tmp_path, tensors):
    heads = random({"lm_head.bias": (30,), "lm_head.dense.weight": (8, 8)})
    spelled = {f"roberta.{name}": tensor for name, tensor in tensors.items()} | heads
    encoder, report = load_encoder(write(tmp_path / "in", spelled, model_type="roberta"))
    assert (encoder.size.position_offset, encoder.size.max_positions) == (2, 10)
    assert_holds(encoder, tensors)
    assert report.left_out == ("lm_head.bias", "lm_head.dense.weight")
    save_encoder(encoder, tmp_path / "out", heads=load_heads(tmp_path / "in"))
    assert_same(load_file(tmp_path / "out" / "model.safetensors"), spelled)
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert [config[key] for key in ("model_type", "pad_token_id", "max_position_embeddings")] == ["roberta", 1, 12]
    assert load_size(tmp_path / "out") == encoder.size


ALBERT = "albert.encoder.albert_layer_groups.0.albert_layers.0"
ALBERT_SHAPES = {
    "albert.embeddings.word_embeddings.weight": (30, 4),
    "albert.embeddings.position_embeddings.weight": (12, 4),
    "albert.embeddings.token_type_embeddings.weight": (2, 4),
    "albert.embeddings.LayerNorm.weight": (4,),
    "albert.embeddings.LayerNorm.bias": (4,),
    "albert.encoder.embedding_hidden_mapping_in.weight": (8, 4),
    "albert.encoder.embedding_hidden_mapping_in.bias": (8,),
    **{f"{ALBERT}.attention.{name}.weight": (8, 8) for name in ("query", "key", "value", "dense")},
    **{f"{ALBERT}.attention.{name}.bias": (8,) for name in ("query", "key", "value", "dense")},
    **{f"{ALBERT}.attention.LayerNorm.{ending}": (8,) for ending in ("weight", "bias")},
    **{f"{ALBERT}.full_layer_layer_norm.{ending}": (8,) for ending in ("weight", "bias")},
    f"{ALBERT}.ffn.weight": (16, 8),
    f"{ALBERT}.ffn.bias": (16,),
    f"{ALBERT}.ffn_output.weight": (8, 16),
    f"{ALBERT}.ffn_output.bias": (8,),
    "albert.pooler.weight": (8, 8),
    "albert.pooler.bias": (8,),
    "predictions.bias": (30,),
    "sop_classifier.classifier.weight": (2, 8),
}  # fmt: skip


def test_an_albert_comes_and_goes_under_its_own_names(tmp_path):
    spelled = random(ALBERT_SHAPES)
    folder = write(
        tmp_path / "in", spelled, model_type="albert", embedding_size=4, hidden_act=None, hidden_dropout_prob=None
    )
    encoder, report = load_encoder(folder)
    size = encoder.size
    assert (size.embedding, size.shared_layers, size.activation, size.dropout) == (4, True, "gelu_new", 0.0)
    mapping = spelled["albert.encoder.embedding_hidden_mapping_in.weight"]
    np.testing.assert_array_equal(encoder.embeddings.projection.kernel, mapping.T)
    np.testing.assert_array_equal(encoder.layers[1].contract.kernel, spelled[f"{ALBERT}.ffn_output.weight"].T)
    np.testing.assert_array_equal(encoder.layers[1].contract_norm.beta, spelled[f"{ALBERT}.full_layer_layer_norm.bias"])
    np.testing.assert_array_equal(encoder.layers[0].attention_norm.gamma, spelled[f"{ALBERT}.attention.LayerNorm.weight"])
    assert report.left_out == ("predictions.bias", "sop_classifier.classifier.weight") and report.fresh == ()
    save_encoder(encoder, tmp_path / "out", heads=load_heads(folder))
    assert_same(load_file(tmp_path / "out" / "model.safetensors"), spelled)
    assert load_size(tmp_path / "out") == size


def test_a_mixture_is_kept_by_keras_and_refused_by_hugging_face(tmp_path):
    size = EncoderSize(vocab_size=9, layers=2, hidden=4, heads=2, intermediate=4, segments=0, shared_layers=True)
    encoder = Encoder(size, seed=3)
    with pytest.raises(BertlineError, match="No model of Hugging Face has this mixture of shared_layers"):
        save_encoder(encoder, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    save_keras(encoder, tmp_path / "out")
    assert_same(weights(load_encoder(tmp_path / "out")[0]), weights(encoder))
