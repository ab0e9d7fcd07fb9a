"""Checkpoints beyond one safetensors file: shards, PyTorch's zips, the original's, Keras', BERT's relatives."""

from __future__ import annotations

import json
import os
import pickle
import zipfile
from pathlib import Path

import keras
import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner
from safetensors.numpy import load_file, save_file
from test_checkpoints import CONFIG, TABLE, assert_holds, weights, write

from models.checkpoints import load_encoder, load_heads, load_size, load_weights, save_encoder, save_keras, save_tf1
from models.encoder import Encoder, EncoderSize
from pipeline.cli import main
from pipeline.errors import BertlineError

Arrays = dict[str, np.ndarray]

HEAD_SHAPES = {
    "cls.predictions.bias": (30,),
    "cls.predictions.transform.dense.weight": (8, 8),
    "cls.predictions.transform.dense.bias": (8,),
    "cls.predictions.transform.LayerNorm.weight": (8,),
    "cls.predictions.transform.LayerNorm.bias": (8,),
    "cls.seq_relationship.weight": (2, 8),
    "cls.seq_relationship.bias": (2,),
    "classifier.weight": (3, 8),
    "classifier.bias": (3,),
}


def random(shapes: dict[str, tuple[int, ...]], seed: int = 1) -> Arrays:
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.fixture
def tensors() -> Arrays:
    return random(dict(TABLE.values()), seed=0)


def assert_same(found: Arrays, expected: Arrays) -> None:
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array, err_msg=name)


def write_config(folder: Path, name: str = "config.json", **changes: object) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps({**CONFIG, **changes}))
    return folder


# --- Shards ---------------------------------------------------------------------------------------------------------------


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


# --- PyTorch's zips, put together by hand -------------------------------------------------------------------------------


def op(value: object) -> bytes:
    """The opcodes that push a plain value."""
    return pickle.dumps(value, protocol=2)[2:-1]


def name_of(module: str, name: str) -> bytes:
    return f"c{module}\n{name}\n".encode()


EMPTY = name_of("collections", "OrderedDict") + b")R"
STORAGES = {"float32": "FloatStorage", "float16": "HalfStorage", "bfloat16": "BFloat16Storage", "int64": "LongStorage"}


def tensor_op(
    key: str, dtype: str, count: int, offset: int, shape: tuple, strides: tuple, parameter: bool = False
) -> bytes:
    storage = b"(" + op("storage") + name_of("torch", STORAGES[dtype]) + op(key) + op("cpu") + op(count) + b"tQ"
    call = name_of("torch._utils", "_rebuild_tensor_v2")
    tensor = call + b"(" + storage + op(offset) + op(shape) + op(strides) + op(False) + EMPTY + b"tR"
    if parameter:
        return name_of("torch._utils", "_rebuild_parameter") + b"(" + tensor + op(True) + EMPTY + b"tR"
    return tensor


def zipped(path: Path, items: dict[str, bytes], storages: dict[str, bytes], **options: int) -> None:
    state = b"\x80\x02" + EMPTY + b"(" + b"".join(op(name) + value for name, value in items.items()) + b"u"
    metadata = b"}" + op("_metadata") + EMPTY + b"sb"  # torch keeps a remark of its own on the dictionary
    with zipfile.ZipFile(path, "w", **options) as archive:
        archive.writestr("pytorch_model/data.pkl", state + metadata + b".")
        archive.writestr("pytorch_model/byteorder", b"little")
        for key, content in storages.items():
            archive.writestr(f"pytorch_model/data/{key}", content)
        archive.writestr("pytorch_model/version", b"3\n")


def save_torch(tensors: Arrays, path: Path) -> None:
    items, storages = {}, {}
    for number, (name, array) in enumerate(tensors.items()):
        strides = tuple(stride // array.itemsize for stride in array.strides)
        items[name] = tensor_op(
            str(number), array.dtype.name, array.size, 0, array.shape, strides, parameter=number % 2 == 0
        )
        storages[str(number)] = array.tobytes()
    zipped(path, items, storages)


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


# --- The original's checkpoints -----------------------------------------------------------------------------------------

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


# --- Heads ----------------------------------------------------------------------------------------------------------------


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
    with pytest.raises(BertlineError, match="has no place for cls.predictions.decoder.weight"):
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


# --- Keras ----------------------------------------------------------------------------------------------------------------


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


# --- Relatives ------------------------------------------------------------------------------------------------------------


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


# --- The command ----------------------------------------------------------------------------------------------------------


def command(*arguments: object):
    return CliRunner().invoke(main, ["checkpoint", *map(str, arguments)])


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
    assert lines["vocabulary"] == "30 rows, 5 pieces in its file" and lines["heads"] == "classifier"


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
    assert "no place for classifier.bias, classifier.weight" in keras_too.stdout and "no pooler" in keras_too.stdout
    assert json.loads(command("show", tmp_path / "keras", "--json").stdout)["format"] == "keras"


def test_convert_writes_all_or_nothing(complete, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    for target in ("full", "full/mine.txt"):
        done = command("convert", complete, tmp_path / target)
        assert done.exit_code == 1 and "is there already and is not an empty folder" in done.stderr
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
