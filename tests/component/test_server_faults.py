"""The embedded server under faults: broken models, hostile requests, clients in a hurry, an end in the midst of work."""

import contextlib
import datetime
import http.client
import ipaddress
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import grpc
import numpy as np
import psutil
import pytest
import served_models
import tensorflow as tf
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from google.protobuf import message
from served_models import HELD, NUMBERS, SUMS, TEXTS
from tensorflow.core.framework import tensor_pb2, types_pb2
from tensorflow_serving.apis import (
    get_model_status_pb2,
    model_management_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_log_pb2,
    prediction_service_pb2_grpc,
)

from serving.config_files import one_model
from serving.contract import WARM_UP
from serving.embedded.server import Server
from serving.settings import MEGABYTE, Batching, Limits, ServerSettings, Tls

PATIENCE = 120.0
"""Seconds that a request may take here, on whatever machine."""
ANSWERS = "/v1/models/m:predict"
AVAILABLE = get_model_status_pb2.ModelVersionStatus.AVAILABLE
LARGE = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> dict[int, Path]:
    """Two versions, to be copied: the first adds 2, the second 3."""
    folder = tmp_path_factory.mktemp("made")
    return {number: served_models.save(folder / str(number), bias=number + 1.0) for number in (1, 2)}


@pytest.fixture
def base(tmp_path, made) -> Path:
    """A model's folder with its first version."""
    shutil.copytree(made[1], tmp_path / "root" / "m" / "1")
    return tmp_path / "root" / "m"


@pytest.fixture
def other_place(tmp_path, made) -> Path:
    """A model that is none of the server's business."""
    shutil.copytree(made[1], tmp_path / "elsewhere" / "1")
    return tmp_path / "elsewhere"


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


@pytest.fixture
def gate(tmp_path) -> Iterator[Gate]:
    made = Gate(tmp_path / "gate")
    yield made
    made.open()  # also after a failure: somebody may wait


# Versions that come, break and go


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
        stop = threading.Event()

        def ask() -> list[int]:
            seen = []
            while not stop.is_set() or seen[-1] == 1:
                response = client.predict(x=[2.0])
                version = response.model_spec.version.value
                assert values(response, "y") == [version + 2.0]
                seen.append(version)
            return seen

        with ThreadPoolExecutor(8) as threads:
            asking = [threads.submit(ask) for _ in range(8)]
            shutil.copytree(made[2], tmp_path / "2")
            os.rename(tmp_path / "2", base / "2")
            came = eventually(lambda: client.version() == 2 and 1 not in available(client))
            stop.set()
            seen = [future.result(PATIENCE) for future in asking]
    assert came and all(versions == sorted(versions) and versions[-1] == 2 for versions in seen)
    assert any(versions[0] == 1 for versions in seen)


def available(client: Client) -> set[int]:
    return {number for number, status in client.status().items() if status.state == AVAILABLE}


def test_a_version_goes_only_when_its_last_request_is_answered(base, made, gate):
    with serving(base) as client:
        held = client.later(HELD, **gate.row("row"))
        assert eventually(lambda: gate.has_run("row"))
        shutil.copytree(made[2], base / "2")
        assert eventually(lambda: client.version() == 2)
        assert eventually(lambda: client.status()[1].state == get_model_status_pb2.ModelVersionStatus.UNLOADING)
        gate.open()
        assert held.result(PATIENCE).model_spec.version.value == 1
        assert eventually(lambda: client.status()[1].state == get_model_status_pb2.ModelVersionStatus.END)
        assert available(client) == {2}


# What a caller may not name


def test_a_reload_reaches_nothing_outside_the_root(base, other_place):
    with serving(base, root=base.parent) as client:
        (base.parent / "link").symlink_to(other_place)
        for path in (other_place, base / ".." / ".." / "elsewhere", base.parent / "link", "/"):
            error = refused(lambda path=path: client.reload("other", path))
            assert error.code() == grpc.StatusCode.PERMISSION_DENIED and str(other_place) not in error.details()
        assert client.server.manager.names() == ["m"] and client.answers()
        client.reload("other", base)
        assert client.server.manager.names() == ["other"]


def test_without_a_root_a_reload_names_no_new_path(base, other_place):
    with serving(base) as client:
        assert refused(lambda: client.reload("other", other_place)).code() == grpc.StatusCode.PERMISSION_DENIED
        client.reload("m", base)
        assert client.answers()


def test_a_version_that_leads_out_of_the_root_is_not_read(base, other_place, monkeypatch):
    walked = []
    monkeypatch.setattr(
        Path, "rglob", lambda folder, pattern, rglob=Path.rglob: (walked.append(folder), rglob(folder, "*"))[1]
    )
    with serving(base, root=base.parent) as client:
        (base / "2").symlink_to(other_place / "1")
        assert eventually(lambda: 2 in client.status() and client.status()[2].status.error_message)
        assert client.status()[2].status.error_code == grpc.StatusCode.PERMISSION_DENIED.value[0]
        time.sleep(0.3)
        assert client.version() == 1
    assert {folder.name for folder in walked} == {"1"}


def test_a_name_that_is_no_name_is_refused(base):
    with serving(base, root=base.parent) as client:
        for name in ("../m", "..", ".", "m/../m", "", "m\n", "m%2e", "ä"):
            assert refused(lambda name=name: client.reload(name, base)).code() == grpc.StatusCode.INVALID_ARGUMENT, name
        assert client.server.manager.names() == ["m"] and client.answers()


def test_names_are_no_paths(base):
    with serving(base) as client:
        for name in ("../m", "./m", "m/1", "m\0", "M"):
            asked = request(x=[2.0])
            asked.model_spec.name = name
            assert refused(lambda asked=asked: client.predictions.Predict(asked)).code() == grpc.StatusCode.NOT_FOUND
        for path in ("/v1/models/..%2Fm:predict", "/v1/models/../models/m:predict", "/v1/models/m%2F1:predict"):
            assert client.rest(path=path)[0] in (400, 404)


def test_a_long_name_is_answered_with_its_own_error(base):
    with serving(base) as client:
        for character in ("x", "ä", "\U0001f600", "%", "\n"):
            asked = request(x=[2.0])
            asked.model_spec.name = character * 20_000
            error = refused(lambda asked=asked: client.predictions.Predict(asked))
            assert error.code() == grpc.StatusCode.NOT_FOUND, character
            assert "Servable not found" in error.details()


# Requests that mean no good

REFUSALS = {"INVALID_ARGUMENT", "NOT_FOUND", "FAILED_PRECONDITION", "UNIMPLEMENTED", "PERMISSION_DENIED", "OUT_OF_RANGE"}
METHODS = [
    "PredictionService/Predict",
    "PredictionService/Classify",
    "PredictionService/Regress",
    "PredictionService/MultiInference",
    "PredictionService/GetModelMetadata",
    "ModelService/GetModelStatus",
]
UNREADABLE = "Exception deserializing request!"


def mutated(chance: random.Random, sent: bytes) -> bytes:
    """With some bytes changed, taken out, doubled or cut off."""
    changed = bytearray(sent)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(changed) + 1)
        until = min(len(changed), at + chance.randint(1, 8))
        kind = chance.randrange(4)
        if kind == 0:
            changed[at:until] = chance.randbytes(until - at)
        elif kind == 1:
            del changed[at:until]
        elif kind == 2:
            changed[at:at] = changed[at:until]
        else:
            del changed[max(at, 1) :]
    return bytes(changed)


def odd_tensor(chance: random.Random) -> tensor_pb2.TensorProto:
    """A tensor that claims what it does not hold."""
    sizes = [0, 1, 2, 3, 7, -1, -2, 1000, 1 << 20, 1 << 31, 1 << 40, (1 << 63) - 1, -(1 << 63)]
    tensor = tensor_pb2.TensorProto(dtype=chance.choice([0, 1, 1, 1, 7, 7, *types_pb2.DataType.values(), 77]))
    for _ in range(chance.choice([0, 1, 1, 2, 3, 20, 300])):
        tensor.tensor_shape.dim.add(size=chance.choice(sizes))
    tensor.tensor_shape.unknown_rank = chance.random() < 0.05
    few = chance.randrange(4)
    tensor.float_val.extend([chance.random()] * few)
    tensor.string_val.extend([chance.randbytes(few)] * chance.randrange(3))
    tensor.int_val.extend([chance.randint(-(1 << 31), (1 << 31) - 1)] * chance.randrange(3))
    tensor.half_val.extend([chance.randint(0, 1 << 20)] * chance.randrange(3))
    if chance.random() < 0.3:
        tensor.tensor_content = chance.randbytes(chance.randrange(9))
    return tensor


def odd_request(chance: random.Random, good: list[message.Message]) -> bytes:
    kind = chance.randrange(4)
    if kind == 0:
        return chance.randbytes(chance.randrange(200))
    if kind == 1:
        return mutated(chance, chance.choice(good).SerializeToString())
    asked = predict_pb2.PredictRequest()
    asked.CopyFrom(chance.choice(good))
    asked.model_spec.signature_name = chance.choice([asked.model_spec.signature_name] * 5 + [TEXTS, SUMS, "none"])
    for name in list(asked.inputs):
        asked.inputs[name].CopyFrom(odd_tensor(chance))
    if chance.random() < 0.1:
        asked.output_filter.extend(chance.choices(["y", "upper", "length", "none", ""], k=2))
    return asked.SerializeToString()


def ask_oddly_by_grpc(client: Client, chance: random.Random, count: int) -> set[str]:
    """How they ended."""
    good = [request(x=[1.0, 2.0]), request(TEXTS, text=["one", "two"]), request(SUMS, x=[[1, 2], [3, 4]])]
    calls = [client.channel.unary_unary(f"/tensorflow.serving.{method}", bytes, bytes) for method in METHODS]
    ends = set()
    for _ in range(count):
        sent = odd_request(chance, good)
        try:
            chance.choice(calls[:1] * 5 + calls)(sent, timeout=PATIENCE)
            ends.add("OK")
        except grpc.RpcError as error:
            ends.add(UNREADABLE if UNREADABLE in error.details() else error.code().name)
    return ends


def odd_json(chance: random.Random) -> bytes:
    good = [
        b'{"instances": [1.0, 2.0]}',
        b'{"inputs": {"x": [1.0, 2.0]}}',
        b'{"signature_name": "texts", "instances": [{"text": "one"}, {"text": {"b64": "YWJj"}}]}',
        b'{"signature_name": "sums", "inputs": [[1, 2], [3, 4]]}',
        b'{"examples": [{"x": 1.0}]}',
    ]
    pieces = [b"[", b"]", b"{", b"}", b'"', b",", b":", b"1e999", b"-", b"NaN", b"null", b'"\\ud800"', b"\xff", b"9" * 400]
    kind = chance.randrange(3)
    if kind == 0:
        return mutated(chance, chance.choice(good))
    sent = chance.choice(good)
    at = chance.randrange(len(sent))
    if kind == 1:
        return sent[:at] + chance.choice(pieces) * chance.randint(1, 3) + sent[at:]
    return b"".join(chance.choices(pieces, k=chance.randrange(20)))


def ask_oddly_by_rest(client: Client, chance: random.Random, count: int) -> set[int]:
    paths = ["/v1/models/m", "/v1/models/m/metadata", "/v1/models/m:explain", "/v1/models/m/versions/x:predict", "/", "*",
             "/v1/models/m/versions/99999999999999999999:predict", "/v1/models//:predict", "/v1/models/%ff:predict",
             "/v1/models/m/labels/a%00b:predict", "/v1/models/m:predict?x=%zz", "/v2/models/m/infer", "//v1/models/m",
             "/v1/models/m:classify", "/v1/models/m:regress", "/v1/models/" + "m" * 5000]  # fmt: skip
    verbs = ["POST"] * 6 + ["GET", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "FOO"]
    ends = set()
    connection = http.client.HTTPConnection("127.0.0.1", client.server.rest_port, timeout=PATIENCE)
    with contextlib.closing(connection):
        for _ in range(count):
            path = ANSWERS if chance.random() < 0.7 else chance.choice(paths)
            verb = "POST" if path == ANSWERS else chance.choice(verbs)
            headers = {"content-encoding": "gzip"} if chance.random() < 0.02 else {}
            connection.request(verb, path, odd_json(chance), headers)
            response = connection.getresponse()
            body = response.read()
            ends.add(response.status)
            assert verb == "HEAD" or json.loads(body) is not None
    return ends


def send_broken_http(port: int, chance: random.Random, count: int) -> None:
    body = b'{"instances": [2.0]}'
    head = f"POST {ANSWERS} HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
    for _ in range(count):
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as plugged, contextlib.suppress(OSError):
            plugged.sendall(chance.choice([mutated(chance, head + body), mutated(chance, head), chance.randbytes(100)]))
            plugged.shutdown(socket.SHUT_WR)
            while plugged.recv(65536):
                pass


def test_ten_thousand_malformed_requests_are_refused_and_leave_nothing_behind(base, caplog):
    caplog.set_level("CRITICAL", "grpc")  # it logs each message that it cannot read
    chance, process = random.Random(2026), psutil.Process()
    with serving(base, batching=Batching(), limits=Limits(tensor_elements=100_000, slow_seconds=5)) as client:
        by_grpc, by_rest = ask_oddly_by_grpc(client, chance, 500), ask_oddly_by_rest(client, chance, 300)
        send_broken_http(client.server.rest_port, chance, 100)
        before = process.memory_info().rss
        by_grpc |= ask_oddly_by_grpc(client, chance, 5400)
        by_rest |= ask_oddly_by_rest(client, chance, 3200)
        send_broken_http(client.server.rest_port, chance, 300)
        send_broken_http(client.server.port, chance, 200)
        grown = process.memory_info().rss - before
        assert client.answers() and json.loads(client.rest()[1]) == {"predictions": [3.0]}
    assert by_grpc - {"OK", UNREADABLE} <= REFUSALS and by_grpc > {"OK", UNREADABLE, "INVALID_ARGUMENT", "NOT_FOUND"}
    assert by_rest == {200, 400, 404}
    assert grown < 200 * MEGABYTE
    assert [record.getMessage() for record in caplog.records if record.name.startswith("serving.embedded.")] == []


def test_a_few_bytes_ask_for_no_more_memory_than_the_limit(base):
    with serving(base) as client:
        before = psutil.Process().memory_info().rss
        for shape in ([1 << 40], [1 << 20, 1 << 20, 1 << 20], [(1 << 24) + 1], [0, 1 << 62], [-1], [1] * 300):
            asked = request(x=[2.0])
            del asked.inputs["x"].tensor_shape.dim[:]
            for size in shape:
                asked.inputs["x"].tensor_shape.dim.add(size=size)
            error = refused(lambda asked=asked: client.predictions.Predict(asked))
            assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert psutil.Process().memory_info().rss - before < 64 * MEGABYTE and client.answers()


def test_bodies_of_64_megabytes_are_refused(base):
    with serving(base) as client:
        asked = request(x=[2.0])
        asked.inputs["x"].tensor_content = bytes(64 * MEGABYTE)
        assert refused(lambda: client.predictions.Predict(asked)).code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        status, page = client.rest(body=b" " * (64 * MEGABYTE))
        assert status == 413 and "limit" in json.loads(page)["error"]
        assert client.answers()


def test_json_of_100_000_levels_is_refused(base):
    with serving(base) as client:
        for level in (b"[", b'{"a":', b'{"instances":[', b'[{"inputs":'):
            for body in (level * 100_000, b'{"instances": ' + level * 100_000):
                status, page = client.rest(body=body)
                assert status == 400 and json.loads(page)["error"], level
        assert client.rest()[0] == 200


def test_two_hundred_half_sent_requests_keep_nobody_waiting(base):
    with serving(base) as client, contextlib.ExitStack() as stack:
        for number in range(200):
            port = client.server.rest_port if number % 2 else client.server.port
            plugged = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE))
            plugged.sendall(
                f"POST {ANSWERS} HTTP/1.1\r\nHost: a\r\nContent-Le".encode() if number % 2 else b"PRI * HTTP/2.0"
            )
        for _ in range(20):
            assert client.answers() and client.rest()[0] == 200
        with grpc.insecure_channel(f"127.0.0.1:{client.server.port}") as another:
            assert Client(client.server, another).answers()


# Those who do not wait


@pytest.fixture(params=[None, Batching(max_batch_size=1)], ids=["one by one", "in batches"])
def busy(request, base, gate, monkeypatch) -> Iterator[Client]:
    """A server that runs as much as it will at a time, until the gate opens."""
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    rows = [f"busy-{number}" for number in range(1 if request.param else 2)]
    with serving(base, batching=request.param) as client:
        held = [client.later(HELD, **gate.row(row)) for row in rows]
        assert eventually(lambda: all(map(gate.has_run, rows)))
        yield client
        gate.open()
        assert all(future.result(PATIENCE) for future in held)


@pytest.mark.parametrize("deadline", [0.001, 0.5])
def test_a_request_whose_time_is_over_is_not_run(busy, gate, deadline):
    waiting = busy.later(HELD, timeout=deadline, **gate.row("late"))
    assert refused(waiting.result).code() == grpc.StatusCode.DEADLINE_EXCEEDED
    gate.open()
    assert busy.answers() and not gate.has_run("late")


def test_a_request_that_is_cancelled_is_not_run(busy, gate):
    waiting = busy.later(HELD, **gate.row("cancelled"))
    time.sleep(0.5)  # it is in the queue by then; if not, all the better for it
    assert waiting.cancel()
    time.sleep(0.5)
    gate.open()
    assert busy.answers() and not gate.has_run("cancelled")


def test_a_rest_client_that_hangs_up_is_not_run(busy, gate):
    row = {name: texts[0] for name, texts in gate.row("gone").items()}
    body = json.dumps({"signature_name": HELD, "instances": [row]}).encode()
    head = f"POST {ANSWERS} HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", busy.server.rest_port), timeout=PATIENCE) as plugged:
        plugged.sendall(head + body)
        time.sleep(0.5)
    time.sleep(0.5)
    gate.open()
    assert busy.answers() and not gate.has_run("gone")


def test_sigterm_ends_the_process_when_its_request_is_answered(base, gate):
    program = "import sys; from pipeline.cli import main; main(sys.argv[1:])"
    flags = ["serve", "--port=0", "--rest_api_port=0", "--model_name=m", f"--model_base_path={base}"]
    process = subprocess.Popen(
        [sys.executable, "-c", program, *flags],
        cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        said = []
        for line in process.stdout:
            said.append(line)
            if "gRPC on" in line:
                break
        assert said and "gRPC on" in said[-1], said
        with grpc.insecure_channel(said[-1].split()[-1]) as channel:
            stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            held = stub.Predict.future(request(HELD, **gate.row("row")), PATIENCE)
            assert eventually(lambda: gate.has_run("row"))
            process.send_signal(signal.SIGTERM)
            assert any("stopping" in line for line in process.stdout)
            assert process.poll() is None and not held.done()
            gate.open()
            assert held.result(PATIENCE).outputs["looks"].int_val
            assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


# TLS


def signed(name: str, by: tuple[bytes, bytes] | None = None) -> tuple[bytes, bytes]:
    """A key and its certificate in PEM: an authority's own, or signed by one."""
    key = ec.generate_private_key(ec.SECP256R1())
    who = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    issuer, signer = who, key
    if by:
        issuer = x509.load_pem_x509_certificate(by[1]).subject
        signer = serialization.load_pem_private_key(by[0], None)
    now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    made = x509.CertificateBuilder(issuer, who, key.public_key(), x509.random_serial_number(), now - day, now + day)
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = made.add_extension(x509.BasicConstraints(ca=by is None, path_length=None), critical=True)
    made = made.add_extension(names, critical=False)
    secret = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return secret, made.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def secured(server: Server, *credentials: bytes | None) -> grpc.Channel:
    return grpc.secure_channel(f"127.0.0.1:{server.port}", grpc.ssl_channel_credentials(*credentials))


def test_tls_over_grpc_shows_the_servers_certificate(base):
    authority = signed("authority")
    with serving(base, tls=Tls(*signed("localhost", authority))) as client:
        with secured(client.server, authority[1]) as channel:
            assert Client(client.server, channel).answers()
        for channel in (secured(client.server, signed("another")[1]), client.channel):
            with channel:
                error = refused(Client(client.server, channel).answers)
                assert error.code() == grpc.StatusCode.UNAVAILABLE


def test_mutual_tls_over_grpc_asks_for_a_certificate_of_the_clients_authority(base):
    authority, clients = signed("authority"), signed("clients")
    tls = Tls(*signed("localhost", authority), custom_ca=clients[1], client_verify=True)
    with serving(base, tls=tls) as client:
        with secured(client.server, authority[1], *signed("client", clients)) as channel:
            assert Client(client.server, channel).answers()
        for pair in ((), signed("client", authority), signed("client")):
            with secured(client.server, authority[1], *pair) as channel:
                assert refused(Client(client.server, channel).answers).code() == grpc.StatusCode.UNAVAILABLE


# Requests that are kept and asked again


def test_the_log_of_requests_warms_up_the_next_version(base, made, tmp_path):
    with serving(base, request_log=tmp_path / "log", request_log_rate=1.0) as client:
        expected = [client.predict(x=[2.0, 4.0]), client.predict(TEXTS, text=["one"])]
        assert client.rest()[0] == 200
        refused(lambda: client.predict("none", x=[1.0]))
    (path,) = (tmp_path / "log").iterdir()
    logs = [
        prediction_log_pb2.PredictionLog.FromString(record)
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator()
    ]
    assert [log.predict_log.response for log in logs[:2]] == expected and len(logs) == 3
    assert logs[0].predict_log.request == request(x=[2.0, 4.0])
    assert logs[0].log_metadata.sampling_config.sampling_rate == 1.0
    shutil.copytree(made[2], base / "2")
    (base / "2" / WARM_UP).parent.mkdir()
    shutil.copy(path, base / "2" / WARM_UP)
    with serving(base) as client:
        assert client.version() == 2


def warm_up(version: Path, *records: bytes) -> None:
    (version / WARM_UP).parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(version / WARM_UP)) as writer:
        for record in records:
            writer.write(record)


def logged(asked: predict_pb2.PredictRequest) -> bytes:
    return prediction_log_pb2.PredictionLog(predict_log={"request": asked}).SerializeToString()


def test_a_version_is_asked_its_own_requests_before_others_reach_it(base, gate):
    gate.open()
    warm_up(base / "1", logged(request(HELD, **gate.row("warmed"))))
    with serving(base) as client:
        assert gate.has_run("warmed") and client.answers()
        assert b'request_count{model_name="m",status="OK"} 1' in client.server.monitoring.render()


@pytest.mark.parametrize(
    "records",
    [
        [logged(request(x=[1.0]))] * 1001,
        [b"no log of a prediction"],
        [prediction_log_pb2.PredictionLog().SerializeToString()],
        [logged(request(NUMBERS, text=["none"]))],
        [logged(request("none", x=[1.0]))],
    ],
    ids=["more than 1000", "unreadable", "empty", "failing", "unknown signature"],
)
def test_a_version_whose_own_requests_fail_takes_no_others(base, made, tmp_path, records):
    shutil.copytree(made[2], tmp_path / "2")
    warm_up(tmp_path / "2", *records)
    os.rename(tmp_path / "2", base / "2")
    with serving(base) as client:
        assert refused(client.answers).code() == grpc.StatusCode.NOT_FOUND
        assert client.status()[2].status.error_message and client.rest()[0] == 404
    with serving(base, warm_up=False) as client:
        assert client.version() == 2


# Requests that share a run


@contextlib.contextmanager
def gathered(client: Client, gate: Gate, count: int) -> Iterator[None]:
    """The `count` requests that are asked inside wait, and run together when the gate opens."""
    held = client.later(HELD, **gate.row("held"))
    assert eventually(lambda: gate.has_run("held"))
    yield
    assert eventually(lambda: sum(map(len, list(client.server._runner._queues.values()))) == count)
    gate.open()
    held.result(PATIENCE)


def batches(client: Client) -> int:
    """How many have run."""
    lines = client.server.monitoring.render().decode().splitlines()
    return sum(int(line.split()[-1]) for line in lines if "processed_batch_size_v2{" in line)


def test_texts_of_all_lengths_get_in_a_batch_what_they_get_alone(base, gate):
    chance = random.Random(7)
    sent = [
        [
            "".join(chance.choices("abc äß\U0001f600", k=chance.choice([0, 1, 5, 50, 500])))
            for _ in range(chance.randint(1, 9))
        ]
        for _ in range(150)
    ]
    batching = Batching(max_batch_size=32, allowed_batch_sizes=(8, 32))
    with serving(base, batching=batching) as client:
        with gathered(client, gate, len(sent)):
            asked = [(texts, client.later(TEXTS, text=texts)) for texts in chance.sample(sent, len(sent))]
        together = [(texts, future.result(PATIENCE)) for texts, future in asked]
        assert batches(client) < 100
    with serving(base) as client:
        for texts, response in together:
            assert response == client.predict(TEXTS, text=texts)
            assert values(response, "length") == [len(text.encode()) for text in texts]


@pytest.mark.parametrize("pads", [False, True])
def test_rows_of_all_widths_get_in_a_batch_what_they_get_alone(base, gate, pads):
    chance = random.Random(8)
    sent = [[[chance.randint(0, 99) for _ in range(width)]] for width in chance.choices(range(1, 20), k=60)]
    with serving(base, batching=Batching(pad_variable_length_inputs=pads)) as client:
        with gathered(client, gate, len(sent)):
            asked = [(rows, client.later(SUMS, x=rows)) for rows in sent]
        assert [values(future.result(PATIENCE), "sum") for _, future in asked] == [[sum(rows[0])] for rows in sent]
        assert (batches(client) < 10) is pads


def test_a_request_that_spoils_a_batch_fails_alone(base, gate):
    texts = [str(number) for number in range(40)]
    texts[7] = texts[23] = "no number"
    with serving(base, batching=Batching()) as client:
        with gathered(client, gate, len(texts)):
            asked = [client.later(NUMBERS, text=[text]) for text in texts]
        for text, future in zip(texts, asked, strict=True):
            if text == "no number":
                assert refused(future.result).code() == grpc.StatusCode.INVALID_ARGUMENT
            else:
                assert values(future.result(PATIENCE), "number") == [float(text)]


def test_a_queue_that_is_full_refuses_and_goes_on(base, gate):
    with serving(base, batching=Batching(max_batch_size=1, max_enqueued_batches=2)) as client:
        with gathered(client, gate, 2):
            asked = [client.later(TEXTS, text=["a"]) for _ in range(10)]
            assert eventually(lambda: sum(future.done() for future in asked) == 8)
        codes = [future.code() for future in asked]
        assert sorted(map(str, codes)) == ["StatusCode.OK"] * 2 + ["StatusCode.UNAVAILABLE"] * 8
        assert client.answers()


def test_an_empty_request_harms_no_batch(base, gate):
    with serving(base, batching=Batching(allowed_batch_sizes=(8, 64))) as client:
        with gathered(client, gate, 4):
            others = [client.later(TEXTS, text=["a"]), client.later(TEXTS, text=["b"])]
            empty = client.later(TEXTS, text=np.zeros([0], "S1"))
            asked = [*others, client.later(TEXTS, text=["c"])]
        assert [values(future.result(PATIENCE), "upper") for future in asked] == [[b"A"], [b"B"], [b"C"]]
        assert empty.code() in (grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT)
