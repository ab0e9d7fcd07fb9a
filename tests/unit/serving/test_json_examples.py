"""Examples in JSON, for Classify and Regress, by TensorFlow Serving's source (util/json_tensor.cc)."""

import json
import math

import pytest
from google.protobuf import text_format
from rest_values import LIMITS, SPEC

from bertline.serving.embedded.errors import RequestError
from bertline.serving.embedded.rest.requests import classify_request, regress_request


@pytest.mark.parametrize("request_of", [classify_request, regress_request])
def test_examples_are_read_with_their_kinds(request_of):
    body = {
        "signature_name": "s",
        "examples": [
            {"names": ["foo", {"b64": "aGk="}], "ratings": [8.0, math.inf], "mixed": [1, True, False], "empty": []},
            {"names": "baz", "ratings": 6.5},
        ],
    }
    request = request_of(json.dumps(body).encode(), SPEC, LIMITS)
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
    made = classify_request(body, SPEC, LIMITS).input.example_list_with_context
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
            request_of(body.encode(), SPEC, LIMITS)
        assert caught.value.code == "INVALID_ARGUMENT"
        assert caught.value.message.endswith(message)
