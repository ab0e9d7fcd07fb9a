"""A server in this process, and what asks it: for tests of what may go wrong with one."""

import contextlib
import http.client
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import (
    get_model_status_pb2,
    model_management_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from bertline.serving.embedded.server import Server
from bertline.serving.launch.config_files import one_model
from bertline.serving.settings import ServerSettings

PATIENCE = 120.0
"""Seconds that a request may take here, on whatever machine."""
ANSWERS = "/v1/models/m:predict"
AVAILABLE = get_model_status_pb2.ModelVersionStatus.AVAILABLE
LARGE = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]


@dataclass
class Client:
    """A server, and a channel to it."""

    server: Server
    channel: grpc.Channel

    def __post_init__(self) -> None:
        self.predictions = prediction_service_pb2_grpc.PredictionServiceStub(self.channel)
        self.models = model_service_pb2_grpc.ModelServiceStub(self.channel)

    def predict(self, signature: str = "", timeout: float = PATIENCE, **inputs) -> predict_pb2.PredictResponse:
        return self.predictions.Predict(request(signature, **inputs), timeout)

    def later(self, signature: str = "", timeout: float = PATIENCE, **inputs):
        return self.predictions.Predict.future(request(signature, **inputs), timeout)

    def answers(self) -> bool:
        return values(self.predict(x=[2.0]), "y") in ([3.0], [4.0])

    def version(self) -> int:
        return self.predict(x=[2.0]).model_spec.version.value

    def status(self) -> dict[int, get_model_status_pb2.ModelVersionStatus]:
        asked = get_model_status_pb2.GetModelStatusRequest()
        asked.model_spec.name = "m"
        return {status.version: status for status in self.models.GetModelStatus(asked, PATIENCE).model_version_status}

    def reload(self, name: str, base_path: Path | str) -> None:
        self.models.HandleReloadConfigRequest(
            model_management_pb2.ReloadConfigRequest(config=one_model(name, base_path)), PATIENCE
        )

    def rest(self, method: str = "POST", path: str = ANSWERS, body: bytes = b'{"instances": [2.0]}', **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.rest_port, timeout=PATIENCE)
        with contextlib.closing(connection):
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return response.status, response.read()


@contextlib.contextmanager
def serving(base: Path, **settings) -> Iterator[Client]:
    """A server that has loaded what it can, on ports of its own."""
    server = Server(
        ServerSettings(**{"models": one_model("m", base), "port": 0, "rest_api_port": 0, "poll_seconds": 0.1} | settings)
    )
    server.start()
    try:
        with grpc.insecure_channel(f"127.0.0.1:{server.port}", LARGE) as channel:
            yield Client(server, channel)
    finally:
        server.stop(5)


def request(signature: str = "", **inputs) -> predict_pb2.PredictRequest:
    made = predict_pb2.PredictRequest()
    made.model_spec.name, made.model_spec.signature_name = "m", signature
    for name, given in inputs.items():
        kind = np.float32 if any(isinstance(value, float) for value in given) else None
        made.inputs[name].CopyFrom(tf.make_tensor_proto(np.asarray(given, kind)))
    return made


def values(response: predict_pb2.PredictResponse, name: str) -> list:
    return tf.make_ndarray(response.outputs[name]).tolist()


def eventually(holds: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def refused(ask: Callable[[], object]) -> grpc.RpcError:
    with pytest.raises(grpc.RpcError) as caught:
        ask()
    return caught.value


class Gate:
    """Rows of the signature `held`: each says that it runs, and ends when the gate opens."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def row(self, name: str) -> dict[str, list[str]]:
        return {"mark": [str(self.folder / name)], "until": [str(self.folder / "open")]}

    def has_run(self, name: str) -> bool:
        return (self.folder / name).exists()

    def open(self) -> None:
        (self.folder / "open").touch()

    def __enter__(self) -> "Gate":
        return self

    def __exit__(self, *_: object) -> None:
        self.open()  # before the server stops: it would wait for those whom a test that failed holds


def available(client: Client) -> set[int]:
    return {number for number, status in client.status().items() if status.state == AVAILABLE}
