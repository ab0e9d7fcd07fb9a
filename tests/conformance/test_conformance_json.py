"""The forms of values in REST's JSON, both ways."""

import json
import math

import pytest
from conformance_targets import refused_http

TYPES = "types:predict"


def both_ways(server, dtype: str, text: str) -> str:
    """What comes back for a list of values of a type, as text on one line."""
    answer = server.post(TYPES, f'{{"signature_name": "{dtype}", "inputs": {text}}}')
    assert answer.status == 200, answer.text
    return " ".join(answer.text.split()).removeprefix('{ "outputs": ').removesuffix(" }")


WRITTEN = [
    ("float32", "[1, 2.0, -3]", "[ 1.0, 2.0, -3.0 ]"),
    ("float32", "[0.1, 0.2, 1e-3]", "[ 0.1, 0.2, 0.001 ]"),
    ("float32", "[9000000, 0.00003]", "[ 9e+06, 3e-05 ]"),
    ("float32", "[0.333333343, 16777216]", "[ 0.333333343, 16777216.0 ]"),
    ("float32", "[NaN, Infinity, -Infinity]", "[ NaN, Infinity, -Infinity ]"),
    ("float32", "[-0.0]", "[ -0.0 ]"),
    ("float32", "[1e39]", "[ Infinity ]"),
    ("float64", "[0.1, 1e300, 0.30000000000000004]", "[ 0.1, 1e+300, 0.30000000000000004 ]"),
    ("float64", "[NaN]", "[ NaN ]"),
    ("int8", "[-128, 127]", "[ -128, 127 ]"),
    ("int16", "[-32768, 32767]", "[ -32768, 32767 ]"),
    ("int32", "[-2147483648, 2147483647]", "[ -2147483648, 2147483647 ]"),
    ("int64", "[-9223372036854775808, 9223372036854775807]", "[ -9223372036854775808, 9223372036854775807 ]"),
    ("uint8", "[0, 255]", "[ 0, 255 ]"),
    ("uint32", "[0, 4294967295]", "[ 0, 4294967295 ]"),
    ("uint64", "[0, 18446744073709551615]", "[ 0, 18446744073709551615 ]"),
    ("bool", "[true, false]", "[ true, false ]"),
    ("string", '["", "a b"]', '[ "", "a b" ]'),
    ("string", '["\\u00e9", "\\ud83d\\ude00"]', '[ "é", "😀" ]'),
    ("string", '["\\"\\\\/"]', '[ "\\"\\\\/" ]'),
    ("string", '[{"b64": "YWJj"}, "d"]', '[ "abc", "d" ]'),
    ("string", '{"b64": "YWJj"}', '"abc"'),
    ("int32", "7", "7"),
    ("int32", "[[1, 2], [3, 4]]", "[ [ 1, 2 ], [ 3, 4 ] ]"),
    ("int32", "[[[1]], [[2]]]", "[ [ [ 1 ] ], [ [ 2 ] ] ]"),
    ("int32", "[]", "[]"),
]


@pytest.mark.parametrize("dtype, given, expected", WRITTEN, ids=[f"{dtype}-{given}" for dtype, given, _ in WRITTEN])
def test_a_value_is_read_and_written_in_this_form(server, dtype, given, expected):
    assert both_ways(server, dtype, given) == expected


REFUSED = [
    ("float32", '"1"', "String"),
    ("float32", "true", "True"),
    ("float32", "null", "Null"),
    ("float64", '"NaN"', "String"),
    ("int32", "1.0", "Number"),
    ("int32", "1.5", "Number"),
    ("int32", "2147483648", "Number"),
    ("int32", "false", "False"),
    ("int64", "9223372036854775808", "Number"),
    ("int64", "1e3", "Number"),
    ("uint32", "-1", "Number"),
    ("uint64", "-1", "Number"),
    ("bool", "1", "Number"),
    ("bool", '"true"', "String"),
    ("string", "1", "Number"),
    ("string", "null", "Null"),
]
NAMES = {"float32": "float", "float64": "double"}


@pytest.mark.parametrize("dtype, given, kind", REFUSED, ids=[f"{dtype}-{given}" for dtype, given, _ in REFUSED])
def test_a_value_of_another_type_is_refused(server, dtype, given, kind):
    answer = server.post(TYPES, f'{{"signature_name": "{dtype}", "inputs": [{given}]}}')
    said = f"JSON Value: … Type: {kind} is not of expected type: {NAMES.get(dtype, dtype)}"
    refused_http(answer, 400, said)


@pytest.mark.parametrize(
    "given, said",
    [
        ({"b64": "YWJj", "more": 1}, "JSON Value: {…} not formatted correctly for base64 data"),
        ({"b64": 5}, "JSON Value: {…} not formatted correctly for base64 data"),
        ({"B64": "YWJj"}, "JSON Value: {…} not formatted correctly for base64 data"),
        ({"b64": "!!!"}, "Unable to base64 decode"),
    ],
    ids=["another-key", "no-text", "another-case", "no-base64"],
)
def test_bytes_are_an_object_of_one_key(server, given, said):
    refused_http(server.post(TYPES, {"signature_name": "string", "inputs": [given]}), 400, said)


@pytest.mark.parametrize("given", ["1e400", "-1e400"])
def test_a_number_beyond_doubles_is_refused(server, given):
    answer = server.post(TYPES, f'{{"signature_name": "float64", "inputs": [{given}]}}')
    refused_http(answer, 400, "JSON Parse error: Number too big to be stored in double.…")


def test_half_precision_has_no_form_in_json(server):
    answer = server.post(TYPES, {"signature_name": "float16", "inputs": [1.0]})
    refused_http(answer, 501, "Conversion of JSON Value: 1.0 to type: half")


def test_a_single_output_goes_without_its_name_in_rows(server):
    assert server.post("half_plus_two:predict", {"instances": [1.0, 2.0]}).document == {"predictions": [2.5, 3.0]}


def test_a_single_output_goes_without_its_name_in_columns(server):
    assert server.post("half_plus_two:predict", {"inputs": [1.0, 2.0]}).document == {"outputs": [2.5, 3.0]}


@pytest.mark.parametrize("form", ["instances", "inputs"])
def test_the_one_input_may_be_named(server, form):
    given = [{"x": 1.0}, {"x": 2.0}] if form == "instances" else {"x": [1.0, 2.0]}
    assert list(server.post("half_plus_two:predict", {form: given}).document.values()) == [[2.5, 3.0]]


def test_several_outputs_are_an_object_for_each_row(server):
    rows = [{"text": "a", "number": 1}, {"number": 2.5, "text": "b"}]
    assert server.post("two_inputs:predict", {"instances": rows}).document == {
        "predictions": [
            {"doubled": 2.0, "spoken": "a-a", "spoken_bytes": {"b64": "YS1h"}},
            {"doubled": 5.0, "spoken": "b-b", "spoken_bytes": {"b64": "Yi1i"}},
        ]
    }


def test_several_outputs_are_an_object_of_columns(server):
    columns = {"text": ["a", "b"], "number": [1, 2.5]}
    assert server.post("two_inputs:predict", {"inputs": columns}).document == {
        "outputs": {"doubled": [2.0, 5.0], "spoken": ["a-a", "b-b"], "spoken_bytes": [{"b64": "YS1h"}, {"b64": "Yi1i"}]}
    }


def test_bytes_go_in_and_out_as_base64(server):
    given = {"signature_name": "bytes_alone", "instances": [{"text": {"b64": "/w=="}}]}
    assert server.post("two_inputs:predict", given).document == {"predictions": [{"b64": "/y3/"}]}


def test_a_row_that_is_base64_is_the_value_itself(server):
    given = {"signature_name": "bytes_alone", "instances": [{"b64": "/w=="}, "a"]}
    assert server.post("two_inputs:predict", given).document == {"predictions": [{"b64": "/y3/"}, {"b64": "YS1h"}]}


def test_an_output_that_is_no_row_is_told_in_columns(server):
    given = {"signature_name": "one_for_all", "inputs": [1.0, 2.0]}
    assert server.post("shapes:predict", given).document == {"outputs": 1.5}


def test_a_matrix_is_a_list_of_lists(server):
    given = {"signature_name": "matrix", "instances": [1.0, 2.0]}
    assert server.post("shapes:predict", given).document == {"predictions": [[1.0, 2.0], [2.0, 4.0]]}


def test_rows_are_printed_on_one_line_and_columns_a_value_a_line(server):
    rows = server.post("half_plus_two:predict", {"instances": [1.0, 2.0]}).text
    assert rows == '{\n    "predictions": [2.5, 3.0\n    ]\n}'
    columns = server.post("half_plus_two:predict", {"inputs": [1.0, 2.0]}).text
    assert columns == '{\n    "outputs": [\n        2.5,\n        3.0\n    ]\n}'


def test_not_a_number_is_printed_so_that_python_reads_it(server):
    answer = server.post("half_plus_two:predict", '{"instances": [NaN, -Infinity]}').document
    assert math.isnan(answer["predictions"][0]) and answer["predictions"][1] == -math.inf


@pytest.mark.parametrize(
    "signature, expected",
    [
        ("classify_x_to_y", [[["", 3.0]], [["", 4.0]]]),
        (
            "classify_by_name",
            [[["low", 3.0], ["middle", 6.0], ["high", 9.0]], [["low", 4.0], ["middle", 8.0], ["high", 12.0]]],
        ),
    ],
)
def test_classes_are_pairs_of_a_label_and_a_score(server, signature, expected):
    given = {"signature_name": signature, "examples": [{"x": 2.0}, {"x": 4.0}]}
    assert server.post("half_plus_two:classify", given).document == {"results": expected}


def test_regressions_are_a_list_of_numbers(server):
    given = {"signature_name": "regress_x_to_y", "examples": [{"x": [1.0]}, {"x": 2.0}]}
    assert server.post("half_plus_two:regress", given).document == {"results": [2.5, 3.0]}


def test_the_context_counts_for_each_example(server):
    given = {"signature_name": "regress_x_to_y", "context": {"x": 4.0}, "examples": [{}, {"x": 1.0}]}
    assert server.post("half_plus_two:regress", given).document == {"results": [4.0, 2.5]}


def test_a_whole_number_is_an_integer_feature(server):
    given = {"signature_name": "regress_x_to_y", "examples": [{"x": 1}]}
    answer = server.post("half_plus_two:regress", given)
    assert answer.status == 400 and "int64" in json.loads(answer.text)["error"]


def test_grpc_and_rest_give_the_same_numbers(server):
    x = [0.1, 1 / 3, 1e-7, 12345.678]
    assert server.post("half_plus_two:predict", {"instances": x}).document["predictions"] == pytest.approx(
        server.y("half_plus_two", x), rel=1e-7
    )
