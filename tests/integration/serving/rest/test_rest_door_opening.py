"""The REST door opens, closes, and stands before the real service."""

import socket
import threading
from dataclasses import replace

import pytest
import tensorflow as tf
from rest_client import SETTINGS, Echo, ask, opened, plugged, rest_of
from tensorflow_serving.config import model_server_config_pb2

from bertline.serving.embedded.batching import OneByOne
from bertline.serving.embedded.errors import Call
from bertline.serving.embedded.lifecycle.manager import Manager
from bertline.serving.embedded.monitoring import Monitoring
from bertline.serving.embedded.rest.server import RestServer
from bertline.serving.embedded.service import Service


def test_a_port_that_is_taken_is_said_at_the_start():
    with opened() as door:
        second = RestServer(Echo(), replace(SETTINGS, rest_api_port=door.port))
        with pytest.raises(OSError, match="in use"):
            second.start()
        second.stop(0)


def test_the_door_is_open_on_its_own_address_alone():
    with opened() as door, socket.socket() as client:
        assert client.connect_ex(("127.0.0.2", door.port)) != 0


def test_what_is_under_way_is_answered_before_the_door_closes():
    entered, go_on, found = threading.Event(), threading.Event(), []

    def wait(call: Call) -> None:
        entered.set()
        go_on.wait(60)

    with opened(Echo(wait)) as door, plugged(door) as idle:
        idle.sendall(b"POST ")
        asking = threading.Thread(target=lambda: found.append(ask(door)))
        asking.start()
        assert entered.wait(60)
        stopping = threading.Thread(target=door.stop, args=(60,))
        stopping.start()
        assert rest_of(idle) == b""  # the door has begun to close
        with socket.socket() as client:
            assert client.connect_ex(("127.0.0.1", door.port)) != 0
        go_on.set()
        stopping.join()
        asking.join()
        assert found == [(200, {"predictions": ["a"]})]
        door.stop(1)  # a second time does nothing


def test_what_takes_too_long_is_refused_and_told():
    entered, learned, found = threading.Event(), threading.Event(), []

    def work(call: Call) -> None:
        entered.set()
        while not call.is_cancelled():
            learned.wait(0.01)
        learned.set()

    with opened(Echo(work)) as door:
        asking = threading.Thread(target=lambda: found.append(ask(door)))
        asking.start()
        assert entered.wait(60)
        door.stop(0.1)
        asking.join()
        assert found == [(503, {"error": "The server is shutting down"})]
        assert learned.wait(60)


def test_the_door_stands_before_the_real_service(tmp_path):
    class HalfPlusTwo(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
        def answer(self, x):
            return {"y": x / 2 + 2}

    model = HalfPlusTwo()
    tf.saved_model.save(model, str(tmp_path / "m" / "1"), signatures={"serving_default": model.answer})
    models = model_server_config_pb2.ModelServerConfig()
    models.model_config_list.config.add(name="m", base_path=str(tmp_path / "m"), model_platform="tensorflow")
    settings, monitoring, runner = replace(SETTINGS, models=models), Monitoring(), OneByOne(1)
    manager = Manager(settings, monitoring, lambda *_: None)
    manager.start()
    try:
        with opened(Service(manager, runner, monitoring, settings.limits), render=monitoring.render) as door:
            assert ask(door, body=b'{"instances": [1, 5.0]}') == (200, {"predictions": [2.5, 4.5]})
            assert ask(door, body=b'{"inputs": {"x": [2]}}') == (200, {"outputs": [3.0]})
            unknown = {"error": "Servable not found for request: Latest(n)"}
            assert ask(door, path="/v1/models/n:predict", body=b'{"instances": [1]}') == (404, unknown)
            assert ask(door, "GET", "/v1/models/m")[1]["model_version_status"][0]["state"] == "AVAILABLE"
            found = ask(door, "GET", "/v1/models/m/metadata")[1]["metadata"]["signature_def"]["signature_def"]
            assert found["serving_default"]["outputs"]["y"]["dtype"] == "DT_FLOAT"
    finally:
        runner.stop()
        manager.stop()
    assert b':tensorflow:serving:request_count{model_name="m",status="OK"} ' in monitoring.render()
