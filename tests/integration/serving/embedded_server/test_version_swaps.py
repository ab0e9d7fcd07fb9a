"""Versions that come, break and go under a server's eyes."""

import json
import os
import random
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from served_models import HELD
from serving_client import AVAILABLE, PATIENCE, available, eventually, refused, request, serving, values
from tensorflow_serving.apis import get_model_status_pb2

from bertline.serving.launch.config_files import one_model
from bertline.serving.settings import Batching

UNLOADING = get_model_status_pb2.ModelVersionStatus.UNLOADING
END = get_model_status_pb2.ModelVersionStatus.END


def test_a_half_copied_version_is_loaded_when_the_rest_has_come(base, made):
    with serving(base) as client:
        (base / "2").mkdir()
        shutil.copy(made[2] / "saved_model.pb", base / "2")
        assert eventually(lambda: 2 in client.status() and client.status()[2].status.error_message)
        assert client.version() == 1
        shutil.copytree(made[2] / "variables", base / "2" / "variables")
        assert eventually(lambda: client.version() == 2)
        assert values(client.predict(x=[2.0]), "y") == [4.0]


def test_a_corrupt_version_is_told_and_the_old_one_goes_on(base):
    with serving(base) as client:
        (base / "2").mkdir()
        (base / "2" / "saved_model.pb").write_bytes(random.Random(0).randbytes(10_000))
        assert eventually(lambda: 2 in client.status() and client.status()[2].status.error_message)
        assert "saved_model.pb" in client.status()[2].status.error_message
        assert client.status()[2].status.error_code and client.status()[1].state == AVAILABLE
        assert client.version() == 1
        status, page = client.rest("GET", "/v1/models/m", b"")
        assert status == 200 and "saved_model.pb" in json.loads(page)["model_version_status"][0]["status"]["error_message"]


def test_a_version_that_is_deleted_goes_on_answering(base):
    with serving(base) as client:
        shutil.rmtree(base / "1")
        time.sleep(0.5)  # some looks at the disk
        assert client.answers() and client.status()[1].state == AVAILABLE


def test_a_folder_that_goes_and_comes_back_is_served_throughout(base, made, tmp_path):
    with serving(base) as client:
        os.rename(base, tmp_path / "gone")
        time.sleep(0.5)
        assert client.answers()
        shutil.copytree(made[2], tmp_path / "gone" / "2")
        os.rename(tmp_path / "gone", base)
        assert eventually(lambda: client.version() == 2)


def test_a_model_may_come_after_the_server(tmp_path, made):
    with serving(tmp_path / "later") as client:
        assert refused(client.answers).code() == grpc.StatusCode.NOT_FOUND
        shutil.copytree(made[1], tmp_path / "copy" / "1")
        os.rename(tmp_path / "copy", tmp_path / "later")
        assert eventually(client.server.manager.all_available)
        assert client.answers()


@pytest.mark.parametrize("batching", [None, Batching()])
def test_no_request_fails_while_a_version_takes_the_place_of_another(base, made, tmp_path, batching):
    with serving(base, batching=batching) as client:
        begun, stop = threading.Event(), threading.Event()

        def ask() -> list[int]:
            seen = []
            while not stop.is_set() or seen[-1] == 1:
                response = client.predict(x=[2.0])
                version = response.model_spec.version.value
                assert values(response, "y") == [version + 2.0]
                seen.append(version)
                begun.set()
            return seen

        with ThreadPoolExecutor(8) as threads:
            asking = [threads.submit(ask) for _ in range(8)]
            shutil.copytree(made[2], tmp_path / "2")
            begun.wait(PATIENCE)  # however busy the machine is
            os.rename(tmp_path / "2", base / "2")
            came = eventually(lambda: client.version() == 2 and 1 not in available(client))
            stop.set()
            seen = [future.result(PATIENCE) for future in asking]
    assert came and all(versions == sorted(versions) and versions[-1] == 2 for versions in seen)
    assert any(versions[0] == 1 for versions in seen)


def test_a_version_goes_only_when_its_last_request_is_answered(base, made, gate):
    with serving(base) as client, gate:
        held = client.later(HELD, **gate.row("row"))
        assert eventually(lambda: gate.has_run("row"))
        shutil.copytree(made[2], base / "2")
        assert eventually(lambda: client.version() == 2)
        assert eventually(lambda: client.status()[1].state == UNLOADING)
        gate.open()
        assert held.result(PATIENCE).model_spec.version.value == 1
        assert eventually(lambda: client.status()[1].state == END)
        assert available(client) == {2}


def test_a_long_request_keeps_no_later_version_from_being_served(base, made, gate):
    with serving(base) as client, gate:
        held = client.later(HELD, **gate.row("row"))
        assert eventually(lambda: gate.has_run("row"))
        for number in (2, 3):
            shutil.copytree(made[2], base / str(number))
            assert eventually(lambda number=number: client.version() == number)
        assert eventually(lambda: client.status()[2].state == END)
        assert client.status()[1].state == UNLOADING and not held.done()
        gate.open()
        assert held.result(PATIENCE).model_spec.version.value == 1
        assert eventually(lambda: client.status()[1].state == END)


def test_a_long_request_keeps_no_other_model_from_being_served(base, other_place, made, gate):
    models = one_model("m", base)
    models.MergeFrom(one_model("n", other_place))
    asked = request(x=[2.0])
    asked.model_spec.name = "n"
    with serving(base, models=models) as client, gate:
        held = client.later(HELD, **gate.row("row"))
        assert eventually(lambda: gate.has_run("row"))
        shutil.copytree(made[2], base / "2")
        assert eventually(lambda: client.status()[1].state == UNLOADING)
        shutil.copytree(made[2], other_place / "2")
        assert eventually(lambda: client.predictions.Predict(asked).model_spec.version.value == 2)
        assert client.status()[1].state == UNLOADING and not held.done()
        gate.open()
        assert held.result(PATIENCE)


def test_a_model_that_is_dropped_in_the_midst_of_a_request_may_come_back(base, gate):
    with serving(base, root=base.parent) as client, gate:
        held = client.later(HELD, **gate.row("row"))
        assert eventually(lambda: gate.has_run("row"))
        client.reload("other", base)
        assert client.status()[1].state == UNLOADING and refused(client.answers).code() == grpc.StatusCode.NOT_FOUND
        client.reload("m", base)
        assert client.answers() and client.status()[1].state == AVAILABLE and not held.done()
        gate.open()
        assert held.result(PATIENCE).model_spec.version.value == 1
        assert client.answers()


def test_a_model_that_was_dropped_is_known_as_ended(base):
    with serving(base, root=base.parent) as client:
        client.reload("other", base)
        assert eventually(lambda: client.status()[1].state == END)
