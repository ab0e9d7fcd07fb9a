"""Keras' models and KerasHub's presets."""

from __future__ import annotations

import json

import keras
import numpy as np
import pytest
from checkpoint_files import TABLE, assert_holds, command, write

from bertline.models.checkpoints import load_encoder, load_size, load_weights, save_keras
from bertline.models.encoders.bert.backbone import Encoder, EncoderSize
from bertline.pipeline.core.errors import BertlineError


def test_a_keras_model_loads_by_keras_alone_and_as_a_checkpoint(tmp_path, tensors):
    first, _ = load_encoder(write(tmp_path / "in", tensors))
    save_keras(first, tmp_path / "out")
    token_ids = np.array([[2, 7, 3, 0], [2, 9, 9, 3]], np.int32)
    mask, segment_ids = (token_ids > 0).astype(np.int32), (token_ids == 9).astype(np.int32)
    model = keras.saving.load_model(tmp_path / "out" / "model.keras", safe_mode=True)
    states = model({"token_ids": token_ids, "segment_ids": segment_ids, "mask": mask})
    np.testing.assert_array_equal(states, first(token_ids, segment_ids, mask))
    for place in (tmp_path / "out", tmp_path / "out" / "model.keras"):
        second, report = load_encoder(place, dropout=0.0)
        assert_holds(second, tensors)
        assert second.size.dropout == 0.0 and report.fresh == ()
    assert load_size(tmp_path / "out") == first.size


def test_a_keras_model_that_runs_code_or_has_no_encoder_is_refused(tmp_path):
    inputs = keras.Input((2,))
    keras.Model(inputs, keras.layers.Lambda(lambda x: x + 1)(inputs)).save(tmp_path / "model.keras")
    with pytest.raises(BertlineError, match="model.keras: 0 encoders of Bertline"):
        load_encoder(tmp_path)
    encoder = Encoder(EncoderSize(vocab_size=5, layers=1, hidden=4, heads=1, intermediate=4))
    with pytest.raises(BertlineError, match="model.keras: Keras cannot load it: .*[Ll]ambda"):
        load_weights(encoder, tmp_path)
    (tmp_path / "model.keras").write_bytes(b"PK")
    with pytest.raises(BertlineError, match="model.keras: not a whole Keras model"):
        load_encoder(tmp_path)


@pytest.fixture(scope="module")
def preset(tmp_path_factory):
    import keras_hub

    folder = tmp_path_factory.mktemp("preset")
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=30,
        num_layers=2,
        num_heads=2,
        hidden_dim=8,
        intermediate_dim=16,
        dropout=0.3,
        max_sequence_length=12,
    )
    rng = np.random.default_rng(0)
    for variable in backbone.trainable_variables:
        variable.assign(rng.normal(size=variable.shape))
    backbone.save_to_preset(str(folder))
    return folder, backbone


def test_a_preset_gives_kerashub_s_numbers(preset):
    folder, backbone = preset
    encoder, report = load_encoder(folder)
    assert encoder.size == EncoderSize(
        vocab_size=30, layers=2, hidden=8, heads=2, intermediate=16, max_positions=12, dropout=0.3, attention_dropout=0.3,
        activation="gelu_new",
    )  # fmt: skip
    assert len(report.loaded) == len(TABLE) and report.fresh == report.left_out == ()
    token_ids = np.array([[2, 7, 3, 0], [2, 9, 9, 3]], np.int32)
    mask, segment_ids = (token_ids > 0).astype(np.int32), (token_ids == 9).astype(np.int32)
    expected = backbone({"token_ids": token_ids, "segment_ids": segment_ids, "padding_mask": mask})
    sequence = encoder(token_ids, segment_ids, mask)
    kept = mask.astype(bool)
    np.testing.assert_allclose(sequence.numpy()[kept], expected["sequence_output"].numpy()[kept], atol=1e-5)
    np.testing.assert_allclose(encoder.pool(sequence), expected["pooled_output"], atol=1e-5)


def test_a_preset_of_another_model_is_refused(tmp_path, preset):
    raw = json.loads((preset[0] / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(raw | {"class_name": "GPT2Backbone"}))
    (tmp_path / "model.weights.h5").write_bytes(b"")
    with pytest.raises(BertlineError, match="class_name is 'GPT2Backbone'; of KerasHub's presets BertBackbone is known"):
        load_size(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(raw))
    with pytest.raises(BertlineError, match="model.weights.h5: not a whole HDF5 file"):
        load_encoder(tmp_path)


def test_a_preset_s_vocabulary_goes_with_it(preset, tmp_path):
    folder = preset[0]
    words = folder / "assets" / "tokenizer" / "vocabulary.txt"
    words.parent.mkdir(parents=True)
    words.write_text("[PAD]\n[UNK]\n")
    (folder / "tokenizer.json").write_text(json.dumps({"class_name": "BertTokenizer", "config": {"lowercase": True}}))
    assert command("convert", folder, tmp_path / "out").exit_code == 0
    assert (tmp_path / "out" / "vocab.txt").read_text() == "[PAD]\n[UNK]\n"
    assert json.loads((tmp_path / "out" / "tokenizer_config.json").read_text()) == {"do_lower_case": True}
    assert json.loads((tmp_path / "out" / "config.json").read_text())["hidden_act"] == "gelu_new"
