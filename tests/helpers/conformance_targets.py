"""Servers to ask, each the same way: the embedded one, the real one as a binary or in Docker, and one that runs already."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import grpc
import numpy as np
import pytest
import tensorflow as tf
from grpc_health.v1 import health_pb2_grpc
from tensorflow.core.example import example_pb2
from tensorflow.core.framework import tensor_pb2
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    input_pb2,
    model_management_pb2,
    model_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)
from tensorflow_serving.config import model_server_config_pb2

from bertline.serving.embedded.server import Server
from bertline.serving.launch import launcher as launch
from bertline.serving.settings import ServerSettings

SECONDS = 60.0
"""So long anything may take before it has failed."""
EMBEDDED, ENGINES = "embedded", ("binary", "docker")
REAL_FLAGS = {
    "allow_version_labels_for_unavailable_models": "true",
    "enable_grpc_healthcheck_service": "true",
}
State = get_model_status_pb2.ModelVersionStatus.State


class Answer(NamedTuple):
    """Of REST."""

    status: int
    text: str
    content_type: str

    @property
    def document(self) -> Any:
        return json.loads(self.text)


@dataclass
class Asked:
    """A server that is asked."""

    address: str
    rest_address: str | None
    at: str
    """The target, as the command line names it."""
    mounted: frozenset[str] = frozenset()
    """The models whose folders a container sees."""

    def __post_init__(self) -> None:
        self.channel = grpc.insecure_channel(self.address, options=[("grpc.enable_http_proxy", 0)])
        self.prediction = prediction_service_pb2_grpc.PredictionServiceStub(self.channel)
        self.models = model_service_pb2_grpc.ModelServiceStub(self.channel)
        self.health = health_pb2_grpc.HealthStub(self.channel)

    def predict(self, model: str, inputs: Mapping[str, Any], outputs: tuple[str, ...] = (), seconds=SECONDS, **of_spec):
        request = predict_pb2.PredictRequest(model_spec=spec(model, **of_spec), output_filter=outputs)
        for name, value in inputs.items():
            request.inputs[name].CopyFrom(
                value if isinstance(value, tensor_pb2.TensorProto) else tf.make_tensor_proto(value)
            )
        return self.prediction.Predict(request, timeout=seconds)

    def y(self, model: str, x: list[float], **of_spec) -> list[float]:
        """What a half-plus model makes of numbers."""
        return values(self.predict(model, {"x": np.array(x, np.float32)}, **of_spec).outputs["y"])

    def classify(self, model: str, given: input_pb2.Input, **of_spec):
        request = classification_pb2.ClassificationRequest(model_spec=spec(model, **of_spec), input=given)
        return self.prediction.Classify(request, timeout=SECONDS)

    def regress(self, model: str, given: input_pb2.Input, **of_spec):
        request = regression_pb2.RegressionRequest(model_spec=spec(model, **of_spec), input=given)
        return self.prediction.Regress(request, timeout=SECONDS)

    def infer(self, given: input_pb2.Input, *tasks: inference_pb2.InferenceTask):
        request = inference_pb2.MultiInferenceRequest(tasks=tasks, input=given)
        return self.prediction.MultiInference(request, timeout=SECONDS)

    def metadata(self, model: str, *fields: str, **of_spec):
        request = get_model_metadata_pb2.GetModelMetadataRequest(model_spec=spec(model, **of_spec), metadata_field=fields)
        return self.prediction.GetModelMetadata(request, timeout=SECONDS)

    def signatures(self, model: str, **of_spec):
        found = get_model_metadata_pb2.SignatureDefMap()
        assert self.metadata(model, "signature_def", **of_spec).metadata["signature_def"].Unpack(found)
        return found.signature_def

    def status(self, model: str, **of_spec):
        request = get_model_status_pb2.GetModelStatusRequest(model_spec=spec(model, **of_spec))
        return list(self.models.GetModelStatus(request, timeout=SECONDS).model_version_status)

    def states(self, model: str) -> dict[int, str]:
        """The state of each version that is not gone; of those that have failed too."""
        try:
            found = self.status(model)
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.NOT_FOUND:
                raise
            return {}
        return {one.version: State.Name(one.state) for one in found if one.state != State.END or one.status.error_code}

    def reload(self, config: model_server_config_pb2.ModelServerConfig):
        request = model_management_pb2.ReloadConfigRequest(config=config)
        for model in request.config.model_config_list.config if self.at == "docker" else ():
            if model.name not in self.mounted:
                pytest.skip("--target docker: a container that runs sees no new folder")
            model.base_path = f"/models/{model.name}"
        return self.models.HandleReloadConfigRequest(request, timeout=SECONDS)

    def http(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
        """`body` is text as it is, or something to be written as JSON."""
        if self.rest_address is None:
            pytest.skip(f"{self.at}: no --rest-target was given")
        data = body if isinstance(body, str | bytes | None) else json.dumps(body)
        connection = http.client.HTTPConnection(self.rest_address, timeout=SECONDS)
        with contextlib.closing(connection):
            connection.request(method, path, data, dict(headers or {}))
            reply = connection.getresponse()
            return Answer(reply.status, reply.read().decode(), reply.headers.get("content-type", ""))

    def post(self, path: str, body: Any) -> Answer:
        return self.http("POST", f"/v1/models/{path}", body)

    def get(self, path: str) -> Answer:
        return self.http("GET", f"/v1/models/{path}")

    def close(self) -> None:
        self.channel.close()


@contextlib.contextmanager
def opened(at: str, settings: ServerSettings) -> Iterator[Asked]:
    """A server of one's own; a skip where the target is a server that runs already, or is not here."""
    if at == EMBEDDED:
        server = Server(settings)
        server.start()
        port, rest_port, stop = server.port, server.rest_port, lambda: server.stop(5)
    elif at in ENGINES:
        require_here(at)
        running = launch.launch(settings, at, extra=REAL_FLAGS, patience=SECONDS)
        port, rest_port, stop = running.port, running.rest_port, running.stop
    else:
        pytest.skip(f"{at} runs already: its models are not for the tests to change")
    mounted = frozenset(model.name for model in settings.models.model_config_list.config)
    asked = Asked(f"127.0.0.1:{port}", f"127.0.0.1:{rest_port}", at, mounted)
    try:
        yield asked
    finally:
        asked.close()
        stop()


def require_here(at: str) -> None:
    """Skips where a target is not on this machine."""
    if at == "binary" and launch.find_binary() is None:
        pytest.skip("--target binary: there is no tensorflow_model_server on PATH")
    if at == "docker" and launch.find_docker() is None:
        pytest.skip("--target docker: Docker does not answer here")


def spec(model: str, signature: str = "", version: int | None = None, label: str = "") -> model_pb2.ModelSpec:
    made = model_pb2.ModelSpec(name=model, signature_name=signature)
    if version is not None:
        made.version.value = version
    if label:
        made.version_label = label
    return made


def task(model: str, signature: str, method: str) -> inference_pb2.InferenceTask:
    return inference_pb2.InferenceTask(
        model_spec=spec(model, signature), method_name=f"tensorflow/serving/{method}" if method else ""
    )


def examples(*xs: float | None) -> input_pb2.Input:
    """An Example for each number; one without a feature for None."""
    given = input_pb2.Input()
    given.example_list.SetInParent()
    given.example_list.examples.extend(map(example, xs))
    return given


def example(x: float | None) -> example_pb2.Example:
    made = example_pb2.Example()
    if x is not None:
        made.features.feature["x"].float_list.value.append(x)
    return made


def values(tensor) -> list[Any]:
    return tf.make_ndarray(tensor).tolist()


def refused(ask: Callable[[], Any], code: str, message: str) -> None:
    """Asks what must fail; where the message ends in … it goes on."""
    with pytest.raises(grpc.RpcError) as caught:
        ask()
    assert caught.value.code().name == code, caught.value.details()
    assert_said(caught.value.details(), message)


def refused_http(answer: Answer, status: int, message: str) -> None:
    assert answer.status == status, answer.text
    assert answer.content_type.startswith("application/json")
    assert set(answer.document) == {"error"}
    assert_said(answer.document["error"], message)


def assert_said(said: str, message: str) -> None:
    """… stands for anything, anywhere; blanks count once, for a value is quoted over several lines."""
    pattern = ".*".join(map(re.escape, " ".join(message.split()).split("…")))
    assert re.fullmatch(pattern, " ".join(said.split()), re.S), said


def until(condition: Callable[[], Any]) -> Any:
    """Waits for what will be so in a moment."""
    end = time.monotonic() + SECONDS
    while not (found := condition()):
        assert time.monotonic() < end, "it has not come to be so"
        time.sleep(0.05)
    return found
