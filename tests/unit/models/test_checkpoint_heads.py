"""The weights of heads beside an encoder's: kept, tied and checked."""

from __future__ import annotations

import json

import numpy as np
import pytest
from checkpoint_files import HEAD_SHAPES, assert_same, random, write
from safetensors.numpy import load_file

from bertline.models.checkpoints import load_encoder, load_heads, save_encoder, save_tf1
from bertline.pipeline.core.errors import BertlineError


def test_hugging_face_to_ours_to_hugging_face_is_bit_equal_with_heads_and_text(tmp_path, tensors):
    heads = random(HEAD_SHAPES)
    spelled = {f"bert.{name}": tensor for name, tensor in tensors.items()} | heads
    folder = write(tmp_path / "in", spelled)
    (tmp_path / "words").write_bytes("[PAD]\n[UNK]\r\né\n".encode())
    encoder, _ = load_encoder(folder)
    save_encoder(
        encoder, tmp_path / "out", heads=load_heads(folder), vocab=tmp_path / "words", tokenizer={"do_lower_case": False}
    )
    assert_same(load_file(tmp_path / "out" / "model.safetensors"), spelled)
    assert (tmp_path / "out" / "vocab.txt").read_bytes() == (tmp_path / "words").read_bytes()
    assert json.loads((tmp_path / "out" / "tokenizer_config.json").read_text()) == {"do_lower_case": False}
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["architectures"] == ["BertForPreTraining"] and len(config["id2label"]) == 3


def test_a_tied_decoder_is_not_kept_twice_and_one_of_its_own_is_kept(tmp_path, tensors):
    words = tensors["embeddings.word_embeddings.weight"]
    bias = np.arange(30, dtype=np.float32)
    tied = {"cls.predictions.decoder.weight": words, "cls.predictions.decoder.bias": bias}
    folder = write(tmp_path, tensors | tied)
    assert_same(load_heads(folder), {"cls.predictions.bias": bias})
    own = {"cls.predictions.decoder.weight": words + 1, "cls.predictions.bias": bias}
    heads = load_heads(write(tmp_path, tensors | own))
    assert_same(heads, own)
    encoder, _ = load_encoder(tmp_path)
    save_encoder(encoder, tmp_path / "out", heads=heads)
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert (config["tie_word_embeddings"], config["architectures"]) == (False, ["BertForMaskedLM"])
    assert_same(load_heads(tmp_path / "out"), own)
    with pytest.raises(BertlineError, match="cannot store cls.predictions.decoder.weight"):
        save_tf1(encoder, tmp_path / "tf1", heads=heads)
    with pytest.raises(BertlineError, match="bias and cls.predictions.decoder.bias are the same weight, but differ"):
        load_heads(write(tmp_path, tensors | tied | {"cls.predictions.bias": bias + 1}))


def test_heads_are_checked_on_their_way_in_and_out(tmp_path, tensors):
    folder = write(tmp_path, tensors | {"classifier.bias": np.zeros(3, np.int64)})
    with pytest.raises(BertlineError, match="classifier.bias holds I64, not floating-point numbers"):
        load_heads(folder)
    encoder, _ = load_encoder(folder)
    with pytest.raises(BertlineError, match="pooler.dense.bias: not the name of a head's weight"):
        save_encoder(encoder, tmp_path / "out", heads={"pooler.dense.bias": np.zeros(8, np.float32)})
    assert not (tmp_path / "out").exists()
