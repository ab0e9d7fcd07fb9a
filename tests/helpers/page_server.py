"""A server with its page, before models of several tasks."""

from __future__ import annotations

import http.client
import json
import sys
from contextlib import contextmanager

from google.protobuf import text_format
from tensorflow_serving.config import model_server_config_pb2

from bertline.serving.embedded.server import Server
from bertline.serving.settings import ServerSettings, TryPage

EXPLAINER = (sys.executable, "-m", "bertline.pipeline.inference.explain.lines")


class Served:
    """A server, asked over HTTP."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.address = f"http://127.0.0.1:{server.rest_port}/"

    def ask(self, method: str, path: str, body: object = None, **headers: str):
        """The status, the headers and the body of a reply."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.rest_port, timeout=120)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        sent = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method, path, sent, given)
        response = connection.getresponse()
        return response.status, response.headers, response.read()

    def json(self, method: str, path: str, body: object = None, **headers: str):
        status, _, found = self.ask(method, path, body, **headers)
        return status, json.loads(found)

    def explained(self, question: object, **headers: str):
        return self.json("POST", "/page/explain", question, **{"Content_Type": "application/json", **headers})

    def predicted(self, model: str, row: dict) -> dict:
        """What the REST API answers to one row."""
        status, found = self.json("POST", f"/v1/models/{model}:predict", {"instances": [row]})
        assert status == 200, found
        return found["predictions"][0]


def models_of(folders) -> model_server_config_pb2.ModelServerConfig:
    """Models by their names, each with the folder of its versions."""
    models = "".join(
        f'config {{ name: "{name}" base_path: "{folder}" model_platform: "tensorflow" }}'
        for name, folder in folders.items()
    )
    text = f"model_config_list {{ {models} }}"
    return text_format.Parse(text, model_server_config_pb2.ModelServerConfig())


@contextmanager
def opened(folders, page: TryPage | None, **settings):
    """A server that has loaded its models, on ports of its own."""
    given = {"port": 0, "rest_api_port": 0, "load_retries": 0, "warm_up": False, **settings}
    server = Server(ServerSettings(models_of(folders), page=page, **given))
    server.start()
    try:
        yield Served(server)
    finally:
        server.stop(5)
