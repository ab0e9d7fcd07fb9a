"""Predict over gRPC: what comes back, in which fields, and what is refused in which words."""

import numpy as np
import pytest
import tensorflow as tf
from conformance_models import DTYPES, HALF_PLUS_TWO_VERSION
from conformance_targets import refused, spec, values
from tensorflow.core.framework import tensor_pb2, types_pb2
from tensorflow_serving.apis import predict_pb2

X = {"x": np.array([1.0, 2.0, 5.0], np.float32)}
ROW = {"text": np.array([b"hi", b"ho"], object), "number": np.array([1.0, 2.5], np.float32)}
FIELDS = {
    "float32": ("float_val", [1.5, -2.0]),
    "float64": ("double_val", [1.5, 1e300]),
    "float16": ("half_val", [0x3C00, 0xC000]),
    "int8": ("int_val", [-128, 127]),
    "int16": ("int_val", [-32768, 32767]),
    "int32": ("int_val", [-(2**31), 2**31 - 1]),
    "int64": ("int64_val", [-(2**63), 2**63 - 1]),
    "uint8": ("int_val", [0, 255]),
    "uint32": ("uint32_val", [0, 2**32 - 1]),
    "uint64": ("uint64_val", [0, 2**64 - 1]),
    "bool": ("bool_val", [True, False]),
    "string": ("string_val", [b"", b"\xff\x00"]),
}


def of_type(name: str, shape: list[int], given: list) -> tensor_pb2.TensorProto:
    tensor = tensor_pb2.TensorProto(dtype=tf.as_dtype(name).as_datatype_enum)
    tensor.tensor_shape.SetInParent()
    for size in shape:
        tensor.tensor_shape.dim.add(size=size)
    getattr(tensor, FIELDS[name][0]).extend(given)
    return tensor


@pytest.mark.parametrize("model, y", [("half_plus_two", [2.5, 3.0, 4.5]), ("half_plus_three", [3.5, 4.0, 5.5])])
def test_each_of_two_models_answers_by_its_own_weights(server, model, y):
    assert server.y(model, [1.0, 2.0, 5.0]) == y


def test_an_answer_names_the_model_the_version_and_the_signature_that_it_comes_from(server):
    assert server.predict("half_plus_two", X).model_spec == spec("half_plus_two", "serving_default", HALF_PLUS_TWO_VERSION)


def test_a_version_that_is_asked_for_by_its_number_answers(server):
    assert server.y("half_plus_two", [1.0], version=HALF_PLUS_TWO_VERSION) == [2.5]


@pytest.mark.parametrize("name", DTYPES)
def test_a_tensor_comes_back_in_the_typed_field_of_its_dtype(server, name):
    field, given = FIELDS[name]
    tensor = server.predict("types", {"value": of_type(name, [2], given)}, signature=name).outputs["value"]
    assert list(getattr(tensor, field)) == given
    assert not tensor.tensor_content
    assert tensor.dtype == tf.as_dtype(name).as_datatype_enum
    assert [dim.size for dim in tensor.tensor_shape.dim] == [2]


@pytest.mark.parametrize("name", [name for name in DTYPES if name != "string"])
def test_values_are_read_from_tensor_content_too(server, name):
    field, given = FIELDS[name]
    array = tf.make_ndarray(of_type(name, [2], given))
    tensor = tensor_pb2.TensorProto(dtype=tf.as_dtype(name).as_datatype_enum, tensor_content=array.tobytes())
    tensor.tensor_shape.dim.add(size=2)
    answer = server.predict("types", {"value": tensor}, signature=name).outputs["value"]
    assert list(getattr(answer, field)) == given


@pytest.mark.parametrize(
    "shape", [[], [0], [1], [2, 3], [1, 2, 3, 1], [3, 0, 2]], ids=lambda shape: "x".join(map(str, shape)) or "scalar"
)
def test_a_tensor_keeps_its_shape(server, shape):
    array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    answer = tf.make_ndarray(server.predict("types", {"value": array}, signature="float32").outputs["value"])
    np.testing.assert_array_equal(answer, array)


@pytest.mark.parametrize(
    "given, expected",
    [([7], [7, 7, 7]), ([7, 8], [7, 8, 8]), ([], [0, 0, 0])],
    ids=["one-value-fills-all", "the-last-value-fills-the-rest", "no-value-is-zeros"],
)
def test_too_few_values_are_repeated_as_tensorflow_does(server, given, expected):
    tensor = of_type("int32", [3], given)
    assert values(server.predict("types", {"value": tensor}, signature="int32").outputs["value"]) == expected


@pytest.mark.parametrize("given", [np.nan, np.inf, -np.inf])
def test_what_is_no_finite_number_comes_back_as_it_was(server, given):
    answer = server.predict("types", {"value": np.float32([given])}, signature="float32").outputs["value"]
    np.testing.assert_array_equal(values(answer), [given])


def test_every_output_comes_where_none_is_named(server):
    answer = server.predict("two_inputs", ROW).outputs
    assert {name: values(tensor) for name, tensor in answer.items()} == {
        "doubled": [2.0, 5.0],
        "spoken": [b"hi-hi", b"ho-ho"],
        "spoken_bytes": [b"hi-hi", b"ho-ho"],
    }


@pytest.mark.parametrize("wanted", [("doubled",), ("spoken", "doubled"), ("spoken_bytes",)], ids=",".join)
def test_an_output_filter_gives_those_outputs_alone(server, wanted):
    assert set(server.predict("two_inputs", ROW, outputs=wanted).outputs) == set(wanted)


SIGNATURE = 'Serving signature key "nonesuch" not found.'
SIZES = "input size does not match signature: {}."
TEXT, NUMBER, MORE = ({name: np.array([1.0], np.float32)} for name in ("text", "number", "more"))
REFUSALS = {
    "unknown-model": ("nonesuch", X, {}, "NOT_FOUND", "Servable not found for request: Latest(nonesuch)"),
    "unknown-version": ("half_plus_two", X, {"version": 7}, "NOT_FOUND",
                        "Servable not found for request: Specific(half_plus_two, 7)"),
    "version-zero-is-a-version": ("half_plus_two", X, {"version": 0}, "NOT_FOUND",
                                  "Servable not found for request: Specific(half_plus_two, 0)"),
    "version-of-unknown-model": ("nonesuch", X, {"version": 7}, "NOT_FOUND",
                                 "Servable not found for request: Specific(nonesuch, 7)"),
    "unknown-label": ("half_plus_two", X, {"label": "L"}, "INVALID_ARGUMENT", "Unrecognized servable version label: L"),
    "label-of-unknown-model": ("nonesuch", X, {"label": "L"}, "INVALID_ARGUMENT",
                               "Unrecognized servable version label: L"),
    "no-name": ("", X, {}, "INVALID_ARGUMENT", "ModelSpec has no name specified."),
    "unknown-signature": ("half_plus_two", X, {"signature": "nonesuch"}, "FAILED_PRECONDITION", SIGNATURE),
    "no-default-signature": ("types", X, {}, "FAILED_PRECONDITION", SIGNATURE.replace("nonesuch", "serving_default")),
    "names-are-told-apart-by-case": ("Half_Plus_Two", X, {}, "NOT_FOUND",
                                     "Servable not found for request: Latest(Half_Plus_Two)"),
    "missing-input": ("two_inputs", TEXT, {}, "INVALID_ARGUMENT", SIZES.format(
        "1!=2 len({text}) != len({number,text}). Sent extra: {}. Missing but required: {number}")),
    "no-input": ("half_plus_two", {}, {}, "INVALID_ARGUMENT", SIZES.format(
        "0!=1 len({}) != len({x}). Sent extra: {}. Missing but required: {x}")),
    "extra-input": ("two_inputs", TEXT | NUMBER | MORE, {}, "INVALID_ARGUMENT", SIZES.format(
        "3!=2 len({more,number,text}) != len({number,text}). Sent extra: {more}. Missing but required: {}")),
    "extra-and-missing": ("half_plus_two", MORE | TEXT, {}, "INVALID_ARGUMENT", SIZES.format(
        "2!=1 len({more,text}) != len({x}). Sent extra: {more,text}. Missing but required: {x}")),
    "as-many-inputs-of-other-names": ("half_plus_two", MORE, {}, "INVALID_ARGUMENT", "…"),
    "unknown-output": ("two_inputs", ROW, {"outputs": ("nonesuch",)}, "INVALID_ARGUMENT",
                       "output tensor alias not found in signature: nonesuch Outputs expected to be in the set"
                       " {doubled,spoken,spoken_bytes}."),
    "output-named-twice": ("two_inputs", ROW, {"outputs": ("doubled", "doubled")}, "INVALID_ARGUMENT",
                           "duplicate output tensor alias: doubled"),
    "float-for-a-string": ("two_inputs", NUMBER | {"text": np.float32([1])}, {}, "INVALID_ARGUMENT", "…"),
    "string-for-a-float": ("half_plus_two", {"x": np.array([b"1"], object)}, {}, "INVALID_ARGUMENT", "…"),
    "double-for-a-float": ("half_plus_two", {"x": np.float64([1])}, {}, "INVALID_ARGUMENT", "…"),
}  # fmt: skip


@pytest.mark.parametrize("model, inputs, others, code, message", REFUSALS.values(), ids=REFUSALS)
def test_a_wrong_request_is_refused_in_the_words_of_tensorflow_serving(server, model, inputs, others, code, message):
    refused(lambda: server.predict(model, inputs, **others), code, message)


def test_a_request_without_a_model_spec_is_refused(server):
    refused(lambda: server.prediction.Predict(predict_pb2.PredictRequest()), "INVALID_ARGUMENT", "Missing ModelSpec")


@pytest.mark.parametrize(
    "tensor",
    [
        tensor_pb2.TensorProto(),
        tensor_pb2.TensorProto(dtype=types_pb2.DT_FLOAT, tensor_content=b"\0\0\0"),
        of_type("float32", [-1], [1.0]),
        tensor_pb2.TensorProto(dtype=types_pb2.DT_FLOAT, tensor_shape={"unknown_rank": True}),
    ],
    ids=["no-dtype", "content-of-three-bytes", "negative-size", "unknown-rank"],
)
def test_a_tensor_that_is_none_is_refused(server, tensor):
    refused(lambda: server.predict("half_plus_two", {"x": tensor}), "INVALID_ARGUMENT", "…")


@pytest.mark.usefixtures("embedded_only")
def test_a_few_bytes_cannot_ask_for_gigabytes(server):
    tensor = of_type("float32", [1 << 20, 1 << 20], [1.0])
    refused(lambda: server.predict("half_plus_two", {"x": tensor}), "INVALID_ARGUMENT", "… has more than … elements")


def test_a_refused_request_leaves_the_server_answering(server):
    refused(lambda: server.predict("half_plus_two", MORE), "INVALID_ARGUMENT", "…")
    assert server.y("half_plus_two", [0.0]) == [2.0]
