"""A server that runs goes back to the version before without failing a request."""

import threading
import time

import pytest
from tiny_models import EVERY, push

from bertline.components.pusher.executor import publish, roll_back
from bertline.serving.client.sync import Client
from bertline.serving.embedded.server import Server
from bertline.serving.launch.config_files import one_model
from bertline.serving.settings import ServerSettings


def wait_for(versions, wanted):
    deadline = time.monotonic() + 60
    while not versions or versions[-1] != wanted:
        assert time.monotonic() < deadline, f"version {wanted} never answered: {versions[-3:]}"
        time.sleep(0.05)


@pytest.mark.parametrize("tiny", EVERY[:1])
def test_requests_go_on_while_versions_go_back_and_come_again(tiny, tmp_path):
    served, made = tmp_path / "served", push(tiny, tmp_path / "made")
    for number in (1, 2):
        (made / "assets.extra" / "note").write_text(str(number))  # so that they are two models
        publish(made, served, {})
    server = Server(ServerSettings(models=one_model("tiny", served), port=0, rest_api_port=None, poll_seconds=0.05))
    server.start()
    versions, failures, stop = [], [], threading.Event()

    def ask():
        with Client(f"127.0.0.1:{server.port}", "tiny", retries=0) as client:
            while not stop.is_set():
                try:
                    versions.append(client.predict({"text": ["a good film"]}).version)
                except Exception as error:
                    failures.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        wait_for(versions, 2)
        roll_back(served)
        wait_for(versions, 1)
        roll_back(served, 2)
        wait_for(versions, 2)
    finally:
        stop.set()
        asking.join()
        server.stop(0)
    assert not failures
