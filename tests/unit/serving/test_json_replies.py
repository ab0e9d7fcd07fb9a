"""Replies as JSON, printed as TensorFlow Serving's source prints them (util/json_tensor.cc)."""

import json
import math

import numpy as np
import pytest
from rest_values import proto, reply
from tensorflow.core.framework import tensor_pb2, types_pb2
from tensorflow_serving.apis import classification_pb2, regression_pb2

from bertline.serving.embedded.errors import RequestError
from bertline.serving.embedded.rest.replies import classify_reply, decimals, error_reply, regress_reply


@pytest.mark.parametrize(
    "value, text",
    [
        (9000000, "9e+06"),
        (999999, "999999.0"),
        (0.5, "0.5"),
        (0.0003, "0.0003"),
        (0.00003, "3e-05"),
        (555557.5, "555557.5"),
        (0.1, "0.1"),
        (1 / 3, "0.333333343"),
        (16777216, "16777216.0"),
        (-0.0, "-0.0"),
        (math.nan, "NaN"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
    ],
)
def test_floats_are_printed_as_tensorflow_serving_prints_them(value, text):
    assert decimals([value], np.float32) == [text]


def test_doubles_have_as_many_digits_as_they_need():
    assert decimals([0.1, 1 / 3, 1e100, 123456789.0], np.float64) == ["0.1", "0.33333333333333331", "1e+100", "123456789.0"]


def test_every_printed_float_gives_the_number_back():
    bits = np.random.default_rng(0).integers(0, 2**32, 20_000, np.uint32)
    values = bits.view(np.float32)
    values = values[np.isfinite(values)]
    assert np.array_equal(np.array(list(map(float, decimals(values, np.float32))), np.float32), values)


def test_a_single_output_goes_without_its_name():
    made = proto("FLOAT", [3], float_val=[2.5, 3, 4.5])
    assert reply(y=made) == '{\n    "predictions": [2.5, 3.0, 4.5\n    ]\n}'
    assert reply(as_rows=False, y=made) == '{\n    "outputs": [\n        2.5,\n        3.0,\n        4.5\n    ]\n}'


def test_rows_have_all_outputs_by_name():
    text = reply(b=proto("INT32", [2, 2], int_val=[1, 2, 3, 4]), a=proto("STRING", [2], string_val=[b"x", b"y"]))
    assert text == (
        '{\n    "predictions": [\n        {\n            "a": "x",\n            "b": [1, 2]\n        },'
        '\n        {\n            "a": "y",\n            "b": [3, 4]\n        }\n    ]\n}'
    )


def test_columns_have_all_outputs_by_name():
    text = reply(False, b=proto("INT64", [1, 2], int64_val=[1, -2]), a=proto("BOOL", [], bool_val=[True]))
    assert text == (
        '{\n    "outputs": {\n        "a": true,\n        "b": [\n            [\n                1,'
        "\n                -2\n            ]\n        ]\n    }\n}"
    )


@pytest.mark.parametrize("as_rows, key", [(True, "predictions"), (False, "outputs")])
def test_every_layout_is_json_of_the_same_values(as_rows, key):
    values = np.arange(24).reshape(2, 3, 4)
    made = proto("INT32", [2, 3, 4], int_val=values.ravel().tolist())
    assert json.loads(reply(as_rows, y=made)) == {key: values.tolist()}
    both = json.loads(reply(as_rows, y=made, z=made))[key]
    assert both == (
        [{"y": v, "z": v} for v in values.tolist()] if as_rows else {"y": values.tolist(), "z": values.tolist()}
    )


def test_outputs_named_bytes_are_base64_and_others_are_text():
    made = proto("STRING", [2], string_val=[b"hello", b"\xff"])
    assert json.loads(reply(y_bytes=made)) == {"predictions": [{"b64": "aGVsbG8="}, {"b64": "/w=="}]}
    assert json.loads(reply(y=made)) == {"predictions": ["hello", "\ufffd"]}
    assert reply(y_bytes=proto("STRING", [1], string_val=[b"hi"])) == (
        '{\n    "predictions": [{\n            "b64": "aGk="\n        }\n    ]\n}'
    )


@pytest.mark.parametrize("dims", [[0], [0, 2], [2, 0], [2, 0, 3]])
def test_empty_outputs_keep_their_shape(dims):
    wanted = np.zeros(dims).tolist()
    assert json.loads(reply(y=proto("FLOAT", dims))) == {"predictions": wanted}
    assert json.loads(reply(False, y=proto("FLOAT", dims))) == {"outputs": wanted}


def test_text_is_escaped_and_not_turned_into_ascii():
    text = 'ä "\\ \n\x01 \U0001f600'
    printed = reply(y=proto("STRING", [1], string_val=[text.encode()]))
    assert "ä" in printed
    assert json.loads(printed) == {"predictions": [text]}


def test_outputs_that_json_cannot_show_are_refused():
    half = tensor_pb2.TensorProto(dtype=types_pb2.DT_HALF, half_val=[1])
    half.tensor_shape.dim.add(size=1)
    for outputs, message in [
        ({}, "Cannot convert empty tensor map to JSON"),
        ({"y": half}, "Failed to write JSON value for tensor type: half"),
        ({"y": proto("FLOAT", [], float_val=[1])}, "Tensor name: y has no shape information "),
        (
            {"y": proto("FLOAT", [2], float_val=[1, 2]), "z": proto("FLOAT", [1], float_val=[1])},
            "Tensor name: z has inconsistent batch size: 1 expecting: 2",
        ),
    ]:
        with pytest.raises(RequestError) as caught:
            reply(**outputs)
        assert (caught.value.code, caught.value.message) == ("INVALID_ARGUMENT", message)


def test_classes_and_regressions_are_under_results():
    classes = classification_pb2.ClassificationResponse()
    for pairs in ([("car", 0.2), ("bike", 0.75)], []):
        one = classes.result.classifications.add()
        for label, score in pairs:
            one.classes.add(label=label, score=score)
    assert classify_reply(classes).decode() == '{\n    "results": [[["car", 0.2], ["bike", 0.75]], []\n    ]\n}'
    values = regression_pb2.RegressionResponse()
    for value in (0.2, 1.0, math.inf):
        values.result.regressions.add(value=value)
    assert regress_reply(values).decode() == '{\n    "results": [0.2, 1.0, Infinity]\n}'


def test_empty_results_are_refused():
    with pytest.raises(RequestError, match="Cannot convert empty ClassificationResults to JSON"):
        classify_reply(classification_pb2.ClassificationResponse())
    with pytest.raises(RequestError, match="Cannot convert empty RegressionResults to JSON"):
        regress_reply(regression_pb2.RegressionResponse())


def test_an_error_is_an_object_with_its_message():
    assert error_reply('no "x"\n').decode() == '{\n    "error": "no \\"x\\"\\n"\n}'
