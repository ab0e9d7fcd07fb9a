"""REST: paths, statuses and the words of refusals; the forms of values stand in test_conformance_json.py."""

import gzip

import pytest
from conformance_targets import refused_http

M = "half_plus_two"
PREDICT = f"{M}:predict"
ONE = {"instances": [1.0]}


@pytest.mark.parametrize(
    "path, y",
    [
        ("half_plus_two:predict", 2.5),
        ("half_plus_two/versions/123:predict", 2.5),
        ("half_plus_two/versions/00000123:predict", 2.5),
        ("half_plus_three:predict", 3.5),
        ("half%5Fplus%5Ftwo:predict", 2.5),
        ("numbered:predict", 2.5),
        ("numbered/versions/1:predict", 1.5),
        ("numbered/labels/stable:predict", 1.5),
        ("numbered/labels/canary:predict", 2.5),
    ],
)
def test_a_path_names_the_model_and_the_version(server, path, y):
    answer = server.post(path, ONE)
    assert (answer.status, answer.document) == (200, {"predictions": [y]})
    assert answer.content_type.startswith("application/json")


def test_a_path_is_matched_in_either_case_up_to_its_names(server):
    assert server.http("POST", f"/V1/Models/{M}/Versions/123:predict", ONE).document == {"predictions": [2.5]}


MALFORMED = [
    ("POST", "/v1/foo"),
    ("POST", f"/v1/models/{M}"),
    ("POST", f"/v1/models/{M}:nonesuch"),
    ("POST", f"/v1/models/{M}:predict/"),
    ("POST", "/v1/models/:predict"),
    ("POST", f"/v1/models/{M}/versions/x:predict"),
    ("POST", f"/v1/models/{M}/versions/-1:predict"),
    ("POST", f"/v1/models/{M}/versions/:predict"),
    ("POST", f"/v1/models/{M}/labels/:predict"),
    ("POST", f"/v1/models/{M}/versions/1/labels/stable:predict"),
    ("GET", "/v1/foo"),
    ("GET", f"/v1/models/{M}:predict"),
    ("GET", f"/v1/models/{M}/nonesuch"),
    ("GET", f"/v1/models/{M}/"),
    ("PUT", f"/v1/models/{M}:predict"),
    ("DELETE", f"/v1/models/{M}"),
]


@pytest.mark.parametrize("method, path", MALFORMED, ids=[" ".join(pair) for pair in MALFORMED])
def test_what_is_no_request_is_told_as_malformed(server, method, path):
    body = None if method in ("GET", "DELETE") else ONE
    refused_http(server.http(method, path, body), 400, f"Malformed request: {method} {path}")


@pytest.mark.parametrize("path", ["/", "/v2/models/m", "/v1", "/favicon.ico"])
def test_another_path_is_not_found(server, path):
    assert server.http("GET", path).status == 404


def test_a_status_without_a_model_is_refused(server):
    refused_http(server.http("GET", "/v1/models"), 400, "Missing model name in request.")


def test_a_version_beyond_64_bits_is_refused(server):
    number = "9" * 20
    refused_http(
        server.post(f"{M}/versions/{number}:predict", ONE), 400, f"Failed to convert version: {number} to numeric."
    )


NO_EXAMPLES = "JSON Value: … When method is classify, key 'examples' is expected and was not found"
EXAMPLES = {"examples": [{"x": 1.0}]}
BAD_SIGNATURE = {"signature_name": "nonesuch"}
NO_SIGNATURE = "No signature was found with the name: nonesuch"
REFUSALS = {
    "unknown-model": ("nonesuch:predict", ONE, 404, "Servable not found for request: Latest(nonesuch)"),
    "unknown-version": (f"{M}/versions/7:predict", ONE, 404, f"Servable not found for request: Specific({M}, 7)"),
    "unknown-label": (f"{M}/labels/L:predict", ONE, 400, "Unrecognized servable version label: L"),
    "unknown-model-classify": ("nonesuch:classify", EXAMPLES, 404, "Servable not found for request: Latest(nonesuch)"),
    "unknown-model-regress": ("nonesuch:regress", EXAMPLES, 404, "Servable not found for request: Latest(nonesuch)"),
    "unknown-signature": (PREDICT, ONE | BAD_SIGNATURE, 400,
                          'Serving signature name: "nonesuch" not found in signature def'),
    "no-default-signature": ("types:predict", ONE, 400,
                             'Serving signature name: "serving_default" not found in signature def'),
    "unknown-signature-classify": (f"{M}:classify", EXAMPLES | BAD_SIGNATURE, 400, NO_SIGNATURE),
    "unknown-signature-regress": (f"{M}:regress", EXAMPLES | BAD_SIGNATURE, 400, NO_SIGNATURE),
    "signature-is-no-text": (PREDICT, ONE | {"signature_name": 5}, 400,
                             "JSON Value: … not formatted correctly. 'signature_name' key must be a string value."),
    "empty-body": (PREDICT, "", 400, "JSON Parse error: The document is empty…"),
    "no-json": (PREDICT, "nonsense", 400, "JSON Parse error: Invalid value. at offset: …"),
    "cut-off": (PREDICT, '{"instances": [1.0', 400, "JSON Parse error: Missing a comma or … after an array element.…"),
    "list-for-an-object": (PREDICT, [1.0], 400, "JSON Value: [… Is not object"),
    "neither-rows-nor-columns": (PREDICT, {}, 400, "Missing 'inputs' or 'instances' key"),
    "rows-and-columns": (PREDICT, ONE | {"inputs": [1.0]}, 400,
                         "JSON Value: … Not formatted correctly expecting only one of 'inputs' or 'instances' keys to"
                         " exist "),
    "rows-are-no-list": (PREDICT, {"instances": 1.0}, 400, "JSON Value: … Expecting 'instances' to be an list/array"),
    "no-rows": (PREDICT, {"instances": []}, 400, "JSON Value: … No values in 'instances' array"),
    "no-examples": (f"{M}:classify", ONE, 400, NO_EXAMPLES),
    "no-examples-regress": (f"{M}:regress", ONE, 400, NO_EXAMPLES),
    "examples-are-no-list": (f"{M}:regress", {"examples": {"x": 1.0}}, 400,
                             "JSON Value: … Expecting 'examples' value to be an list/array"),
    "empty-examples": (f"{M}:regress", {"examples": []}, 400, "JSON Value: … 'examples' value is an empty array"),
    "example-is-no-object": (f"{M}:regress", {"examples": [1.0]}, 400,
                             "Example must be JSON object but got JSON Number"),
    "context-is-no-object": (f"{M}:regress", EXAMPLES | {"context": "x"}, 400,
                             "Example must be JSON object but got JSON String"),
    "feature-is-null": (f"{M}:regress", {"examples": [{"x": None}]}, 400,
                        "Feature: x has element with unexpected JSON type: Null"),
    "feature-is-an-object": (f"{M}:regress", {"examples": [{"x": {"y": 1}}]}, 400,
                             "Feature: x has element with unexpected JSON type: Object"),
    "feature-is-nested": (f"{M}:regress", {"examples": [{"x": [[1.0]]}]}, 400,
                          "Feature: x has element with unexpected JSON type: Array"),
    "feature-of-mixed-types": (f"{M}:regress", {"examples": [{"x": [1.0, "a"]}]}, 400,
                               "Unexpected element type in feature: x expecting type: float"),
    "feature-of-mixed-numbers": (f"{M}:regress", {"examples": [{"x": [1, 1.5]}]}, 400,
                                 "Unexpected element type in feature: x expecting type: int64"),
    "feature-beyond-int64": (f"{M}:regress", {"examples": [{"x": 1 << 63}]}, 400,
                             "Feature: x has uint64_t element. Only int64_t is supported."),
    "plain-rows-for-two-inputs": ("two_inputs:predict", {"instances": ["a"]}, 400,
                                  "instances is a plain list, but expecting list of objects as multiple input tensors"
                                  " required as per tensorinfo_map"),
    "plain-columns-for-two-inputs": ("two_inputs:predict", {"inputs": ["a"]}, 400,
                                     "inputs is a plain value/list, but expecting an object as multiple input tensors"
                                     " required as per tensorinfo_map"),
    "column-missing": ("two_inputs:predict", {"inputs": {"text": ["a"]}}, 400,
                       "Missing named input: number in 'inputs' object."),
    "row-lacks-a-key": ("two_inputs:predict", {"instances": [{"text": "a"}]}, 400,
                        "Failed to process element: 0 of 'instances' list. JSON object: {…} keys must be equal to:"
                        " number,text"),
    "row-has-another-key": ("two_inputs:predict", {"instances": [{"text": "a", "number": 1, "more": 2}]}, 400,
                            "Failed to process element: 0 key: more of 'instances' list. Error: INVALID_ARGUMENT: JSON"
                            " object: does not have named input: more"),
    "list-after-an-object": ("two_inputs:predict", {"instances": [{"text": "a", "number": 1}, 2]}, 400,
                             "Expecting object but got list at item 1 of input list"),
    "object-after-a-value": (PREDICT, {"instances": [1.0, {"x": 2.0}]}, 400,
                             "Expecting value/list but got object at item 1 of input list"),
    "rows-of-other-lengths": (PREDICT, {"instances": [[1.0], [1.0, 2.0]]}, 400,
                              "Failed to process element: 1 of 'instances' list. Error: INVALID_ARGUMENT: Expecting"
                              " tensor size: 1 but got: 2"),
    "rows-of-other-shapes": (PREDICT, {"instances": [[[1.0, 2.0]], [[1.0], [2.0]]]}, 400,
                             "Failed to process element: 1 of 'instances' list. Error: INVALID_ARGUMENT: Expecting"
                             " shape [1,2] but got: [2,1]"),
    "ragged-row": (PREDICT, {"instances": [[[1.0, 2.0], [3.0]]]}, 400,
                   "Failed to process element: 0 of 'instances' list. Error: INVALID_ARGUMENT: Encountered list at"
                   " unexpected size: 1 at level: 1 expected size: 2"),
    "ragged-columns": (PREDICT, {"inputs": [[1.0, 2.0], [3.0]]}, 400,
                       "Encountered list at unexpected size: 1 at level: 1 expected size: 2"),
    "value-beside-a-list": (PREDICT, {"inputs": [[1.0], 2.0]}, 400,
                            "JSON Value: 2.0 found at incorrect level: 2 in the JSON DOM. Expected at level: 2"),
    "list-beside-a-value": (PREDICT, {"inputs": [1.0, [2.0]]}, 400,
                            "Encountered list at unexpected level: 1 expected < 1"),
    "text-for-a-float": (PREDICT, {"instances": ["a"]}, 400,
                         'Failed to process element: 0 of \'instances\' list. Error: INVALID_ARGUMENT: JSON Value: "a"'
                         " Type: String is not of expected type: float"),
    "text-for-a-float-in-columns": (PREDICT, {"inputs": ["a"]}, 400,
                                    'JSON Value: "a" Type: String is not of expected type: float'),
    "object-for-a-float": (PREDICT, {"inputs": [{"a": 1}]}, 400,
                           "JSON Value: {…} Type: Object is not of expected type: float"),
    "scalar-output-in-rows": ("shapes:predict", ONE | {"signature_name": "one_for_all"}, 400,
                              "Tensor name: mean has no shape information "),
    "uneven-outputs-in-rows": ("shapes:predict", ONE | {"signature_name": "uneven"}, 400,
                               "Tensor name: … has inconsistent batch size: … expecting: …"),
}  # fmt: skip


@pytest.mark.parametrize("path, body, status, message", REFUSALS.values(), ids=REFUSALS)
def test_a_wrong_request_is_refused_in_the_words_of_tensorflow_serving(server, path, body, status, message):
    refused_http(server.post(path, body), status, message)


def test_what_follows_the_document_is_not_read(server):
    assert server.post(PREDICT, '{"instances": [1.0]} and so on').document == {"predictions": [2.5]}


def test_other_keys_beside_the_rows_are_passed_over(server):
    assert server.post(PREDICT, ONE | {"comment": [1]}).document == {"predictions": [2.5]}


def test_a_compressed_body_is_taken(server):
    headers = {"Content-Encoding": "gzip"}
    answer = server.http("POST", f"/v1/models/{PREDICT}", gzip.compress(b'{"instances": [1.0]}'), headers)
    assert answer.document == {"predictions": [2.5]}


@pytest.mark.usefixtures("embedded_only")
def test_a_deep_document_is_refused_before_it_is_parsed(server):
    answer = server.post(PREDICT, '{"instances": ' + "[" * 100_000 + "]" * 100_000 + "}")
    refused_http(answer, 400, "JSON Parse error: The document is nested deeper than 64 levels")


@pytest.mark.usefixtures("embedded_only")
def test_of_two_values_under_one_key_neither_counts(server):
    answer = server.post(PREDICT, '{"instances": [1.0], "instances": [2.0]}')
    refused_http(answer, 400, 'JSON Parse error: Duplicate key: "instances"')
