"""GetModelMetadata and GetModelStatus, over gRPC and REST."""

import pytest
from conformance_models import HALF_PLUS_TWO_VERSION
from conformance_targets import State, refused, refused_http, spec
from tensorflow.core.framework import types_pb2
from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2

M = "half_plus_two"


def test_metadata_names_the_model_and_the_version_and_no_signature(server):
    assert server.metadata(M, "signature_def").model_spec == spec(M, version=HALF_PLUS_TWO_VERSION)


def test_metadata_has_every_signature_with_its_tensors(server):
    found = server.signatures("two_inputs")
    assert set(found) == {"serving_default", "bytes_alone"}
    default = found["serving_default"]
    assert {name: info.dtype for name, info in default.inputs.items()} == {
        "text": types_pb2.DT_STRING,
        "number": types_pb2.DT_FLOAT,
    }
    assert set(default.outputs) == {"doubled", "spoken", "spoken_bytes"}
    assert [dim.size for dim in default.inputs["text"].tensor_shape.dim] == [-1]


@pytest.mark.parametrize("wanted", [{"version": 2}, {"label": "canary"}], ids=["version", "label"])
def test_metadata_is_of_the_version_that_is_asked_for(server, wanted):
    assert server.metadata("numbered", "signature_def", **wanted).model_spec.version.value == 2


NO_FIELD = "GetModelMetadataRequest must specify at least one metadata_field"
REFUSALS = {
    "no-field": (M, [], {}, "INVALID_ARGUMENT", NO_FIELD),
    "unknown-field": (M, ["nonesuch"], {}, "INVALID_ARGUMENT", "Metadata field nonesuch is not supported"),
    "unknown-field-among-others": (M, ["signature_def", "nonesuch"], {}, "INVALID_ARGUMENT",
                                   "Metadata field nonesuch is not supported"),
    "unknown-model": ("nonesuch", ["signature_def"], {}, "NOT_FOUND",
                      "Servable not found for request: Latest(nonesuch)"),
    "unknown-version": (M, ["signature_def"], {"version": 7}, "NOT_FOUND",
                        f"Servable not found for request: Specific({M}, 7)"),
    "unknown-label": (M, ["signature_def"], {"label": "L"}, "INVALID_ARGUMENT",
                      "Unrecognized servable version label: L"),
    "no-name": ("", ["signature_def"], {}, "INVALID_ARGUMENT", "ModelSpec has no name specified."),
}  # fmt: skip


@pytest.mark.parametrize("model, fields, wanted, code, message", REFUSALS.values(), ids=REFUSALS)
def test_wrong_requests_for_metadata_are_refused(server, model, fields, wanted, code, message):
    refused(lambda: server.metadata(model, *fields, **wanted), code, message)


@pytest.mark.parametrize(
    "ask",
    [
        lambda server: server.prediction.GetModelMetadata(get_model_metadata_pb2.GetModelMetadataRequest()),
        lambda server: server.models.GetModelStatus(get_model_status_pb2.GetModelStatusRequest()),
    ],
    ids=["metadata", "status"],
)
def test_a_request_without_a_model_spec_is_refused(server, ask):
    refused(lambda: ask(server), "INVALID_ARGUMENT", "Missing ModelSpec")


def test_the_status_lists_every_version_the_newest_first(server):
    found = server.status("numbered")
    assert [(one.version, one.state, one.status.error_code) for one in found] == [
        (2, State.AVAILABLE, 0),
        (1, State.AVAILABLE, 0),
    ]


def test_the_status_of_one_version_is_of_it_alone(server):
    assert [one.version for one in server.status("numbered", version=1)] == [1]


@pytest.mark.parametrize(
    "model, wanted, message",
    [
        ("nonesuch", {}, "Could not find any versions of model nonesuch"),
        ("nonesuch", {"version": 7}, "Could not find version 7 of model nonesuch"),
        (M, {"version": 7}, f"Could not find version 7 of model {M}"),
    ],
    ids=["unknown-model", "version-of-unknown-model", "unknown-version"],
)
def test_the_status_of_what_is_unknown_is_not_found(server, model, wanted, message):
    refused(lambda: server.status(model, **wanted), "NOT_FOUND", message)


@pytest.mark.parametrize("path", [M, f"{M}/versions/{HALF_PLUS_TWO_VERSION}", f"{M}/versions/0000123"])
def test_rest_tells_the_status_with_fields_that_are_empty(server, path):
    assert server.get(path).document == {
        "model_version_status": [
            {"version": "123", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
        ]
    }


def test_rest_tells_metadata_in_two_nested_maps(server):
    found = server.get(f"{M}/metadata").document
    assert found["model_spec"] == {"name": M, "signature_name": "", "version": "123"}
    default = found["metadata"]["signature_def"]["signature_def"]["serving_default"]
    assert default["method_name"] == "tensorflow/serving/predict"
    assert default["inputs"]["x"]["dtype"] == "DT_FLOAT"
    assert default["inputs"]["x"]["tensor_shape"] == {"dim": [{"size": "-1", "name": ""}], "unknown_rank": False}


@pytest.mark.parametrize("path, version", [("numbered/versions/1/metadata", "1"), ("numbered/labels/canary/metadata", "2")])
def test_rest_tells_metadata_of_a_version(server, path, version):
    assert server.get(path).document["model_spec"]["version"] == version


REST_REFUSALS = {
    "nonesuch": (404, "Could not find any versions of model nonesuch"),
    "half_plus_two/versions/7": (404, "Could not find version 7 of model half_plus_two"),
    "nonesuch/metadata": (404, "Servable not found for request: Latest(nonesuch)"),
    "half_plus_two/versions/7/metadata": (404, "Servable not found for request: Specific(half_plus_two, 7)"),
    "half_plus_two/labels/L/metadata": (400, "Unrecognized servable version label: L"),
}


@pytest.mark.parametrize("path", REST_REFUSALS)
def test_rest_refuses_what_is_unknown(server, path):
    refused_http(server.get(path), *REST_REFUSALS[path])
