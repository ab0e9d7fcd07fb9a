"""TensorFlow Serving's messages and tensors, without TensorFlow.

The generated modules of `tensorflow_serving` import all of TensorFlow, which takes seconds and half a gigabyte: too much
for a program that sends a text and reads a label. What a client says and hears is few messages, and the numbers of their
fields never change, so they stand here; a test holds them against the generated ones.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

SCHEMA = {
    "Int64Value": "int64 value=1",
    "Any": "string type_url=1; bytes value=2",
    "ModelSpec": "string name=1; Int64Value version=2; string version_label=4; string signature_name=3",
    "Dim": "int64 size=1",
    "TensorShapeProto": "repeated Dim dim=2; bool unknown_rank=3",
    "TensorProto": (
        "int32 dtype=1; TensorShapeProto tensor_shape=2; bytes tensor_content=4;"
        "repeated int32 half_val=13; repeated float float_val=5; repeated double double_val=6; repeated int32 int_val=7;"
        "repeated bytes string_val=8; repeated int64 int64_val=10; repeated bool bool_val=11;"
        "repeated uint32 uint32_val=16; repeated uint64 uint64_val=17"
    ),
    "PredictRequest": "ModelSpec model_spec=1; map TensorProto inputs=2; repeated string output_filter=3",
    "PredictResponse": "map TensorProto outputs=1; ModelSpec model_spec=2",
    "GetModelMetadataRequest": "ModelSpec model_spec=1; repeated string metadata_field=2",
    "GetModelMetadataResponse": "ModelSpec model_spec=1; map Any metadata=2",
    "TensorInfo": "string name=1; int32 dtype=2; TensorShapeProto tensor_shape=3",
    "SignatureDef": "map TensorInfo inputs=1; map TensorInfo outputs=2; string method_name=3",
    "SignatureDefMap": "map SignatureDef signature_def=1",
    "GetModelStatusRequest": "ModelSpec model_spec=1",
    "StatusProto": "int32 error_code=1; string error_message=2",
    "ModelVersionStatus": "int64 version=1; int32 state=2; StatusProto status=3",
    "GetModelStatusResponse": "repeated ModelVersionStatus model_version_status=1",
}
"""Message -> its fields and their numbers. Enums are numbers here, as they are on the wire; a map's keys are strings."""
_Field = descriptor_pb2.FieldDescriptorProto


def build_messages(schema: Mapping[str, str], package: str) -> dict[str, Any]:
    """The classes of messages, in a pool of their own: who imports the generated modules as well meets no conflict."""
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
    for name, fields in schema.items():
        made = file.message_type.add(name=name)
        for many, kind, field, number in re.findall(r"(repeated |map |)(\w+) (\w+)=(\d+)", fields):
            if many == "map ":
                entry = made.nested_type.add(name="".join(part.title() for part in field.split("_")) + "Entry")
                entry.options.map_entry = True
                _add_field(entry, package, "key", 1, "string")
                _add_field(entry, package, "value", 2, kind)
                kind = f"{name}.{entry.name}"
            _add_field(made, package, field, int(number), kind, repeated=bool(many))
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}")) for name in schema}


def _add_field(message: Any, package: str, name: str, number: int, kind: str, *, repeated: bool = False) -> None:
    field = message.field.add(name=name, number=number)
    field.label = _Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL
    if kind[0].islower():
        field.type = _Field.Type.Value(f"TYPE_{kind.upper()}")
    else:
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".{package}.{kind}"


MESSAGES: Mapping[str, Any] = build_messages(SCHEMA, "bertline.wire")

_STRING = 7
_BFLOAT16 = 14
_NUMBERS: Mapping[int, tuple[str, str]] = {
    1: ("float32", "float_val"),
    2: ("float64", "double_val"),
    3: ("int32", "int_val"),
    4: ("uint8", "int_val"),
    5: ("int16", "int_val"),
    6: ("int8", "int_val"),
    9: ("int64", "int64_val"),
    10: ("bool", "bool_val"),
    _BFLOAT16: ("bfloat16", "half_val"),
    17: ("uint16", "int_val"),
    19: ("float16", "half_val"),
    22: ("uint32", "uint32_val"),
    23: ("uint64", "uint64_val"),
}
"""Number of a type -> its name, and the field that holds its values; half-precision ones are there as their bits."""
_TYPES = {name: number for number, (name, _) in _NUMBERS.items()}


def type_name(number: int) -> str:
    return "string" if number == _STRING else _NUMBERS.get(number, (f"type {number}",))[0]


def as_array(value: Any) -> np.ndarray:
    """What a caller gave as an array; strings are an array of bytes, in UTF-8.

    Numbers of Python are float32 and int32, as TensorFlow takes them; an array keeps its type.
    """
    first = value
    while isinstance(first, list | tuple) and first:
        first = first[0]
    # Numpy's own strings are all as long as the longest, and lose zeros at their end.
    array = np.asarray(value, object if isinstance(first, str | bytes) else None)
    if array.dtype.kind in "SUO":
        return _of_strings([encoded(item) for item in array.ravel().tolist()], array.shape)
    if isinstance(value, np.ndarray | np.generic):
        return array
    if array.dtype == np.float64:
        return array.astype(np.float32)
    if array.dtype == np.int64 and (array == array.astype(np.int32)).all():
        return array.astype(np.int32)
    return array


def encoded(text: Any) -> bytes:
    if isinstance(text, bytes):
        return text
    if isinstance(text, str):
        return text.encode("utf-8", "surrogateescape")  # what came from a command line or a path is again what it was
    raise TypeError(f"texts are str or bytes, and all examples have equally many. Received: {text!r:.100}")


def fill_tensor(proto: Any, array: np.ndarray) -> None:
    """Writes an array as `as_array` gives it into a TensorProto."""
    for size in array.shape:
        proto.tensor_shape.dim.add(size=size)
    if array.dtype.kind == "O":
        proto.dtype = _STRING
        proto.string_val.extend(array.ravel().tolist())
        return
    if array.dtype.name not in _TYPES:
        raise TypeError(f"a tensor cannot be of numpy's type {array.dtype}; convert it.")
    proto.dtype = _TYPES[array.dtype.name]
    proto.tensor_content = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()


def read_tensor(proto: Any, max_elements: int) -> np.ndarray:
    """The values of a TensorProto; strings as an array of bytes.

    As in TensorFlow the last value given is repeated to the end of the shape, and no value means zeros. So few bytes may
    stand for any amount of memory: hence the bound.

    Raises:
      ValueError: it is no tensor, or larger than the bound.
    """
    shape = tuple(dim.size for dim in proto.tensor_shape.dim)
    if proto.tensor_shape.unknown_rank or len(shape) > 16 or any(size < 0 for size in shape):
        raise ValueError(f"it has the shape {list(shape)[:17]}, which no tensor has")
    size = math.prod(shape)
    if size > max_elements:
        raise ValueError(f"its shape {list(shape)} has more than {max_elements:,} elements")
    if proto.dtype == _STRING:
        return _of_strings(_filled_up(proto.string_val, size, b""), shape)
    if proto.dtype not in _NUMBERS:
        raise ValueError(f"its {type_name(proto.dtype)} is none that is read here")
    name, field = _NUMBERS[proto.dtype]
    dtype = np.dtype("uint16" if field == "half_val" else name).newbyteorder("<")
    if proto.tensor_content:
        values = np.frombuffer(proto.tensor_content, dtype)
        if values.size != size:
            raise ValueError(f"its shape is {list(shape)}, and it holds {values.size} values")
    else:
        values = np.array(_filled_up(getattr(proto, field), size, 0), dtype)
    if proto.dtype == _BFLOAT16:  # the upper half of a float32; numpy itself has no such type
        values = (values.astype(np.uint32) << 16).view(np.float32)
    elif field == "half_val":
        values = values.view(np.float16)
    return values.reshape(shape)


def _filled_up(values: Any, size: int, zero: Any) -> list[Any]:
    given = list(values[:size])
    return given + [given[-1] if given else zero] * (size - len(given))


def _of_strings(values: list[bytes], shape: tuple[int, ...]) -> np.ndarray:
    array = np.empty(len(values), object)
    array[:] = values
    return array.reshape(shape)
