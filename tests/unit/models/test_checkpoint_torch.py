"""PyTorch's own files, read without torch and without running what a pickle asks for."""

from __future__ import annotations

import pickle
import zipfile

import ml_dtypes
import numpy as np
import pytest
from checkpoint_files import assert_holds, assert_same, name_of, op, save_torch, tensor_op, weights, write_config, zipped

from bertline.models.checkpoints import load_encoder, load_heads, load_size, load_weights
from bertline.models.encoders.bert.backbone import Encoder
from bertline.pipeline.core.errors import BertlineError


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_a_file_of_torch_save_is_read_without_torch(tmp_path, tensors, dtype):
    stored = {f"bert.{name}": tensor.astype(dtype) for name, tensor in tensors.items()}
    others = {"bert.embeddings.position_ids": np.arange(12)[None], "classifier.bias": np.ones(3, dtype)}
    save_torch(stored | others, write_config(tmp_path) / "pytorch_model.bin")
    encoder, report = load_encoder(tmp_path)
    assert_holds(encoder, {name: stored[f"bert.{name}"].astype(np.float32) for name in tensors})
    assert set(report.loaded) == set(stored) and report.left_out == ("classifier.bias",)


def test_tensors_may_share_a_storage_and_lie_in_it_in_any_order(tmp_path, tensors):
    query, key = (f"encoder.layer.0.attention.self.{name}.weight" for name in ("query", "key"))
    storage = np.random.default_rng(3).normal(size=3 + 64 + 64).astype(np.float32)
    save_torch(tensors, write_config(tmp_path) / "pytorch_model.bin")
    items = {
        name: tensor_op(str(number), "float32", tensor.size, 0, tensor.shape, tuple(s // 4 for s in tensor.strides))
        for number, (name, tensor) in enumerate(tensors.items())
    }
    items[query] = tensor_op("both", "float32", storage.size, 3, (8, 8), (1, 8))  # transposed, after three others
    items[key] = tensor_op("both", "float32", storage.size, 67, (8, 8), (8, 1))
    storages = {str(number): tensor.tobytes() for number, tensor in enumerate(tensors.values())}
    zipped(tmp_path / "pytorch_model.bin", items, storages | {"both": storage.tobytes()})
    encoder, _ = load_encoder(tmp_path)
    assert_holds(encoder, tensors | {query: storage[3:67].reshape(8, 8).T, key: storage[67:].reshape(8, 8)})


@pytest.mark.parametrize(
    "value, asked",
    [
        (name_of("os", "system") + b"(" + op("touch SENTINEL") + b"tR", "os.system"),
        (name_of("builtins", "eval") + b"(" + op("open('SENTINEL', 'w')") + b"tR", "builtins.eval"),
        (name_of("torch._utils", "_rebuild_tensor_v2.__class__"), "torch._utils._rebuild_tensor_v2.__class__"),
        (name_of("torch", "DoubleStorage"), "torch.DoubleStorage"),
    ],
)
def test_a_pickle_that_asks_for_anything_else_is_refused_and_nothing_runs(tmp_path, monkeypatch, value, asked):
    monkeypatch.chdir(tmp_path)
    zipped(write_config(tmp_path / "model") / "pytorch_model.bin", {"classifier.bias": value}, {})
    with pytest.raises(BertlineError, match=f"the pickle asks for {asked}, .* nothing was run"):
        load_encoder(tmp_path / "model")
    assert not (tmp_path / "SENTINEL").exists()


@pytest.mark.parametrize(
    "value, reason",
    [
        (tensor_op("0", "float32", 4, 0, (5,), (1,)), "reaches beyond its storage"),
        (tensor_op("0", "float32", 4, 3, (2,), (1,)), "reaches beyond its storage"),
        (tensor_op("0", "float32", 4, 0, (10**12,), (0,)), "reaches beyond its storage"),
        (tensor_op("0", "float32", 4, -1, (2,), (1,)), "without proper sizes"),
        (tensor_op("0", "float32", 4, 0, (2,), (1, 1)), "without proper sizes"),
        (tensor_op("0", "float32", 5, 0, (5,), (1,)), "has 16 bytes for 5 numbers"),
        (tensor_op("1", "float32", 4, 0, (4,), (1,)), "the numbers of classifier.bias are missing"),
        (op("a word"), "'classifier.bias' is str, not a tensor"),
        # Once made, a tensor cannot be altered: here by the state that the opcode `b` would set.
        (tensor_op("0", "float32", 4, 0, (4,), (1,)) + op({"shape": (9,)}) + b"b", "not a whole file of torch.save"),
        (op((1,)) + b"Q", "a reference that is not to a storage"),
    ],
)
def test_a_tensor_is_never_more_than_the_file_holds(tmp_path, value, reason):
    zipped(write_config(tmp_path) / "pytorch_model.bin", {"classifier.bias": value}, {"0": bytes(16)})
    with pytest.raises(BertlineError, match=f"pytorch_model.bin: .*{reason}"):
        load_heads(tmp_path)


def test_a_damaged_file_of_torch_save_leaves_the_encoder_as_it_was(tmp_path, tensors):
    path = write_config(tmp_path) / "pytorch_model.bin"
    save_torch(tensors, path)
    whole = path.read_bytes()
    encoder = Encoder(load_size(tmp_path))
    before = weights(encoder)
    last = tensors["encoder.layer.1.output.LayerNorm.bias"].tobytes()
    flipped = whole.replace(last, bytes(len(last)))  # the zip's checksum of it is now wrong
    assert flipped != whole
    for content in (whole[:-30], whole[: len(whole) // 2], b"", flipped):
        path.write_bytes(content)
        with pytest.raises(BertlineError, match="pytorch_model.bin: not a whole file of torch.save .*; fetch it again"):
            load_weights(encoder, tmp_path)
    assert_same(weights(encoder), before)


def test_other_files_in_the_place_of_torch_save_s_are_told_apart(tmp_path, tensors):
    path = write_config(tmp_path) / "pytorch_model.bin"
    path.write_bytes(pickle.dumps(0x1950A86A20F9469CFC6C, protocol=2) + pickle.dumps(1001, protocol=2))
    with pytest.raises(BertlineError, match="in the format of PyTorch before 1.6"):
        load_encoder(tmp_path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(BertlineError, match="a zip without the data.pkl"):
        load_encoder(tmp_path)
    zipped(path, {}, {}, compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(BertlineError, match="is compressed, as torch.save never does"):
        load_encoder(tmp_path)
