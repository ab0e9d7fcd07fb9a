"""Values of JSON in the fields of TensorFlow's tensors, by dtype, as TensorFlow Serving has them."""

from __future__ import annotations

import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from tensorflow.core.framework import tensor_pb2, types_pb2
from tensorflow.core.protobuf import meta_graph_pb2

from bertline.serving.embedded.errors import RequestError
from bertline.serving.embedded.rest.document import Infinite, ill_formed, invalid

Infos = Mapping[str, meta_graph_pb2.TensorInfo]
NUMBERS = frozenset({int, float, Infinite})


@dataclass(frozen=True)
class Kind:
    """Where values of a dtype are kept, and which JSON values they may come from."""

    field: str
    types: frozenset[type]
    range: tuple[int, int] | None = None

    def takes(self, values: list[Any]) -> bool:
        if not self.types.issuperset(map(type, values)):
            return False
        return self.range is None or not values or (self.range[0] <= min(values) and max(values) <= self.range[1])


def _integers(field: str, bits: int, signed: bool = True) -> Kind:
    low = -(1 << bits - 1) if signed else 0
    return Kind(field, frozenset({int}), (low, low + (1 << bits) - 1))


KINDS = {
    types_pb2.DT_FLOAT: Kind("float_val", NUMBERS),
    types_pb2.DT_DOUBLE: Kind("double_val", NUMBERS),
    types_pb2.DT_INT8: _integers("int_val", 8),
    types_pb2.DT_UINT8: _integers("int_val", 8, signed=False),
    types_pb2.DT_INT16: _integers("int_val", 16),
    types_pb2.DT_INT32: _integers("int_val", 32),
    types_pb2.DT_INT64: _integers("int64_val", 64),
    types_pb2.DT_UINT32: _integers("uint32_val", 32, signed=False),
    types_pb2.DT_UINT64: _integers("uint64_val", 64, signed=False),
    types_pb2.DT_BOOL: Kind("bool_val", frozenset({bool})),
    types_pb2.DT_STRING: Kind("string_val", frozenset({str})),
}
"""The dtypes that TensorFlow Serving has in JSON."""


def type_name(dtype: int) -> str:
    """As TensorFlow's messages have it: `float`, `string`."""
    return types_pb2.DataType.Name(dtype).removeprefix("DT_").lower()


def is_named(value: Any) -> bool:
    return type(value) is dict and not is_base64(value)


def is_base64(value: Any) -> bool:
    return type(value) is dict and len(value) == 1 and type(value.get("b64")) is str


def fill(tensor: tensor_pb2.TensorProto, value: Any, dtype: int) -> bool:
    """Writes the value, or says that it is no tensor of this type."""
    kind, flat = KINDS.get(dtype), _flattened(value)
    if kind is None or flat is None:
        return False
    shape, values = flat
    if dtype == types_pb2.DT_STRING and not kind.takes(values):
        try:
            tensor.string_val.extend(item.encode() if type(item) is str else from_base64(item) for item in values)
        except RequestError:
            return False
    elif not kind.takes(values) or (kind.types is NUMBERS and any_too_big(values)):
        return False
    else:
        getattr(tensor, kind.field).extend(map(str.encode, values) if dtype == types_pb2.DT_STRING else values)
    tensor.dtype = dtype
    tensor.tensor_shape.SetInParent()
    for size in shape:
        tensor.tensor_shape.dim.add(size=size)
    return True


def _flattened(value: Any) -> tuple[list[int], list[Any]] | None:
    """The shape and all values in a row; None where lists differ in length or depth."""
    shape: list[int] = []
    level = [value]
    while level and type(level[0]) is list:
        size = len(level[0])
        if any(type(item) is not list or len(item) != size for item in level):
            return None
        shape.append(size)
        level = list(chain.from_iterable(level))
    return None if list in set(map(type, level)) else (shape, level)


def any_too_big(values: list[Any]) -> bool:
    """For doubles. An integer beyond 64 bits is one of those, as in TensorFlow Serving."""
    try:
        infinite = np.isinf(np.array(values, np.float64))
    except OverflowError:
        return True
    return any(type(values[place]) is not Infinite for place in np.flatnonzero(infinite).tolist())


def from_base64(value: Any) -> bytes:
    """Blanks are passed over and the padding may be left out, as Abseil has it."""
    if not is_base64(value):
        raise ill_formed(value, "not formatted correctly for base64 data")
    given = "".join(value["b64"].split())
    digits = given.rstrip("=.")
    lacking = -len(digits) % 4
    try:
        if lacking == 3 or len(given) - len(digits) not in (0, lacking):
            raise ValueError
        return binascii.a2b_base64(digits + "=" * lacking, strict_mode=True)
    except ValueError:
        raise invalid("Unable to base64 decode") from None
