"""Paths, codes and documents of the REST API, without a connection (model_servers/http_rest_api_{handler,util}.cc)."""

import json
from typing import get_args

import pytest
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_pb2,
    predict_pb2,
    regression_pb2,
)

from bertline.serving.embedded.errors import Call, Code, RequestError
from bertline.serving.embedded.rest.api import STATUSES, Reply, answer

CALL = Call(entrypoint="REST")
PREDICT = b'{"instances": [1.0, 5]}'


class HalfPlusTwo:
    """Answers x / 2 + 2, and keeps what it was asked."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure, self.specs, self.calls = failure, [], []

    def predict(self, request, call):
        self._note(request, call)
        response = predict_pb2.PredictResponse()
        response.outputs["y"].CopyFrom(request.inputs["x"])
        response.outputs["y"].float_val[:] = [value / 2 + 2 for value in request.inputs["x"].float_val]
        return response

    def classify(self, request, call):
        self._note(request, call)
        response = classification_pb2.ClassificationResponse()
        response.result.classifications.add().classes.add(label="a", score=0.5)
        return response

    def regress(self, request, call):
        self._note(request, call)
        response = regression_pb2.RegressionResponse()
        response.result.regressions.add(value=2.5)
        return response

    def get_model_metadata(self, request, call):
        self._note(request, call)
        known = get_model_metadata_pb2.SignatureDefMap()
        info = known.signature_def["serving_default"].inputs["x"]
        info.name, info.dtype = "x:0", 1
        info.tensor_shape.dim.add(size=-1)
        response = get_model_metadata_pb2.GetModelMetadataResponse(model_spec=request.model_spec)
        for field in request.metadata_field:
            response.metadata[field].Pack(known)
        return response

    def get_model_status(self, request, call):
        self._note(request, call)
        response = get_model_status_pb2.GetModelStatusResponse()
        response.model_version_status.add(version=7, state="AVAILABLE").status.SetInParent()
        return response

    def input_infos(self, spec, signature_name):
        if signature_name:
            raise RequestError("INVALID_ARGUMENT", f'Serving signature name: "{signature_name}" not found in signature def')
        return {"x": meta_graph_pb2.TensorInfo(dtype="DT_FLOAT")}

    def _note(self, request, call):
        if self.failure:
            raise self.failure
        self.specs.append(request.model_spec)
        self.calls.append(call)


def post(path: str, body: bytes = PREDICT, service: HalfPlusTwo | None = None) -> Reply:
    return answer(service or HalfPlusTwo(), "POST", path, body, CALL)


def get(path: str, service: HalfPlusTwo | None = None) -> Reply:
    return answer(service or HalfPlusTwo(), "GET", path, b"", CALL)


def error(reply: Reply) -> str:
    assert reply.content_type == "application/json"
    return json.loads(reply.body)["error"]


def test_rows_and_columns_are_answered_in_their_own_form():
    assert post("/v1/models/m:predict") == Reply(200, b'{\n    "predictions": [2.5, 4.5\n    ]\n}', "application/json")
    assert json.loads(post("/v1/models/m:predict", b'{"inputs": [1]}').body) == {"outputs": [2.5]}


def test_classes_and_values_are_answered_under_results():
    body = b'{"examples": [{"x": 1.0}]}'
    assert json.loads(post("/v1/models/m:classify", body).body) == {"results": [[["a", 0.5]]]}
    assert json.loads(post("/v1/models/m:regress", body).body) == {"results": [2.5]}


@pytest.mark.parametrize(
    "path, name, version, label",
    [
        ("/v1/models/m", "m", None, ""),
        ("/V1/Models/m", "m", None, ""),
        ("/v1/models/m/versions/99", "m", 99, ""),
        ("/v1/models/m/versions/0099", "m", 99, ""),
        ("/v1/models/m/versions/0", "m", 0, ""),
        ("/v1/models/m/versions/" + "0" * 6000 + "9223372036854775807", "m", 2**63 - 1, ""),
        ("/v1/models/m/labels/stable", "m", None, "stable"),
        ("/v1/models/a%21%2F%3A%C3%A4+%zz/labels/b%20%25", "a!/:ä+%zz", None, "b %"),
    ],
)
def test_the_path_says_which_model_is_meant(path, name, version, label):
    wanted = model_pb2.ModelSpec(name=name)
    if version is not None:
        wanted.version.value = version
    if label:
        wanted.version_label = label
    service = HalfPlusTwo()
    for reply in (get(path, service), get(f"{path}/metadata", service), post(f"{path}:predict", service=service)):
        assert reply.status == 200
    assert service.specs == [wanted] * 3


@pytest.mark.parametrize(
    "method, path",
    [
        ("POST", "/v1/foo"),
        ("POST", "/v1/models"),
        ("POST", "/v1/models/m"),
        ("POST", "/v1/models/m/metadata"),
        ("POST", "/v1/models/m/version/50:predict"),
        ("POST", "/v1/models/m/versions/string:predict"),
        ("POST", "/v1/models/m/versions/٣:predict"),
        ("POST", "/v1/models/m/versions/5/labels/l:regress"),
        ("POST", "/v1/models/m:predict?x=1"),
        ("POST", "/v1/models/m:PREDICT"),
        ("POST", "/v1/models/m:predict/"),
        ("POST", "/v1/models/m:multiinference"),
        ("GET", "/v1/models/m:predict"),
        ("GET", "/v1/models/m/"),
        ("GET", "/v1/foo"),
        ("PUT", "/v1/models/m"),
        ("DELETE", "/v1/models/m"),
    ],
)
def test_other_paths_are_malformed(method, path):
    reply = answer(HalfPlusTwo(), method, path, PREDICT, CALL)
    assert (reply.status, error(reply)) == (400, f"Malformed request: {method} {path}")


def test_a_path_outside_of_the_api_is_not_found():
    assert get("/").status == get("/v2/models/m").status == post("/models/m:predict").status == 404


def test_a_status_needs_a_name():
    for path in ("/v1/models", "/v1/models/versions/3"):
        assert (get(path).status, error(get(path))) == (400, "Missing model name in request.")


def test_a_version_beyond_64_bits_is_refused():
    reply = post(f"/v1/models/m/versions/{2**64}:predict")
    assert (reply.status, error(reply)) == (400, f"Failed to convert version: {2**64} to numeric.")


def test_a_name_that_is_no_text_is_refused():
    assert error(get("/v1/models/%ff")) == "Failed to decode model name:%ff"
    assert error(get("/v1/models/m/labels/%ff")) == "Failed to decode model version label:%ff"


def test_a_bad_signature_is_400():
    reply = post("/v1/models/m:predict", b'{"signature_name": "s", "instances": [1]}')
    assert (reply.status, error(reply)) == (400, 'Serving signature name: "s" not found in signature def')


def test_json_that_is_too_deep_is_400():
    reply = post("/v1/models/m:predict", b'{"instances":' + b"[" * 100_000)
    assert (reply.status, error(reply)) == (400, "JSON Parse error: The document is nested deeper than 64 levels")


@pytest.mark.parametrize("code", get_args(Code))
def test_every_code_has_its_http_status(code):
    reply = post("/v1/models/m:predict", service=HalfPlusTwo(RequestError(code, "why")))
    assert (reply.status, error(reply)) == (STATUSES[code], "why")


def test_the_statuses_are_those_of_the_contract():
    names = ("NOT_FOUND", "FAILED_PRECONDITION", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "CANCELLED", "UNAVAILABLE")
    assert [STATUSES[name] for name in names] == [404, 400, 504, 429, 499, 503]


def test_a_fault_of_ours_is_logged_and_not_shown(caplog):
    reply = post("/v1/models/m:predict", service=HalfPlusTwo(ZeroDivisionError("secret")))
    assert (reply.status, error(reply)) == (500, "Internal error")
    assert "secret" in caplog.text


def test_the_status_is_printed_as_tensorflow_serving_prints_it():
    assert get("/v1/models/m").body.decode() == (
        '{\n "model_version_status": [\n  {\n   "version": "7",\n   "state": "AVAILABLE",\n   "status": {\n'
        '    "error_code": "OK",\n    "error_message": ""\n   }\n  }\n ]\n}\n'
    )


def test_the_metadata_have_the_model_and_its_signatures():
    found = json.loads(get("/v1/models/m/versions/7/metadata").body)
    assert found["model_spec"] == {"name": "m", "signature_name": "", "version": "7"}
    inputs = found["metadata"]["signature_def"]["signature_def"]["serving_default"]["inputs"]
    assert inputs["x"]["dtype"] == "DT_FLOAT"
    assert inputs["x"]["tensor_shape"] == {"dim": [{"size": "-1", "name": ""}], "unknown_rank": False}


def test_the_call_reaches_the_service():
    service = HalfPlusTwo()
    post("/v1/models/m:predict", service=service)
    assert service.calls == [CALL]


def test_what_the_service_never_saw_is_told():
    told = []
    for service, body in [
        (HalfPlusTwo(), b"{"),
        (HalfPlusTwo(), b'{"signature_name": "s", "instances": [1]}'),
        (HalfPlusTwo(RequestError("UNAVAILABLE", "full")), PREDICT),
        (HalfPlusTwo(), PREDICT),
    ]:
        answer(service, "POST", "/v1/models/m:predict", body, CALL, refused=lambda *said: told.append(said))
    assert told == [("m", "INVALID_ARGUMENT", "Predict")] * 2
