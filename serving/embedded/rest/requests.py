"""Requests as JSON, by the rules of TensorFlow Serving's REST API and with its messages.

Values that are alike go into their field together. Only where something is wrong are they gone through one by one, in the
order of the real server, to say what and where.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, NoReturn

import numpy as np
from tensorflow.core.example import example_pb2
from tensorflow.core.framework import tensor_pb2, types_pb2
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import classification_pb2, input_pb2, model_pb2, predict_pb2, regression_pb2

from bertline.serving.embedded.errors import RequestError
from bertline.serving.embedded.rest.document import Infinite, ill_formed, invalid, parse, shown, too_big, type_of
from bertline.serving.settings import Limits

Infos = Mapping[str, meta_graph_pb2.TensorInfo]
_NUMBERS = frozenset({int, float, Infinite})
_SEVERAL = "as multiple input tensors required as per tensorinfo_map"


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
    types_pb2.DT_FLOAT: Kind("float_val", _NUMBERS),
    types_pb2.DT_DOUBLE: Kind("double_val", _NUMBERS),
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


def predict_request(
    body: bytes, spec: model_pb2.ModelSpec, infos: Callable[[str], Infos], limits: Limits
) -> tuple[predict_pb2.PredictRequest, bool]:
    """The request, and whether it came as rows (`instances`), as the reply then does.

    `infos` gives the inputs of a signature by its name.
    """
    document = parse(body, limits)
    request = predict_pb2.PredictRequest()
    _set_spec(request.model_spec, spec, document)
    signature = request.model_spec.signature_name
    inputs = infos(signature)
    if not inputs:
        raise invalid(f"Failed to get input map for signature: {signature or 'DEFAULT'}")
    as_rows = "instances" in document
    if as_rows and "inputs" in document:
        one_of = "Not formatted correctly expecting only one of 'inputs' or 'instances' keys to exist "
        raise ill_formed(document, one_of)
    if as_rows:
        _read_rows(document, inputs, request)
    elif "inputs" in document:
        _read_columns(document["inputs"], inputs, request)
    else:
        raise invalid("Missing 'inputs' or 'instances' key")
    return request, as_rows


def classify_request(body: bytes, spec: model_pb2.ModelSpec, limits: Limits) -> classification_pb2.ClassificationRequest:
    document, request = parse(body, limits), classification_pb2.ClassificationRequest()
    _set_spec(request.model_spec, spec, document)
    _read_examples(document, request.input)
    return request


def regress_request(body: bytes, spec: model_pb2.ModelSpec, limits: Limits) -> regression_pb2.RegressionRequest:
    document, request = parse(body, limits), regression_pb2.RegressionRequest()
    _set_spec(request.model_spec, spec, document)
    _read_examples(document, request.input)
    return request


def type_name(dtype: int) -> str:
    """As TensorFlow's messages have it: `float`, `string`."""
    return types_pb2.DataType.Name(dtype).removeprefix("DT_").lower()


def _set_spec(made: model_pb2.ModelSpec, spec: model_pb2.ModelSpec, document: dict[str, Any]) -> None:
    signature = document.get("signature_name", "")
    if type(signature) is not str:
        raise ill_formed(document, "not formatted correctly. 'signature_name' key must be a string value.")
    made.CopyFrom(spec)
    made.signature_name = signature


def _read_rows(document: dict[str, Any], inputs: Infos, request: predict_pb2.PredictRequest) -> None:
    """An instance is one row of every input: a plain value where there is one input, or an object with their names."""
    rows = document["instances"]
    if type(rows) is not list:
        raise ill_formed(document, "Expecting 'instances' to be an list/array")
    if not rows:
        raise ill_formed(document, "No values in 'instances' array")
    if type(rows[0]) is not dict and len(inputs) > 1:
        raise invalid(f"instances is a plain list, but expecting list of objects {_SEVERAL}")
    if _is_named(rows[0]):
        names = set(inputs)
        if not all(type(row) is dict and row.keys() == names for row in rows):
            _find_fault(rows, inputs)
        columns = {name: [row[name] for row in rows] for name in inputs}
    else:
        columns = {min(inputs): rows}
    for name, column in columns.items():
        if not _fill(request.inputs[name], column, inputs[name].dtype):
            _find_fault(rows, inputs)


def _read_columns(value: Any, inputs: Infos, request: predict_pb2.PredictRequest) -> None:
    if _is_named(value):
        for name in sorted(inputs):
            if name not in value:
                raise invalid(f"Missing named input: {name} in 'inputs' object.")
        columns = {name: value[name] for name in sorted(inputs)}
    elif len(inputs) == 1:
        columns = {min(inputs): value}
    else:
        raise invalid(f"inputs is a plain value/list, but expecting an object {_SEVERAL}")
    for name, column in columns.items():
        if not _fill(request.inputs[name], column, inputs[name].dtype):
            _count(column, 0, _shape(column), inputs[name].dtype)
            raise ill_formed(column, "is no tensor")


def _is_named(value: Any) -> bool:
    return type(value) is dict and not _is_base64(value)


def _is_base64(value: Any) -> bool:
    return type(value) is dict and len(value) == 1 and type(value.get("b64")) is str


def _fill(tensor: tensor_pb2.TensorProto, value: Any, dtype: int) -> bool:
    """Writes the value, or says that it is no tensor of this type."""
    kind, flat = KINDS.get(dtype), _flattened(value)
    if kind is None or flat is None:
        return False
    shape, values = flat
    if dtype == types_pb2.DT_STRING and not kind.takes(values):
        try:
            tensor.string_val.extend(item.encode() if type(item) is str else _from_base64(item) for item in values)
        except RequestError:
            return False
    elif not kind.takes(values) or (kind.types is _NUMBERS and _any_too_big(values)):
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


def _any_too_big(values: list[Any]) -> bool:
    """For doubles. An integer beyond 64 bits is one of those, as in TensorFlow Serving."""
    try:
        infinite = np.isinf(np.array(values, np.float64))
    except OverflowError:
        return True
    return any(type(values[place]) is not Infinite for place in np.flatnonzero(infinite).tolist())


def _from_base64(value: Any) -> bytes:
    """Blanks are passed over and the padding may be left out, as Abseil has it."""
    if not _is_base64(value):
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


def _find_fault(rows: list[Any], inputs: Infos) -> NoReturn:
    """Row by row, as the real server reads them, up to the first that it refuses."""
    named = _is_named(rows[0])
    first: dict[str, tuple[int, list[int]]] = {}
    for place, row in enumerate(rows):
        if _is_named(row) != named:
            but = "object but got list" if named else "value/list but got object"
            raise invalid(f"Expecting {but} at item {place} of input list")
        for name, item in row.items() if named else [(min(inputs), row)]:
            try:
                _check_item(item, name, inputs, first)
            except RequestError as error:
                where = f"element: {place} key: {name}" if named else f"element: {place}"
                said = f"{error.code}: {error.message}"
                raise invalid(f"Failed to process {where} of 'instances' list. Error: {said}") from None
        if named and row.keys() != set(inputs):
            raise invalid(
                f"Failed to process element: {place} of 'instances' list. JSON object: {shown(row)} "
                f"keys must be equal to: {','.join(sorted(inputs))}"
            )
    raise ill_formed(rows, "is no tensor")


def _check_item(item: Any, name: str, inputs: Infos, first: dict[str, tuple[int, list[int]]]) -> None:
    """Every row has the size and the shape of the first."""
    if name not in inputs:
        raise invalid(f"JSON object: does not have named input: {name}")
    shape = _shape(item)
    count = _count(item, 0, shape, inputs[name].dtype)
    first_count, first_shape = first.setdefault(name, (count, shape))
    if count != first_count:
        raise invalid(f"Expecting tensor size: {first_count} but got: {count}")
    if shape != first_shape:
        wanted, found = (f"[{','.join(map(str, sizes))}]" for sizes in (first_shape, shape))
        raise invalid(f"Expecting shape {wanted} but got: {found}")


def _shape(value: Any) -> list[int]:
    """As the first element of each level has it."""
    shape: list[int] = []
    while type(value) is list:
        shape.append(len(value))
        value = value[0] if value else None
    return shape


def _count(value: Any, level: int, shape: list[int], dtype: int) -> int:
    """How many values there are, or an error that names the one that is out of place or not of the type."""
    if type(value) is not list:
        if level != len(shape):
            raise invalid(
                f"JSON Value: {shown(value)} found at incorrect level: {level + 1} in the JSON DOM. "
                f"Expected at level: {len(shape)}"
            )
        _check_value(value, dtype)
        return 1
    if level >= len(shape):
        raise invalid(f"Encountered list at unexpected level: {level} expected < {len(shape)}")
    if len(value) != shape[level]:
        sizes = f"{len(value)} at level: {level} expected size: {shape[level]}"
        raise invalid(f"Encountered list at unexpected size: {sizes}")
    return sum(_count(item, level + 1, shape, dtype) for item in value)


def _check_value(value: Any, dtype: int) -> None:
    kind = KINDS.get(dtype)
    if dtype == types_pb2.DT_STRING and type(value) is dict:
        _from_base64(value)
    elif kind is None and type(value) is not dict:
        raise RequestError("UNIMPLEMENTED", f"Conversion of JSON Value: {shown(value)} to type: {type_name(dtype)}")
    elif kind is None or not kind.takes([value]):
        raise ill_formed(value, f"Type: {type_of(value)} is not of expected type: {type_name(dtype)}")
    elif kind.types is _NUMBERS and _any_too_big([value]):
        raise too_big()


def _read_examples(document: dict[str, Any], made: input_pb2.Input) -> None:
    if "context" in document:
        _read_example(document["context"], made.example_list_with_context.context)
    if "examples" not in document:  # the real server says "classify" of both methods
        raise ill_formed(document, "When method is classify, key 'examples' is expected and was not found")
    found = document["examples"]
    if type(found) is not list:
        raise ill_formed(document, "Expecting 'examples' value to be an list/array")
    if not found:
        raise ill_formed(document, "'examples' value is an empty array")
    examples = made.example_list_with_context.examples if "context" in document else made.example_list.examples
    for value in found:
        _read_example(value, examples.add())


def _read_example(value: Any, example: example_pb2.Example) -> None:
    if type(value) is not dict:
        raise invalid(f"Example must be JSON object but got JSON {type_of(value)}")
    example.SetInParent()
    for name, content in value.items():
        feature, kind, values = example.features.feature[name], "", []
        for item in content if type(content) is list else [content]:
            found, read = _feature_value(name, item)
            if kind and found != kind:
                wanted = kind.removesuffix("_list")
                raise invalid(f"Unexpected element type in feature: {name} expecting type: {wanted}")
            kind = found
            values.append(read)
        if kind:
            getattr(feature, kind).value.extend(values)


def _feature_value(name: str, value: Any) -> tuple[str, Any]:
    """The field of a Feature that the value belongs into, and what is kept there."""
    if type(value) is str:
        return "bytes_list", value.encode()
    if _is_base64(value):
        return "bytes_list", _from_base64(value)
    if value is None or type(value) in (dict, list):
        raise invalid(f"Feature: {name} has element with unexpected JSON type: {type_of(value)}")
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 64:  # true and false are 1 and 0
        if value >= 1 << 63:
            raise invalid(f"Feature: {name} has uint64_t element. Only int64_t is supported.")
        return "int64_list", int(value)
    if _any_too_big([value]):
        raise too_big()
    return "float_list", float(value)
