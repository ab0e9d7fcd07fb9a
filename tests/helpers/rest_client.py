"""The REST door before a service that echoes, and what asks it."""

import http.client
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import predict_pb2
from tensorflow_serving.config import model_server_config_pb2

from bertline.serving.embedded.errors import Call
from bertline.serving.embedded.rest.server import RestServer
from bertline.serving.settings import Limits, ServerSettings

PREDICT = "/v1/models/m:predict"
SETTINGS = ServerSettings(models=model_server_config_pb2.ModelServerConfig(), rest_api_port=0)
LIMITS = Limits(slow_seconds=60)


class Echo:
    """Answers each text with itself, once `work` is done."""

    def __init__(self, work: Callable[[Call], None] = lambda call: None) -> None:
        self.work = work

    def predict(self, request, call):
        self.work(call)
        response = predict_pb2.PredictResponse()
        response.outputs["y"].CopyFrom(request.inputs["x"])
        return response

    def input_infos(self, spec, signature_name):
        return {"x": meta_graph_pb2.TensorInfo(dtype="DT_STRING")}


@contextmanager
def opened(service=None, limits: Limits = LIMITS, render=None, **settings) -> Iterator[RestServer]:
    door = RestServer(service or Echo(), replace(SETTINGS, limits=limits, **settings), render)
    door.start()
    try:
        yield door
    finally:
        door.stop(10)


def ask(door: RestServer, method: str = "POST", path: str = PREDICT, body=b'{"instances": ["a"]}', **headers: str):
    """The status and the document of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", door.port, timeout=60)
    connection.request(method, path, body, headers)
    response = connection.getresponse()
    assert response.headers["content-type"] == "application/json"
    return response.status, json.loads(response.read())


def plugged(door: RestServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", door.port), timeout=60)


def rest_of(client: socket.socket) -> bytes:
    """All that comes until the other side closes."""
    parts = []
    while part := client.recv(65536):
        parts.append(part)
    return b"".join(parts)


def message(body: bytes = b'{"instances": ["a"]}', *headers: str) -> bytes:
    lines = [f"POST {PREDICT} HTTP/1.1", "Host: here", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def closed(body: bytes = b'{"instances": ["a"]}') -> bytes:
    return message(body, "Connection: close")


def still_answers(door: RestServer) -> bool:
    return ask(door) == (200, {"predictions": ["a"]})
