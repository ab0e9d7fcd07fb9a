"""What the REST API answers: a path and a body in, a status and a body out, whatever carried them."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple, Protocol
from urllib.parse import unquote

from google.protobuf import json_format, message
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_pb2,
    predict_pb2,
    regression_pb2,
)

from bertline.serving.embedded.errors import Call, RequestError
from bertline.serving.embedded.rest.document import invalid
from bertline.serving.embedded.rest.replies import classify_reply, error_reply, predict_reply, regress_reply
from bertline.serving.embedded.rest.requests import classify_request, predict_request, regress_request
from bertline.serving.settings import Limits

STATUSES = {
    "CANCELLED": 499,
    "UNKNOWN": 500,
    "INVALID_ARGUMENT": 400,
    "DEADLINE_EXCEEDED": 504,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409,
    "PERMISSION_DENIED": 403,
    "RESOURCE_EXHAUSTED": 429,
    "FAILED_PRECONDITION": 400,
    "ABORTED": 409,
    "OUT_OF_RANGE": 400,
    "UNIMPLEMENTED": 501,
    "INTERNAL": 500,
    "UNAVAILABLE": 503,
    "DATA_LOSS": 500,
    "UNAUTHENTICATED": 401,
}
_OF_MODEL = r"(?:/versions/(?P<version>[0-9]+)|/labels/(?P<label>[^/:]+))?"
_POST = re.compile(rf"/v1/models/(?P<name>[^/:]+){_OF_MODEL}:(?P<method>classify|regress|predict)", re.I | re.A)
_GET = re.compile(rf"/v1/models(?:/(?P<name>[^/:]+))?{_OF_MODEL}(?:/(?P<method>metadata))?", re.I | re.A)
_ANY = re.compile(r"/v1/.*", re.I | re.A)
_SIGNATURES = "signature_def"
_log = logging.getLogger(__name__)

Ask = Callable[[Call], bytes]
"""A request that is read: what is left is to ask it."""
Refused = Callable[[str, str, str], None]
"""Told the model, the code and the API of a request that was refused before the service, which counts its own, saw it."""


class Service(Protocol):
    """What the answers come from. Everything that it refuses it raises as a RequestError."""

    def predict(self, request: predict_pb2.PredictRequest, call: Call) -> predict_pb2.PredictResponse: ...

    def classify(
        self, request: classification_pb2.ClassificationRequest, call: Call
    ) -> classification_pb2.ClassificationResponse: ...

    def regress(self, request: regression_pb2.RegressionRequest, call: Call) -> regression_pb2.RegressionResponse: ...

    def get_model_metadata(
        self, request: get_model_metadata_pb2.GetModelMetadataRequest, call: Call
    ) -> get_model_metadata_pb2.GetModelMetadataResponse: ...

    def get_model_status(
        self, request: get_model_status_pb2.GetModelStatusRequest, call: Call
    ) -> get_model_status_pb2.GetModelStatusResponse: ...

    def input_infos(self, spec: model_pb2.ModelSpec, signature_name: str) -> Mapping[str, meta_graph_pb2.TensorInfo]: ...


class Reply(NamedTuple):
    """An answer over HTTP."""

    status: int
    body: bytes
    content_type: str = "application/json"
    headers: Mapping[str, str] = MappingProxyType({})
    """Further ones."""


LIMITS = Limits()


def answer(
    service: Service,
    method: str,
    path: str,
    body: bytes,
    call: Call,
    limits: Limits = LIMITS,
    refused: Refused = lambda model, code, api: None,
) -> Reply:
    """The reply to one request. `path` is as it was sent, with its escapes and its query."""
    try:
        return Reply(200, _answered(service, method, path, body, call, limits, refused))
    except RequestError as error:
        return refusal(error)
    except Exception:
        _log.exception("%s %s", method, path)  # what went wrong is ours to know, and not the caller's
        return Reply(500, error_reply("Internal error"))


def refusal(error: RequestError) -> Reply:
    return Reply(STATUSES[error.code], error_reply(error.message))


def _answered(service: Service, method: str, path: str, body: bytes, call: Call, limits: Limits, refused: Refused) -> bytes:
    pattern = {"POST": _POST, "GET": _GET}.get(method)
    found = pattern.fullmatch(path) if pattern else None
    malformed = invalid(f"Malformed request: {method} {path}")
    if found is None:
        raise malformed if _ANY.fullmatch(path) else RequestError("NOT_FOUND", f"Not found: {path}")
    spec, asked = _spec(found), found["method"]
    if method == "POST":
        # The path is matched in either case and its last word is not, as in the real server.
        if asked not in _READERS:
            raise malformed
        try:
            ask = _READERS[asked](service, spec, body, limits)
        except RequestError as error:
            refused(spec.name, error.code, asked.capitalize())
            raise
        return ask(call)
    if not spec.name:
        raise invalid("Missing model name in request.")
    if asked == "metadata":
        metadata = get_model_metadata_pb2.GetModelMetadataRequest(model_spec=spec, metadata_field=[_SIGNATURES])
        return _metadata_reply(service.get_model_metadata(metadata, call))
    return _printed(service.get_model_status(get_model_status_pb2.GetModelStatusRequest(model_spec=spec), call)).encode()


def _predict(service: Service, spec: model_pb2.ModelSpec, body: bytes, limits: Limits) -> Ask:
    request, as_rows = predict_request(body, spec, lambda signature: service.input_infos(spec, signature), limits)
    return lambda call: predict_reply(service.predict(request, call), as_rows)


def _classify(service: Service, spec: model_pb2.ModelSpec, body: bytes, limits: Limits) -> Ask:
    request = classify_request(body, spec, limits)
    return lambda call: classify_reply(service.classify(request, call))


def _regress(service: Service, spec: model_pb2.ModelSpec, body: bytes, limits: Limits) -> Ask:
    request = regress_request(body, spec, limits)
    return lambda call: regress_reply(service.regress(request, call))


_READERS = {"predict": _predict, "classify": _classify, "regress": _regress}


def _spec(found: re.Match[str]) -> model_pb2.ModelSpec:
    spec = model_pb2.ModelSpec(name=_decoded("model name", found["name"] or ""))
    if found["version"]:
        digits = found["version"].lstrip("0") or "0"  # Python refuses to read thousands of digits
        if len(digits) > 19 or int(digits) >= 1 << 63:
            raise invalid(f"Failed to convert version: {found['version']} to numeric.")
        spec.version.value = int(digits)
    elif found["label"]:
        spec.version_label = _decoded("model version label", found["label"])
    return spec


def _decoded(what: str, text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise invalid(f"Failed to decode {what}:{text}") from None


def _metadata_reply(response: get_model_metadata_pb2.GetModelMetadataResponse) -> bytes:
    """Put together of two, as the real server does it."""
    signatures = get_model_metadata_pb2.SignatureDefMap()
    if not response.metadata[_SIGNATURES].Unpack(signatures):
        raise RequestError("INTERNAL", "Failed to unpack 'Any' object to 'SignatureDefMap'.")
    spec, known = _printed(response.model_spec), _printed(signatures)
    return f'{{\n"model_spec":{spec},\n"metadata": {{"signature_def": {known}}}\n}}\n'.encode()


def _printed(made: message.Message) -> str:
    text = json_format.MessageToJson(
        made, including_default_value_fields=True, preserving_proto_field_name=True, indent=1, ensure_ascii=False
    )
    return f"{text}\n"
