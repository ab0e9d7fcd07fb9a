"""A small checkpoint for the tests: its names and shapes, and its files in the formats that Hugging Face has."""

from __future__ import annotations

import json
import pickle
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from click.testing import CliRunner, Result
from safetensors.numpy import save_file

if TYPE_CHECKING:  # every unit test loads this file, through conftest.py; not all need TensorFlow
    from bertline.models.encoders.bert.backbone import Encoder

Arrays = dict[str, np.ndarray]

CONFIG = {
    "model_type": "bert",
    "vocab_size": 30,
    "num_hidden_layers": 2,
    "hidden_size": 8,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 12,
    "type_vocab_size": 2,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.2,
    "attention_probs_dropout_prob": 0.3,
    "layer_norm_eps": 1e-6,
}

# Our path -> Hugging Face's name and shape, written out by hand: the independent word on what belongs where.
OUTSIDE = {
    "embeddings/token/embeddings": ("embeddings.word_embeddings.weight", (30, 8)),
    "embeddings/position/embeddings": ("embeddings.position_embeddings.weight", (12, 8)),
    "embeddings/segment/embeddings": ("embeddings.token_type_embeddings.weight", (2, 8)),
    "embeddings/norm/gamma": ("embeddings.LayerNorm.weight", (8,)),
    "embeddings/norm/beta": ("embeddings.LayerNorm.bias", (8,)),
    "pooler/kernel": ("pooler.dense.weight", (8, 8)),
    "pooler/bias": ("pooler.dense.bias", (8,)),
}
LAYER = {
    "attention/query/kernel": ("attention.self.query.weight", (8, 8)),
    "attention/query/bias": ("attention.self.query.bias", (8,)),
    "attention/key/kernel": ("attention.self.key.weight", (8, 8)),
    "attention/key/bias": ("attention.self.key.bias", (8,)),
    "attention/value/kernel": ("attention.self.value.weight", (8, 8)),
    "attention/value/bias": ("attention.self.value.bias", (8,)),
    "attention/output/kernel": ("attention.output.dense.weight", (8, 8)),
    "attention/output/bias": ("attention.output.dense.bias", (8,)),
    "attention_norm/gamma": ("attention.output.LayerNorm.weight", (8,)),
    "attention_norm/beta": ("attention.output.LayerNorm.bias", (8,)),
    "expand/kernel": ("intermediate.dense.weight", (16, 8)),
    "expand/bias": ("intermediate.dense.bias", (16,)),
    "contract/kernel": ("output.dense.weight", (8, 16)),
    "contract/bias": ("output.dense.bias", (8,)),
    "contract_norm/gamma": ("output.LayerNorm.weight", (8,)),
    "contract_norm/beta": ("output.LayerNorm.bias", (8,)),
}
TABLE = {f"encoder/{path}": place for path, place in OUTSIDE.items()} | {
    f"encoder/layer_{index}/{path}": (f"encoder.layer.{index}.{name}", shape)
    for index in range(2)
    for path, (name, shape) in LAYER.items()
}
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


def write(folder: Path, tensors: Arrays, **changes: object) -> Path:
    folder.mkdir(exist_ok=True)
    config = {key: value for key, value in {**CONFIG, **changes}.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(config))
    save_file(tensors, folder / "model.safetensors")
    return folder


def weights(encoder: Encoder) -> Arrays:
    return {variable.path: variable.numpy() for variable in encoder.trainable_variables}


def assert_holds(encoder: Encoder, tensors: Arrays) -> None:
    found = weights(encoder)
    assert found.keys() == TABLE.keys()
    for path, (name, _) in TABLE.items():
        expected = tensors[name].T if path.endswith("kernel") else tensors[name]
        np.testing.assert_array_equal(found[path], expected, err_msg=path)


def assert_same(found: Arrays, expected: Arrays) -> None:
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array, err_msg=name)


def write_config(folder: Path, name: str = "config.json", **changes: object) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps({**CONFIG, **changes}))
    return folder


def command(*arguments: object) -> Result:
    """`bertline checkpoint …`, in this process."""
    from bertline.pipeline.cli import main

    return CliRunner().invoke(main, ["checkpoint", *map(str, arguments)])


# PyTorch's zips, put together by hand.


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
