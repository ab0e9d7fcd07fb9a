"""Requests as JSON, by the rules of TensorFlow Serving's REST API and with its messages.

Values that are alike go into their field together (`values.py`). Only where something is wrong are they gone through one by
one, in the order of the real server, to say what and where (`faults.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensorflow.core.example import example_pb2
from tensorflow_serving.apis import classification_pb2, input_pb2, model_pb2, predict_pb2, regression_pb2

from bertline.serving.embedded.rest.document import ill_formed, invalid, parse, too_big, type_of
from bertline.serving.embedded.rest.faults import count_of, find_fault, shape_of
from bertline.serving.embedded.rest.values import Infos, any_too_big, fill, from_base64, is_base64, is_named
from bertline.serving.settings import Limits

_SEVERAL = "as multiple input tensors required as per tensorinfo_map"


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
    if is_named(rows[0]):
        names = set(inputs)
        if not all(type(row) is dict and row.keys() == names for row in rows):
            find_fault(rows, inputs)
        columns = {name: [row[name] for row in rows] for name in inputs}
    else:
        columns = {min(inputs): rows}
    for name, column in columns.items():
        if not fill(request.inputs[name], column, inputs[name].dtype):
            find_fault(rows, inputs)


def _read_columns(value: Any, inputs: Infos, request: predict_pb2.PredictRequest) -> None:
    if is_named(value):
        for name in sorted(inputs):
            if name not in value:
                raise invalid(f"Missing named input: {name} in 'inputs' object.")
        columns = {name: value[name] for name in sorted(inputs)}
    elif len(inputs) == 1:
        columns = {min(inputs): value}
    else:
        raise invalid(f"inputs is a plain value/list, but expecting an object {_SEVERAL}")
    for name, column in columns.items():
        if not fill(request.inputs[name], column, inputs[name].dtype):
            count_of(column, 0, shape_of(column), inputs[name].dtype)
            raise ill_formed(column, "is no tensor")


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
    if is_base64(value):
        return "bytes_list", from_base64(value)
    if value is None or type(value) in (dict, list):
        raise invalid(f"Feature: {name} has element with unexpected JSON type: {type_of(value)}")
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 64:  # true and false are 1 and 0
        if value >= 1 << 63:
            raise invalid(f"Feature: {name} has uint64_t element. Only int64_t is supported.")
        return "int64_list", int(value)
    if any_too_big([value]):
        raise too_big()
    return "float_list", float(value)
