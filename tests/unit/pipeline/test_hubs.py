"""Checkpoints by their names on a hub, fetched by the hub's own client from a stand-in on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import model_hub
import pytest
from checkpoint_files import write
from click.testing import CliRunner
from wordpiece import VOCAB, write_vocab

from bertline.pipeline.cli import main
from bertline.pipeline.core import hubs
from bertline.pipeline.core.checkpoint_formats import PRESET_WEIGHTS, vocabulary_in
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.settings.defaults import checkpoint_text
from bertline.pipeline.settings.loader import load

NAME = "somebody/tiny-bert"
SCRIPT = """
import json, sys
from bertline.pipeline.settings.loader import load
from bertline.pipeline.core.errors import BertlineError
try:
    config = load(sys.argv[1])
    print(json.dumps([config.model.checkpoint, config.text.vocab, config.text.lowercase]))
except BertlineError as error:
    print(json.dumps([str(error)]))
"""


@pytest.fixture
def config(tmp_path):
    (tmp_path / "data.csv").write_text("text,label\na film,good\n")

    def config(checkpoint):
        path = tmp_path / "tiny.yaml"
        data = "{path: data.csv, text: text, label: label}"
        model, evaluation = f"{{checkpoint: '{checkpoint}'}}", "{thresholds: {accuracy: 0.5}}"
        path.write_text(f"name: tiny\ndata: {data}\nmodel: {model}\nevaluation: {evaluation}\n")
        return path

    return config


def loaded(config, cache, url):
    """In a process of its own, as the client reads its environment when it is imported."""
    environment = {"HF_ENDPOINT": url, "HF_HOME": str(cache), "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(config)], capture_output=True, text=True, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_model_of_the_hub_is_fetched_once_pinned_to_its_commit_and_read_without_a_network(tmp_path, tensors, config):
    folder = write(tmp_path / "model", tensors)
    write_vocab(folder, VOCAB)
    (folder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": False}))
    (folder / "pytorch_model.bin").write_bytes(b"the same weights again")
    (folder / "onnx").mkdir()
    (folder / "onnx" / "model.onnx").write_bytes(b"and again")
    cache = tmp_path / "cache"
    with model_hub.running(NAME, folder) as hub:
        checkpoint, vocab, lower = loaded(config(f"hf://{NAME}"), cache, hub.url)
        assert checkpoint == f"hf://{NAME}@{model_hub.COMMIT}" and vocab == f"{checkpoint}/vocab.txt" and not lower
        assert "model.safetensors" in hub.downloaded and "vocab.txt" in hub.downloaded
        assert not {"pytorch_model.bin", "onnx/model.onnx"} & {*hub.downloaded}
        before = len(hub.downloaded)
        assert loaded(config(checkpoint), cache, hub.url)[0] == checkpoint and len(hub.downloaded) == before
        (unknown,) = loaded(config("hf://somebody/else"), cache, hub.url)
        assert unknown.startswith("model.checkpoint: hf://somebody/else: the hub") and "check the name" in unknown
    assert loaded(config(f"hf://{NAME}"), cache, hub.url)[0] == checkpoint
    (unreached,) = loaded(config("hf://somebody/else"), cache, hub.url)
    assert "it is not in the cache, and the hub cannot be reached" in unreached and "name the folder" in unreached


def test_a_preset_is_known_by_the_name_that_kerashub_gives_it(tmp_path, monkeypatch):
    import keras_hub

    handles = {name: preset["kaggle_handle"] for name, preset in keras_hub.models.BertBackbone.presets.items()}
    assert handles and {name: hubs.preset_handle(name) for name in handles} == handles
    assert hubs.preset_handle("my_own_folder") is None
    (tmp_path / "bert_tiny_en_uncased").mkdir()
    assert hubs.preset_handle("bert_tiny_en_uncased", tmp_path) is None
    monkeypatch.chdir(tmp_path)  # a folder of that name is meant, and no preset
    assert (
        "bert_tiny_en_uncased has no config.json" in CliRunner().invoke(main, ["checkpoint", "show", *handles][:3]).output
    )


def test_what_is_no_name_of_a_model_is_refused_and_no_path_leads_out_of_one(config):
    with pytest.raises(BertlineError, match="is no name of a model; write hf://ORGANISATION/NAME"):
        load(config("hf://too many words"))
    with pytest.raises(BertlineError, match="is no name of a model"):
        hubs.downloaded_copy("kaggle://keras/bert")


def test_a_file_outside_of_a_model_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(hubs, "_kaggle", lambda path, name: str(tmp_path))
    with pytest.raises(BertlineError, match="may not lead out of it"):
        hubs.downloaded_copy("kaggle://keras/bert/keras/bert_tiny_en_uncased/3/../../secret")


def test_a_preset_brings_its_vocabulary_and_the_case_of_its_texts(tmp_path):
    words = tmp_path / "assets" / "tokenizer" / "vocabulary.txt"
    words.parent.mkdir(parents=True)
    words.write_text("[PAD]\n")
    for name in ("config.json", PRESET_WEIGHTS):
        (tmp_path / name).write_text("{}")
    assert vocabulary_in(tmp_path) == words and checkpoint_text(tmp_path) == {}
    (tmp_path / "tokenizer.json").write_text(json.dumps({"class_name": "BertTokenizer", "config": {"lowercase": False}}))
    assert checkpoint_text(tmp_path) == {"lowercase": False}
