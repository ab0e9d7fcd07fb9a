"""`bertline checkpoint show` and `convert`."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from checkpoint_files import TABLE, assert_same, command, random, save_torch, write_config
from safetensors.numpy import load_file

from bertline.models.checkpoints import load_size, save_encoder
from bertline.models.encoders.bert.backbone import Encoder, EncoderSize


@pytest.fixture
def complete(tmp_path, tensors) -> Path:
    """A classifier's folder as transformers leaves it, in PyTorch's format and without a pooler."""
    heads = random({"classifier.weight": (3, 8), "classifier.bias": (3,)})
    spelled = {f"bert.{name}": tensor for name, tensor in tensors.items() if not name.startswith("pooler")} | heads
    labels = {"0": "bad", "1": "so-so", "2": "good"}
    folder = write_config(tmp_path / "complete", architectures=["BertForTokenClassification"], id2label=labels)
    save_torch(spelled, folder / "pytorch_model.bin")
    (folder / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\nthe\n")
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    return folder


def test_show_tells_what_a_folder_holds(complete):
    done = command("show", complete, "--json")
    found = json.loads(done.stdout)
    held = {name: shape for name, shape in TABLE.values() if not name.startswith("pooler")}
    count = sum(int(np.prod(shape)) for shape in held.values())
    assert (found["format"], found["model"], found["activation"]) == ("pytorch", "bert", "gelu")
    assert found["size"]["layers"] == 2 and found["size"]["hidden"] == 8
    assert found["parameters"] == {"encoder": count, "heads": 27, "total": count + 27}
    assert found["vocabulary"] == {"rows": 30, "pieces": 5}
    assert found["heads"] == ["classifier"] and found["left_out"] == ["classifier.bias", "classifier.weight"]
    lines = dict(line.split(maxsplit=1) for line in command("show", complete).stdout.splitlines())
    assert lines["parameters"] == f"{count + 27:,}, of which 27 in heads, as F32"
    assert lines["vocabulary"] == "30 embeddings, 5 tokens in its vocab.txt" and lines["heads"] == "classifier"


def test_convert_keeps_weights_heads_labels_and_text(complete, tmp_path, tensors):
    done = command("convert", complete, tmp_path / "new" / "hf")
    assert done.exit_code == 0 and "vocab.txt, tokenizer_config.json" in done.stdout
    held = load_file(tmp_path / "new" / "hf" / "model.safetensors")
    kept = {f"bert.{name}": tensor for name, tensor in tensors.items() if not name.startswith("pooler")}
    assert_same(held, kept | random({"classifier.weight": (3, 8), "classifier.bias": (3,)}))  # and no random pooler
    config = json.loads((tmp_path / "new" / "hf" / "config.json").read_text())
    assert config["architectures"] == ["BertForTokenClassification"] and config["id2label"]["2"] == "good"
    assert (tmp_path / "new" / "hf" / "vocab.txt").read_bytes() == (complete / "vocab.txt").read_bytes()
    assert os.listdir(tmp_path / "new") == ["hf"]
    assert command("convert", tmp_path / "new" / "hf", tmp_path / "tf1", "--to", "tf1").exit_code == 0
    assert command("convert", tmp_path / "tf1", tmp_path / "back").exit_code == 0
    assert_same(load_file(tmp_path / "back" / "model.safetensors"), held)
    assert load_size(tmp_path / "back") == load_size(complete)
    keras_too = command("convert", complete, tmp_path / "keras", "--to", "keras")
    assert "cannot store classifier.bias, classifier.weight" in keras_too.stdout and "no pooler" in keras_too.stdout
    assert json.loads(command("show", tmp_path / "keras", "--json").stdout)["format"] == "keras"


def test_convert_writes_all_or_nothing(complete, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    for target in ("full", "full/mine.txt"):
        done = command("convert", complete, tmp_path / target)
        assert done.exit_code == 1 and "already exists and is not an empty folder" in done.stderr
    assert os.listdir(tmp_path / "full") == ["mine.txt"]
    (tmp_path / "empty").mkdir()
    assert command("convert", complete, tmp_path / "empty").exit_code == 0
    encoder = Encoder(EncoderSize(vocab_size=9, layers=2, hidden=4, heads=2, intermediate=4, position_offset=2))
    save_encoder(encoder, tmp_path / "roberta")
    before = sorted(os.listdir(tmp_path))
    done = command("convert", tmp_path / "roberta", tmp_path / "tf1", "--to", "tf1")
    assert done.exit_code == 1 and "choose another format" in done.stderr
    assert sorted(os.listdir(tmp_path)) == before


def test_what_is_no_checkpoint_is_told_in_a_sentence(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "tf1").mkdir()
    (tmp_path / "tf1" / "bert_model.ckpt.index").write_text("")
    for name, reason in {
        "missing": "does not exist",
        "empty": "has no config.json, bert_config.json or model.keras",
        "file": "is a file; name a checkpoint's folder",
        "tf1": "has no bert_config.json",
    }.items():
        done = command("show", tmp_path / name)
        assert done.exit_code == 1 and reason in done.stderr and "Traceback" not in done.stderr
