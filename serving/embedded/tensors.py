"""Tensors on the wire and in numpy.

Replies use the typed fields (`float_val`, `string_val`, …), as TensorFlow Serving's do: some clients cannot read
`tensor_content`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tensorflow.core.framework import tensor_pb2, types_pb2

from bertline.serving.embedded.errors import RequestError
from bertline.serving.lean_tensorflow import as_bytes, as_dtype

_FIELDS = {
    types_pb2.DT_FLOAT: "float_val",
    types_pb2.DT_DOUBLE: "double_val",
    types_pb2.DT_INT32: "int_val",
    types_pb2.DT_INT16: "int_val",
    types_pb2.DT_INT8: "int_val",
    types_pb2.DT_UINT8: "int_val",
    types_pb2.DT_UINT16: "int_val",
    types_pb2.DT_INT64: "int64_val",
    types_pb2.DT_UINT32: "uint32_val",
    types_pb2.DT_UINT64: "uint64_val",
    types_pb2.DT_BOOL: "bool_val",
    types_pb2.DT_STRING: "string_val",
    types_pb2.DT_HALF: "half_val",
    types_pb2.DT_BFLOAT16: "half_val",
}
"""The field that holds the values of a type; half-precision numbers are there as the integers of their bits."""
_HALF = "half_val"


def to_array(proto: tensor_pb2.TensorProto, max_elements: int) -> np.ndarray:
    """The tensor's values, of at most `max_elements`.

    As in TensorFlow, the last value given is repeated to the end of the shape, and no value means zeros. So a few bytes
    may ask for any amount of memory: hence the bound.
    """
    field = _FIELDS.get(proto.dtype)
    if field is None:
        raise RequestError("INVALID_ARGUMENT", f"Tensors of type {_type_name(proto.dtype)} are not served")
    shape = _shape(proto, max_elements)
    dtype = object if proto.dtype == types_pb2.DT_STRING else as_dtype(proto.dtype).as_numpy_dtype
    if proto.tensor_content:
        return _of_content(proto, shape, dtype)
    size, given = math.prod(shape), getattr(proto, field)
    values = given[:size] if len(given) > size else given
    if dtype is object:  # numpy would look for sequences in bytes
        array = np.empty(len(values), object)
        array[:] = values
    else:
        array = _checked(values, np.uint16).view(dtype) if field == _HALF else _checked(values, dtype)
    if len(array) < size:
        more = np.empty(size - len(array), array.dtype)
        more.fill(array[-1] if len(array) else (b"" if dtype is object else 0))
        array = np.concatenate([array, more])
    return array.reshape(shape)


def to_proto(array: Any, proto: tensor_pb2.TensorProto | None = None) -> tensor_pb2.TensorProto:
    """A tensor with typed fields; it is written into `proto` if there is one."""
    array = np.asarray(array)
    proto = tensor_pb2.TensorProto() if proto is None else proto
    kind = types_pb2.DT_STRING if array.dtype.kind in "OSU" else as_dtype(array.dtype).as_datatype_enum
    field = _FIELDS.get(kind)
    if field is None:
        raise RequestError("INTERNAL", f"Tensors of type {_type_name(kind)} are not served")
    proto.dtype = kind
    for size in array.shape:
        proto.tensor_shape.dim.add(size=size)
    flat = array.ravel()
    values = (flat.view(np.uint16) if field == _HALF else flat).tolist()
    getattr(proto, field).extend(map(as_bytes, values) if kind == types_pb2.DT_STRING else values)
    return proto


def _shape(proto: tensor_pb2.TensorProto, max_elements: int) -> tuple[int, ...]:
    if proto.tensor_shape.unknown_rank:
        raise RequestError("INVALID_ARGUMENT", "A tensor has no shape")
    shape = tuple(dim.size for dim in proto.tensor_shape.dim)
    if len(shape) > 16 or any(size < 0 for size in shape):
        raise RequestError("INVALID_ARGUMENT", f"A tensor has the shape {list(shape[:17])}, which no tensor has")
    if math.prod(size for size in shape if size) > max_elements:  # numpy has no [0, 2**62], though it is empty
        raise RequestError("INVALID_ARGUMENT", f"A tensor of shape {list(shape)} has more than {max_elements} elements")
    return shape


def _of_content(proto: tensor_pb2.TensorProto, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    if dtype is object:
        raise RequestError("INVALID_ARGUMENT", "Strings are read from string_val, not from tensor_content")
    wanted = math.prod(shape) * np.dtype(dtype).itemsize
    if len(proto.tensor_content) != wanted:
        given = len(proto.tensor_content)
        raise RequestError("INVALID_ARGUMENT", f"tensor_content has {given} bytes, and its shape {list(shape)} {wanted}")
    return np.frombuffer(proto.tensor_content, dtype).reshape(shape)


def _checked(values: Any, dtype: Any) -> np.ndarray:
    if np.dtype(dtype).kind not in "iu" or np.dtype(dtype).itemsize > 2:  # its field has just its values
        return np.array(values, dtype)
    wide, bounds = np.array(values, np.int64), np.iinfo(dtype)  # numpy 1 would make 44 of 300 in an int8
    if len(wide) and (wide.min() < bounds.min or wide.max() > bounds.max):
        raise RequestError("INVALID_ARGUMENT", f"A value does not fit its type {np.dtype(dtype).name}")
    return wide.astype(dtype)


def _type_name(number: int) -> str:
    return types_pb2.DataType.Name(number) if number in types_pb2.DataType.values() else str(number)
