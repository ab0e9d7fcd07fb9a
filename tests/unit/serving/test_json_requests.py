"""JSON that is a request, by the rules of TensorFlow Serving's source (util/json_tensor.cc)."""

import json
import math
import random

import numpy as np
import pytest
from rest_values import LIMITS, SPEC, inputs, proto, read, refused, shape, tensor
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import model_pb2

from bertline.serving.embedded.rest.requests import predict_request


def test_a_list_of_strings_becomes_one_tensor():
    assert tensor(read('{"instances": ["a", "zwölf", "😀"]}', x="STRING")) == proto(
        "STRING", [3], string_val=[b"a", "zwölf".encode(), "😀".encode()]
    )


def test_rows_are_stacked_and_keep_their_shape():
    made = tensor(read('{"instances": [[1,2],[3,4],[5,6]]}', x="INT32"))
    assert made == proto("INT32", [3, 2], int_val=[1, 2, 3, 4, 5, 6])


def test_rows_with_names_fill_every_input():
    request = read('{"instances": [{"a": [1, 2], "b": "x"}, {"b": "y", "a": [3, 4]}]}', a="INT64", b="STRING")
    assert tensor(request, "a") == proto("INT64", [2, 2], int64_val=[1, 2, 3, 4])
    assert tensor(request, "b") == proto("STRING", [2], string_val=[b"x", b"y"])


def test_columns_keep_the_shape_that_they_have():
    request = read('{"inputs": {"a": [[[1,2],[3,4]]], "b": {"b64": "aGVsbG8="}, "unused": 1}}', a="INT32", b="STRING")
    assert tensor(request, "a") == proto("INT32", [1, 2, 2], int_val=[1, 2, 3, 4])
    assert tensor(request, "b") == proto("STRING", [], string_val=[b"hello"])


def test_a_single_input_needs_no_name_in_columns():
    assert tensor(read('{"inputs": [[1], [2]]}', x="INT32")) == proto("INT32", [2, 1], int_val=[1, 2])
    assert tensor(read('{"inputs": {"x": [[1], [2]]}}', x="INT32")) == proto("INT32", [2, 1], int_val=[1, 2])


def test_whether_rows_or_columns_came_is_told():
    infos = inputs(x="INT32")
    assert predict_request(b'{"instances": [1]}', SPEC, lambda _: infos, LIMITS)[1] is True
    assert predict_request(b'{"inputs": [1]}', SPEC, lambda _: infos, LIMITS)[1] is False


@pytest.mark.parametrize("dtype, field", [("FLOAT", "float_val"), ("DOUBLE", "double_val")])
def test_whole_numbers_and_names_of_numbers_pass_for_floats(dtype, field):
    values = getattr(tensor(read('{"instances": [1, 2.5, NaN, Infinity, -Infinity, -0.0]}', x=dtype)), field)
    assert math.isnan(values[2])
    assert [*values[:2], *values[3:5]] == [1.0, 2.5, math.inf, -math.inf]
    assert math.copysign(1, values[5]) == -1


def test_a_double_beyond_a_float_is_infinite_and_not_an_error():
    assert list(tensor(read('{"instances": [1e300, -1e300, 1e-300]}', x="FLOAT")).float_val) == [math.inf, -math.inf, 0]


def test_an_integer_beyond_64_bits_passes_for_a_float():
    assert list(tensor(read('{"instances": [18446744073709551616, 1]}', x="DOUBLE")).double_val) == [2.0**64, 1]


def test_booleans_are_read():
    assert tensor(read('{"instances": [true, false]}', x="BOOL")) == proto("BOOL", [2], bool_val=[True, False])


@pytest.mark.parametrize(
    "dtype, field, low, high",
    [
        ("INT8", "int_val", -128, 127),
        ("UINT8", "int_val", 0, 255),
        ("INT16", "int_val", -(2**15), 2**15 - 1),
        ("INT32", "int_val", -(2**31), 2**31 - 1),
        ("INT64", "int64_val", -(2**63), 2**63 - 1),
        ("UINT32", "uint32_val", 0, 2**32 - 1),
        ("UINT64", "uint64_val", 0, 2**64 - 1),
    ],
)
def test_integers_pass_within_the_range_of_their_type(dtype, field, low, high):
    assert list(getattr(tensor(read(f'{{"instances": [{low}, {high}]}}', x=dtype)), field)) == [low, high]
    for value in (low - 1, high + 1):
        name = dtype.lower()
        assert f"JSON Value: {value} Type: Number is not of expected type: {name}" in refused(
            f'{{"instances": [{value}]}}', x=dtype
        )


@pytest.mark.parametrize("text", ["aGVsbG8=", "aGVsbG8", "aGVs\\nbG8=", " a G V s b G 8 = "])
def test_base64_is_read_as_abseil_reads_it(text):
    request = read(f'{{"instances": [{{"b64": "{text}"}}, "plain"]}}', x="STRING")
    assert list(tensor(request).string_val) == [b"hello", b"plain"]


def test_base64_may_stand_in_lists_and_under_names():
    request = read('{"instances": [{"x": [[{"b64": "aGk="}], [{"b64": ""}]]}]}', x="STRING")
    assert tensor(request) == proto("STRING", [1, 2, 1], string_val=[b"hi", b""])


def test_empty_lists_keep_their_place():
    assert shape(tensor(read('{"instances": [[], []]}', x="FLOAT"))) == [2, 0]
    assert shape(tensor(read('{"inputs": []}', x="FLOAT"))) == [0]


def test_the_signature_is_asked_for_by_its_name():
    asked = []

    def infos(name: str) -> dict[str, meta_graph_pb2.TensorInfo]:
        asked.append(name)
        return inputs(x="INT32")

    request, _ = predict_request(b'{"signature_name": "other", "instances": [1]}', SPEC, infos, LIMITS)
    assert asked == ["other"]
    assert request.model_spec == model_pb2.ModelSpec(name="m", signature_name="other")


def test_escapes_are_read_and_pairs_of_surrogates_joined():
    request = read(r'{"instances": ["\ud83d\ude00 \\ud83d \"\n\u00e4"]}', x="STRING")
    assert tensor(request).string_val[0].decode() == '😀 \\ud83d "\nä'


def test_a_byte_order_mark_and_what_follows_the_document_are_passed_over():
    assert list(tensor(read(b'\xef\xbb\xbf\n{"instances": [1]}\0 more', x="INT32")).int_val) == [1]


def test_a_large_request_gives_every_value_back():
    drawn = random.Random(0)
    rows = [[drawn.uniform(-1e3, 1e3) for _ in range(8)] for _ in range(500)]
    made = tensor(read(json.dumps({"instances": rows}), x="FLOAT"))
    assert np.array_equal(np.array(made.float_val, np.float32).reshape(500, 8), np.array(rows, np.float32))
