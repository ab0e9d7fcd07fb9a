"""JSON that is no request, refused in the words of TensorFlow Serving's source (util/json_tensor.cc)."""

import json

import pytest
from rest_values import read, refused

from bertline.serving.embedded.errors import RequestError


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
