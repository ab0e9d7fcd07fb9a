"""Checkpoints in several files, and the index that says which tensor is where."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from checkpoint_files import Arrays, assert_holds, save_torch, write_config
from safetensors.numpy import load_file, save_file

from bertline.models.checkpoints import load_encoder
from bertline.pipeline.core.errors import BertlineError


def write_shards(folder: Path, tensors: Arrays, suffix: str, save) -> Path:
    """Two files, every other tensor in each, and their index."""
    base, ending = ("model", "safetensors") if suffix == "safetensors" else ("pytorch_model", "bin")
    files = [f"{base}-0000{number}-of-00002.{ending}" for number in (1, 2)]
    names = sorted(tensors)
    for number, file in enumerate(files):
        save({name: tensors[name] for name in names[number::2]}, write_config(folder) / file)
    places = {name: files[index % 2] for index, name in enumerate(names)}
    (folder / f"{base}.{ending}.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    return folder


@pytest.mark.parametrize("suffix", ["safetensors", "bin"])
def test_shards_are_one_checkpoint(tmp_path, tensors, suffix):
    encoder, report = load_encoder(
        write_shards(tmp_path, tensors, suffix, save_file if suffix == "safetensors" else save_torch)
    )
    assert_holds(encoder, tensors)
    assert set(report.loaded) == set(tensors)


def test_shards_that_do_not_keep_the_promise_of_their_index_are_named(tmp_path, tensors):
    folder = write_shards(tmp_path, tensors, "safetensors", save_file)
    second = folder / "model-00002-of-00002.safetensors"
    held = load_file(second)
    gone = sorted(held)[0]
    del held[gone]
    save_file({**held, "bert.pooler.dense.bias": np.zeros(8, np.float32)}, second)
    with pytest.raises(BertlineError) as caught:
        load_encoder(folder)
    assert [line.strip() for line in str(caught.value).splitlines()[1:]] == [
        f"{gone} is in the index, but in none of the files",
        f"{gone} is missing",
        "pooler.dense.bias and bert.pooler.dense.bias are the same weight",
    ]
    second.unlink()
    with pytest.raises(BertlineError, match="has no model-00002-of-00002.safetensors, which model.safetensors.index.json"):
        load_encoder(folder)


@pytest.mark.parametrize("places", [{"a": "../secret"}, {"a": 1}, ["a"], None])
def test_an_index_names_files_beside_it_and_no_others(tmp_path, places):
    (tmp_path / "secret").write_bytes(b"")
    folder = write_config(tmp_path / "model")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    with pytest.raises(BertlineError, match="index.json: .*fetch the index again"):
        load_encoder(folder)
