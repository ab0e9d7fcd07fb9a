"""JSON of the REST API beside the rules and the messages of TensorFlow Serving's source (util/json_tensor.cc)."""

import json
import math
import random

import numpy as np
import pytest
from google.protobuf import text_format
from tensorflow.core.framework import tensor_pb2, types_pb2
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import classification_pb2, model_pb2, predict_pb2, regression_pb2

from serving.embedded.errors import RequestError
from serving.embedded.rest_document import parse
from serving.embedded.rest_json import classify_request, predict_request, regress_request
from serving.embedded.rest_replies import classify_reply, decimals, error_reply, predict_reply, regress_reply

DEPTH = 64
SPEC = model_pb2.ModelSpec(name="m")


def inputs(**dtypes: str) -> dict[str, meta_graph_pb2.TensorInfo]:
    return {name: meta_graph_pb2.TensorInfo(dtype=f"DT_{dtype}") for name, dtype in dtypes.items()}


def read(body: str | bytes, depth: int = DEPTH, **dtypes: str) -> predict_pb2.PredictRequest:
    data = body if isinstance(body, bytes) else body.encode()
    return predict_request(data, SPEC, lambda _: inputs(**dtypes), depth)[0]


def tensor(request: predict_pb2.PredictRequest, name: str = "x") -> tensor_pb2.TensorProto:
    return request.inputs[name]


def shape(proto: tensor_pb2.TensorProto) -> list[int]:
    return [dim.size for dim in proto.tensor_shape.dim]


def refused(body: str | bytes, **dtypes: str) -> str:
    with pytest.raises(RequestError) as caught:
        read(body, **dtypes)
    assert caught.value.code == "INVALID_ARGUMENT"
    return caught.value.message


def proto(dtype: str, dims: list[int], **values: list) -> tensor_pb2.TensorProto:
    made = tensor_pb2.TensorProto(dtype=f"DT_{dtype}", **values)
    made.tensor_shape.SetInParent()
    for size in dims:
        made.tensor_shape.dim.add(size=size)
    return made


def reply(as_rows: bool = True, **outputs: tensor_pb2.TensorProto) -> str:
    return predict_reply(predict_pb2.PredictResponse(outputs=outputs), as_rows).decode()


# Requests that are right


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
    assert predict_request(b'{"instances": [1]}', SPEC, lambda _: infos, DEPTH)[1] is True
    assert predict_request(b'{"inputs": [1]}', SPEC, lambda _: infos, DEPTH)[1] is False


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

    request, _ = predict_request(b'{"signature_name": "other", "instances": [1]}', SPEC, infos, DEPTH)
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


# Requests that are wrong


@pytest.mark.parametrize(
    "body, message",
    [
        ("", "JSON Parse error: The document is empty"),
        (" \n", "JSON Parse error: The document is empty"),
        ("[1]", "JSON Value: [1] Is not object"),
        ("nul", "JSON Parse error: Invalid value. at offset: 0"),
        ('{"instances": [1', "JSON Parse error: Missing a comma or ']' after an array element. at offset: 16"),
        ('{"instances": [1 2]}', "JSON Parse error: Missing a comma or ']' after an array element. at offset: 17"),
        ('{"a": [{}, "]"] "b": 1}', "JSON Parse error: Missing a comma or '}' after an object member. at offset: 16"),
        ('{"instances" 1}', "JSON Parse error: Missing a colon after a name of object member. at offset: 13"),
        ("{instances: 1}", "JSON Parse error: Missing a name for object member. at offset: 1"),
        ('{"instances": ["a', "JSON Parse error: Missing a closing quotation mark in string. at offset: 15"),
        ('{"instances": ["a\n"]}', "JSON Parse error: Invalid encoding in string. at offset: 17"),
        (r'{"instances": ["\q"]}', "JSON Parse error: Invalid escape character in string. at offset: 16"),
        (r'{"instances": ["\uqqqq"]}', "JSON Parse error: Incorrect hex digit after \\u escape in string. at offset: 17"),
        (r'{"instances": ["\ud83d"]}', "JSON Parse error: The surrogate pair in string is invalid. at offset: 16"),
        (r'{"instances": ["ä\\\ude00"]}', "JSON Parse error: The surrogate pair in string is invalid. at offset: 20"),
        ('{"instances": ["a"], "instances": ["b"]}', 'JSON Parse error: Duplicate key: "instances"'),
        (b'{"instances": ["\xff"]}', "JSON Parse error: Invalid encoding in string. at offset: 16"),
        (b"\xff\xfe{\0}\0", "JSON Parse error: Invalid encoding in string. at offset: 0"),
        ("{}", "Missing 'inputs' or 'instances' key"),
        ('{"instances": []}', "JSON Value: {\n    \"instances\": []\n} No values in 'instances' array"),
        ('{"instances": {}}', "JSON Value: {\n    \"instances\": {}\n} Expecting 'instances' to be an list/array"),
        (
            '{"signature_name": 5, "instances": [1]}',
            'JSON Value: {\n    "signature_name": 5,\n    "instances": [1]\n} not formatted correctly. '
            "'signature_name' key must be a string value.",
        ),
        (
            '{"instances": [1], "inputs": [1]}',
            'JSON Value: {\n    "instances": [1],\n    "inputs": [1]\n} Not formatted correctly expecting only '
            "one of 'inputs' or 'instances' keys to exist ",
        ),
    ],
)
def test_what_is_no_request_is_refused_in_tensorflow_servings_words(body, message):
    assert refused(body, x="STRING") == message


BYTES = 'JSON Value: {\n    "b64": "aGk="\n}'
SEVERAL = "as multiple input tensors required as per tensorinfo_map"


def in_row(place: int, said: str) -> str:
    return f"Failed to process element: {place} of 'instances' list. Error: INVALID_ARGUMENT: {said}"


@pytest.mark.parametrize(
    "instances, dtype, message",
    [
        ('["a"]', "FLOAT", in_row(0, 'JSON Value: "a" Type: String is not of expected type: float')),
        ("[1, 1.0]", "INT32", in_row(1, "JSON Value: 1.0 Type: Number is not of expected type: int32")),
        ("[1, NaN]", "INT64", in_row(1, "JSON Value: NaN Type: Number is not of expected type: int64")),
        ("[true]", "FLOAT", in_row(0, "JSON Value: true Type: True is not of expected type: float")),
        ("[1]", "BOOL", in_row(0, "JSON Value: 1 Type: Number is not of expected type: bool")),
        ("[null]", "STRING", in_row(0, "JSON Value: null Type: Null is not of expected type: string")),
        ("[1]", "STRING", in_row(0, "JSON Value: 1 Type: Number is not of expected type: string")),
        (
            '[{"b64": "aGk="}]',
            "INT32",
            in_row(0, f"{BYTES} Type: Object is not of expected type: int32"),
        ),
        ("[[1,2],[3,4],[5,6,7]]", "INT32", in_row(2, "Expecting tensor size: 2 but got: 3")),
        ("[[1,2],[3,4],[[5,6]]]", "INT32", in_row(2, "Expecting shape [2] but got: [1,2]")),
        ("[1, [1]]", "INT32", in_row(1, "Expecting shape [] but got: [1]")),
        (
            "[[[1], 2]]",
            "INT32",
            in_row(0, "JSON Value: 2 found at incorrect level: 2 in the JSON DOM. Expected at level: 2"),
        ),
        ("[[1, [2]]]", "INT32", in_row(0, "Encountered list at unexpected level: 1 expected < 1")),
        ("[[[1], [2, 3]]]", "INT32", in_row(0, "Encountered list at unexpected size: 2 at level: 1 expected size: 1")),
        ("[[], [1]]", "INT32", in_row(1, "Expecting tensor size: 0 but got: 1")),
        ('["a", {"b64": "!"}]', "STRING", in_row(1, "Unable to base64 decode")),
        ('[{"b64": "a"}]', "STRING", in_row(0, "Unable to base64 decode")),
        ('[{"b64": "aGk=="}]', "STRING", in_row(0, "Unable to base64 decode")),
        (
            '[["a", {"b64": 1}]]',
            "STRING",
            in_row(0, 'JSON Value: {\n    "b64": 1\n} not formatted correctly for base64 data'),
        ),
        ('["a", {"b64": "aGk=", "c": 1}]', "STRING", "Expecting value/list but got object at item 1 of input list"),
        ('[{"x": "a"}, "b"]', "STRING", "Expecting object but got list at item 1 of input list"),
        ("[1e400]", "FLOAT", in_row(0, "JSON Parse error: Number too big to be stored in double.")),
        (f"[NaN, 1{'0' * 400}]", "DOUBLE", in_row(1, "JSON Parse error: Number too big to be stored in double.")),
        (f"[1{'0' * 5000}]", "DOUBLE", "JSON Parse error: Number too big to be stored in double."),
    ],
)
def test_values_that_do_not_fit_are_named(instances, dtype, message):
    assert refused(f'{{"instances": {instances}}}', x=dtype) == message


@pytest.mark.parametrize(
    "instances, message",
    [
        (
            "[1]",
            f"instances is a plain list, but expecting list of objects {SEVERAL}",
        ),
        (
            '[{"a": 1}]',
            "Failed to process element: 0 of 'instances' list. JSON object: {\n    \"a\": 1\n} keys must be equal to: a,b",
        ),
        (
            '[{"a": 1, "b": 1}, {"a": 1, "b": 1, "c": 1}]',
            "Failed to process element: 1 key: c of 'instances' list. "
            "Error: INVALID_ARGUMENT: JSON object: does not have named input: c",
        ),
        (
            '[{"a": 1, "b": 1}, {"a": 1, "b": 0.5}]',
            "Failed to process element: 1 key: b of 'instances' list. "
            "Error: INVALID_ARGUMENT: JSON Value: 0.5 Type: Number is not of expected type: int32",
        ),
    ],
)
def test_rows_need_exactly_the_names_of_the_signature(instances, message):
    assert refused(f'{{"instances": {instances}}}', a="INT32", b="INT32") == message


def test_columns_need_every_name_of_the_signature():
    assert refused('{"inputs": {"a": 1}}', a="INT32", b="INT32") == "Missing named input: b in 'inputs' object."
    plain = f"inputs is a plain value/list, but expecting an object {SEVERAL}"
    assert refused('{"inputs": [1]}', a="INT32", b="INT32") == plain


def test_a_type_that_json_has_no_values_for_is_unimplemented_in_columns():
    with pytest.raises(RequestError) as caught:
        read('{"inputs": [1]}', x="HALF")
    assert (caught.value.code, caught.value.message) == ("UNIMPLEMENTED", "Conversion of JSON Value: 1 to type: half")


def test_a_signature_without_inputs_is_refused():
    assert refused('{"instances": [1]}') == "Failed to get input map for signature: DEFAULT"


def test_an_error_quotes_no_more_than_the_beginning_of_a_value():
    assert len(refused(json.dumps({"instances": ["x" * 100_000]}), x="FLOAT")) < 600
    assert len(refused(json.dumps({"nothing": ["x"] * 100_000, "instances": []}), x="FLOAT")) < 600


@pytest.mark.parametrize("opened", ["[", '{"a":', '[{"a":'])
def test_deep_documents_are_refused_before_they_are_parsed(opened):
    body = f'{{"instances": {opened * 500_000}'
    assert refused(body, x="FLOAT") == "JSON Parse error: The document is nested deeper than 64 levels"


def test_the_depth_is_that_of_brackets_and_not_of_text():
    texts = ["[{" * 1000, '"[[\\' * 100, "]" * 70]
    made = tensor(read(json.dumps({"instances": texts}), x="STRING"))
    assert [text.decode() for text in made.string_val] == texts


@pytest.mark.parametrize("depth, passes", [(4, True), (3, False)])
def test_the_limit_is_the_deepest_that_passes(depth, passes):
    body = '{"instances": [[[1]], [[2]]]}'
    if passes:
        assert shape(tensor(read(body, depth=depth, x="INT32"))) == [2, 1, 1]
    else:
        with pytest.raises(RequestError, match="deeper than 3 levels"):
            read(body, depth=depth, x="INT32")


def depth_of(value: object) -> int:
    if not isinstance(value, dict | list):
        return 0
    return 1 + max(map(depth_of, value.values() if isinstance(value, dict) else value), default=0)


def test_the_depth_is_counted_right_whatever_the_strings_have():
    drawn = random.Random(2)

    def some(left: int) -> object:
        kind = drawn.random()
        if left == 0 or kind < 0.3:
            return "".join(drawn.choices('[]{}"\\\na', k=drawn.randint(0, 8)))
        items = [some(left - 1) for _ in range(drawn.randint(0, 3))]
        return items if kind < 0.7 else {f"{place}{some(0)}": item for place, item in enumerate(items)}

    for _ in range(500):
        document = {"x": some(8)}
        depth, body = depth_of(document), json.dumps(document).encode()
        assert parse(body, depth) == document
        with pytest.raises(RequestError, match=f"deeper than {depth - 1} levels"):
            parse(body, depth - 1)


def test_a_limit_above_what_python_can_parse_is_not_believed():
    body = '{"instances": ' + "[" * 5000 + "]" * 5000 + "}"
    with pytest.raises(RequestError, match="deeper than 400 levels"):
        read(body, depth=10**6, x="FLOAT")


def test_no_bytes_make_anything_but_a_request_or_a_refusal():
    """Requests with some bytes lost, doubled or changed, in every way that a thousand draws find."""
    drawn = random.Random(1)
    good = rb'{"n": [], "instances": [{"x": [1, NaN], "y": {"b64": "aGk="}}, {"x": [-2.5e3, 0], "y": "\ud83d\ude00"}]}'
    assert shape(tensor(read(good, x="FLOAT", y="STRING"))) == [2, 2]
    alphabet = good + bytes(range(256))
    for _ in range(1000):
        body = bytearray(good)
        for _ in range(drawn.randint(1, 6)):
            place = drawn.randrange(len(body))
            body[place : place + drawn.randint(0, 3)] = bytes(drawn.choices(alphabet, k=drawn.randint(0, 3)))
        for dtypes in ({"x": "FLOAT", "y": "STRING"}, {"x": "STRING"}):
            try:
                read(bytes(body), **dtypes)
            except RequestError as error:
                assert error.code == "INVALID_ARGUMENT"
                error_reply(error.message)


# Examples


@pytest.mark.parametrize("request_of", [classify_request, regress_request])
def test_examples_are_read_with_their_kinds(request_of):
    body = {
        "signature_name": "s",
        "examples": [
            {"names": ["foo", {"b64": "aGk="}], "ratings": [8.0, math.inf], "mixed": [1, True, False], "empty": []},
            {"names": "baz", "ratings": 6.5},
        ],
    }
    request = request_of(json.dumps(body).encode(), SPEC, DEPTH)
    wanted = text_format.Parse(
        """
        model_spec { name: "m" signature_name: "s" }
        input { example_list {
          examples { features {
            feature { key: "names" value { bytes_list { value: "foo" value: "hi" } } }
            feature { key: "ratings" value { float_list { value: 8 value: inf } } }
            feature { key: "mixed" value { int64_list { value: 1 value: 1 value: 0 } } }
            feature { key: "empty" value {} }
          } }
          examples { features {
            feature { key: "names" value { bytes_list { value: "baz" } } }
            feature { key: "ratings" value { float_list { value: 6.5 } } }
          } }
        } }""",
        type(request)(),
    )
    assert request == wanted


def test_a_context_is_shared_by_the_examples():
    body = b'{"context": {"query": "pizza"}, "examples": [{"age": 20}, {}]}'
    made = classify_request(body, SPEC, DEPTH).input.example_list_with_context
    assert made.context.features.feature["query"].bytes_list.value == [b"pizza"]
    assert [list(one.features.feature) for one in made.examples] == [["age"], []]


@pytest.mark.parametrize(
    "body, message",
    [
        ('{"signature_name": ["s"], "examples": [{}]}', "'signature_name' key must be a string value."),
        ('{"context": [], "examples": [{}]}', "Example must be JSON object but got JSON Array"),
        ("{}", "JSON Value: {} When method is classify, key 'examples' is expected and was not found"),
        ('{"examples": {}}', "Expecting 'examples' value to be an list/array"),
        ('{"examples": []}', "'examples' value is an empty array"),
        ('{"examples": [1]}', "Example must be JSON object but got JSON Number"),
        ('{"examples": [{"n": [10, null]}]}', "Feature: n has element with unexpected JSON type: Null"),
        ('{"examples": [{"n": [10, {"test": 10}]}]}', "Feature: n has element with unexpected JSON type: Object"),
        ('{"examples": [{"n": [[10], 20]}]}', "Feature: n has element with unexpected JSON type: Array"),
        ('{"examples": [{"n": [10, 10.0]}]}', "Unexpected element type in feature: n expecting type: int64"),
        ('{"examples": [{"n": ["a", 1]}]}', "Unexpected element type in feature: n expecting type: bytes"),
        ('{"examples": [{"n": [1.5, true]}]}', "Unexpected element type in feature: n expecting type: float"),
        ('{"examples": [{"n": 18446744073709551603}]}', "Feature: n has uint64_t element. Only int64_t is supported."),
        ('{"examples": [{"n": 1e999}]}', "JSON Parse error: Number too big to be stored in double."),
    ],
)
def test_examples_that_are_none_are_refused(body, message):
    for request_of in (classify_request, regress_request):
        with pytest.raises(RequestError) as caught:
            request_of(body.encode(), SPEC, DEPTH)
        assert caught.value.code == "INVALID_ARGUMENT"
        assert caught.value.message.endswith(message)


# Replies


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
