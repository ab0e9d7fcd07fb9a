"""The REST door on loopback: real sockets, real TLS, and clients that mean it no good."""

import datetime
import gzip
import http.client
import ipaddress
import json
import os
import select
import socket
import ssl
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
import tensorflow as tf
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import predict_pb2
from tensorflow_serving.config import model_server_config_pb2

from serving.embedded import rest
from serving.embedded.batching import OneByOne
from serving.embedded.errors import Call
from serving.embedded.manager import Manager
from serving.embedded.monitoring import Monitoring
from serving.embedded.rest import Door
from serving.embedded.service import Service
from serving.settings import Limits, ServerSettings, Tls

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
def opened(service=None, limits: Limits = LIMITS, render=None, **settings) -> Iterator[Door]:
    door = Door(service or Echo(), replace(SETTINGS, limits=limits, **settings), render)
    door.start()
    try:
        yield door
    finally:
        door.stop(10)


def ask(door: Door, method: str = "POST", path: str = PREDICT, body=b'{"instances": ["a"]}', **headers: str):
    """The status and the document of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", door.port, timeout=60)
    connection.request(method, path, body, headers)
    response = connection.getresponse()
    assert response.headers["content-type"] == "application/json"
    return response.status, json.loads(response.read())


def plugged(door: Door) -> socket.socket:
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


def still_answers(door: Door) -> bool:
    return ask(door) == (200, {"predictions": ["a"]})


# Answers


def test_requests_are_answered_one_after_the_other_on_a_connection():
    with opened() as door:
        connection = http.client.HTTPConnection("127.0.0.1", door.port, timeout=60)
        for text in ("a", "b", "zwölf"):
            connection.request("POST", PREDICT, json.dumps({"instances": [text]}).encode())
            response = connection.getresponse()
            assert (response.status, json.loads(response.read())) == (200, {"predictions": [text]})
            assert "server" not in response.headers


def test_requests_sent_at_once_are_answered_in_their_order():
    with opened() as door, plugged(door) as client:
        client.sendall(
            message(b'{"instances": ["1"]}') + message(b'{"instances": ["2"]}') + closed(b'{"instances": ["3"]}')
        )
        answers = rest_of(client)
    assert answers.count(b"HTTP/1.1 200") == 3
    assert answers.index(b'["1"') < answers.index(b'["2"') < answers.index(b'["3"')


def test_many_clients_are_answered_at_a_time():
    meeting = threading.Barrier(8)  # nobody is answered before all are asked
    with opened(Echo(lambda call: meeting.wait(60) and None)) as door:
        found = []
        threads = [threading.Thread(target=lambda: found.append(ask(door))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [(200, {"predictions": ["a"]})] * 8


def test_a_body_in_chunks_or_compressed_is_read():
    with opened() as door:
        body = b'{"instances": ["a", "b"]}'
        assert ask(door, body=iter([body[:5], body[5:]])) == (200, {"predictions": ["a", "b"]})
        assert ask(door, body=gzip.compress(body), **{"Content-Encoding": "gzip"}) == (200, {"predictions": ["a", "b"]})
        status, said = ask(door, body=body, **{"Content-Encoding": "gzip"})
        assert (status, said) == (400, {"error": "JSON Parse error: The document is empty"})


def test_errors_are_json_with_their_status():
    with opened() as door:
        assert ask(door, path="/v1/foo") == (400, {"error": "Malformed request: POST /v1/foo"})
        assert ask(door, path="/v1/models/m:predict?a=1")[1] == {
            "error": "Malformed request: POST /v1/models/m:predict?a=1"
        }
        assert ask(door, "GET", "/")[0] == 404
        assert ask(door, body=b'{"instances": ' + b"[" * 1_000_000)[0] == 400
        assert still_answers(door)


def test_a_fault_of_ours_shows_no_trace(caplog):
    def fail(call: Call) -> None:
        raise ZeroDivisionError("secret")

    def render() -> bytes:
        raise ZeroDivisionError("as secret")

    with opened(Echo(fail), render=render) as door:
        assert ask(door) == (500, {"error": "Internal error"})
        assert ask(door, "GET", SETTINGS.prometheus_path) == (500, {"error": "Internal error"})
    assert "as secret" in caplog.text


@pytest.mark.parametrize("sent", [b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n"])
def test_what_is_no_http_is_refused(sent):
    with opened() as door:
        with plugged(door) as client:
            client.sendall(sent)
            answered = rest_of(client)
        assert answered.startswith(b"HTTP/1.1 400")
        assert json.loads(answered.partition(b"\r\n\r\n")[2]) == {"error": "Invalid HTTP request received."}
        assert still_answers(door)


def test_metrics_are_served_where_the_settings_say():
    with opened(render=lambda: b"x 1\n", prometheus_path="/metrics") as door:
        connection = http.client.HTTPConnection("127.0.0.1", door.port, timeout=60)
        connection.request("GET", "/metrics?a=1")
        response = connection.getresponse()
        assert (response.status, response.read()) == (200, b"x 1\n")
        assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
        assert ask(door, "GET", SETTINGS.prometheus_path)[0] == 404
    with opened(render=lambda: b"x 1\n", prometheus_path=None) as door:
        assert ask(door, "GET", SETTINGS.prometheus_path)[0] == 404


# Bounds


def test_a_body_that_says_it_is_too_large_is_refused_unread():
    with opened(limits=replace(LIMITS, message_bytes=1000)) as door:
        with plugged(door) as client:
            client.sendall(f"POST {PREDICT} HTTP/1.1\r\nHost: here\r\nContent-Length: 1001\r\n\r\n".encode())
            status, _, rest = client.recv(65536).partition(b"\r\n")
        assert status == b"HTTP/1.1 413 Request Entity Too Large"
        assert b"connection: close" in rest
        assert still_answers(door)


def test_a_client_that_is_told_to_wait_never_sends_the_large_body():
    with opened(limits=replace(LIMITS, message_bytes=1000)) as door, plugged(door) as client:
        head = f"POST {PREDICT} HTTP/1.1\r\nHost: here\r\nExpect: 100-continue\r\nContent-Length: 5000000\r\n\r\n"
        client.sendall(head.encode())
        assert client.recv(65536).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize("as_chunks", [False, True])
def test_a_body_that_is_too_large_is_answered_and_not_reset(as_chunks):
    """The client sends it all before it reads."""
    with opened(limits=replace(LIMITS, message_bytes=100_000)) as door:
        body = b'{"instances": ["' + b"a" * 3_000_000 + b'"]}'
        status, said = ask(
            door, body=iter([body[i : i + 65536] for i in range(0, len(body), 65536)]) if as_chunks else body
        )
        assert (status, said) == (413, {"error": "The request has more than 100000 bytes, which is the limit"})
        assert still_answers(door)


def test_a_body_that_grows_too_large_when_opened_is_refused():
    with opened(limits=replace(LIMITS, message_bytes=100_000)) as door:
        folded = gzip.compress(b'{"instances": ["' + b"a" * 50_000_000 + b'"]}')
        assert len(folded) < 100_000
        assert ask(door, body=folded, **{"Content-Encoding": "gzip"})[0] == 413


def test_a_body_that_is_longer_than_it_says_is_no_part_of_the_request():
    with opened() as door, plugged(door) as client:
        client.sendall(message() + b"more than was said\r\n\r\n")
        answered = rest_of(client)
        assert answered.startswith(b"HTTP/1.1 200")
        assert b"HTTP/1.1 400" in answered


def test_a_client_that_leaves_in_the_midst_of_its_body_harms_nobody():
    with opened() as door:
        with plugged(door) as client:
            client.sendall(message()[:-5])
        assert still_answers(door)


@pytest.mark.parametrize("sent", [b"", b"POST /v1/mod", message()[:-30], message()[:-5], message() + message()[:-5]])
def test_a_request_that_is_not_whole_in_time_is_given_up(sent):
    with opened(limits=Limits(slow_seconds=0.5)) as door:
        with plugged(door) as client:
            client.sendall(sent)
            answered = rest_of(client)
        assert b"HTTP/1.1 408" in answered
        assert b"The request came too slowly" in answered
        assert still_answers(door)


@pytest.mark.parametrize("start", [b"POST / HTTP/1.1\r\nX: ", message()[:-20].replace(b"Length: 20", b"Length: 100000")])
def test_a_byte_now_and_then_buys_no_time(start):
    with opened(limits=Limits(slow_seconds=0.5)) as door, plugged(door) as client:
        client.sendall(start)
        client.settimeout(0.05)
        answered = b""
        while not answered:
            client.send(b"a")
            try:
                answered = client.recv(65536)
            except TimeoutError:
                continue
        assert answered.startswith(b"HTTP/1.1 408")


def test_a_connection_without_requests_is_closed_after_a_while(monkeypatch):
    monkeypatch.setattr(rest, "IDLE_SECONDS", 1)
    with opened() as door, plugged(door) as client:
        client.sendall(message())
        assert rest_of(client).startswith(b"HTTP/1.1 200")


def test_a_client_that_does_not_read_its_answer_is_cut_off():
    with opened(limits=Limits(slow_seconds=0.5)) as door:
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", door.port))
            client.sendall(message(b'{"instances": ["' + b"a" * 20_000_000 + b'"]}'))
            watched = select.poll()
            watched.register(client, select.POLLHUP)
            watched.poll()  # until it is reset
        assert still_answers(door)


def test_requests_beyond_the_limit_are_refused_and_those_within_it_answered():
    entered, go_on = threading.Event(), threading.Event()

    def wait(call: Call) -> None:
        entered.set()
        go_on.wait(60)

    with opened(Echo(wait), replace(LIMITS, concurrent_requests=1), render=lambda: b"x 1\n") as door:
        found = []
        thread = threading.Thread(target=lambda: found.append(ask(door)))
        thread.start()
        entered.wait(60)
        status, said = ask(door)
        assert (status, said) == (429, {"error": "Too many requests are being answered; try again later"})
        go_on.set()
        thread.join()
        assert found == [(200, {"predictions": ["a"]})]
        assert still_answers(door)


def test_connections_beyond_the_limit_are_closed():
    with opened(limits=replace(LIMITS, concurrent_requests=1)) as door:
        held = [plugged(door) for _ in range(2)]
        for client in held:
            client.sendall(b"POST ")
        with plugged(door) as client, pytest.raises(ConnectionError):
            client.sendall(message())
            if not client.recv(65536):
                raise ConnectionResetError
        for client in held:
            client.close()


def test_the_work_learns_that_its_client_has_left():
    entered, learned = threading.Event(), threading.Event()

    def work(call: Call) -> None:
        entered.set()
        while not call.is_cancelled():
            learned.wait(0.01)
        learned.set()

    with opened(Echo(work)) as door:
        with plugged(door) as client:
            client.sendall(message())
            assert entered.wait(60)
        assert learned.wait(60)


def test_the_work_of_a_patient_client_is_not_cancelled():
    seen = []
    with opened(Echo(lambda call: seen.append((call.entrypoint, call.is_cancelled())))) as door:
        assert still_answers(door)
    assert seen == [("REST", False)]


# Opening and closing


def test_a_port_that_is_taken_is_said_at_the_start():
    with opened() as door:
        second = Door(Echo(), replace(SETTINGS, rest_api_port=door.port))
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


# TLS


class Authority:
    """Signs certificates for tests."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "authority")])
        self.cert = self._signed(self._name, self._key, is_authority=True)

    def issue(self, name: str) -> tuple[bytes, bytes]:
        """A key and its certificate."""
        key = ec.generate_private_key(ec.SECP256R1())
        cert = self._signed(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]), key, is_authority=False)
        form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        return key.private_bytes(*form), cert

    def _signed(self, name: x509.Name, key: ec.EllipticCurvePrivateKey, is_authority: bool) -> bytes:
        now = datetime.datetime.now(datetime.UTC)
        day = datetime.timedelta(days=1)
        made = (
            x509.CertificateBuilder(self._name, name, key.public_key(), x509.random_serial_number(), now - day, now + day)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        )
        return made.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def ask_over_tls(door: Door, authority: Authority, client: tuple[bytes, bytes] | None = None, folder=None) -> int:
    context = ssl.create_default_context(cadata=authority.cert.decode())
    if client:
        for name, text in zip(("key", "cert"), client, strict=True):
            (folder / name).write_bytes(text)
        context.load_cert_chain(folder / "cert", folder / "key")
    connection = http.client.HTTPSConnection("127.0.0.1", door.port, context=context, timeout=60)
    connection.request("POST", PREDICT, b'{"instances": ["a"]}')
    return connection.getresponse().status


def test_tls_shows_the_servers_certificate_and_leaves_no_key_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    authority = Authority()
    key, cert = authority.issue("server")
    with opened(tls=Tls(key, cert)) as door:
        assert os.listdir(tmp_path) == []
        assert ask_over_tls(door, authority) == 200
        with pytest.raises(ssl.SSLCertVerificationError):
            ask_over_tls(door, Authority())
        with plugged(door) as client:
            client.sendall(message())
            assert b"200" not in rest_of(client)


def test_mutual_tls_asks_for_a_certificate_of_the_clients_authority(tmp_path):
    authority, clients, strangers = Authority(), Authority(), Authority()
    key, cert = authority.issue("server")
    with opened(tls=Tls(key, cert, custom_ca=clients.cert, client_verify=True)) as door:
        assert ask_over_tls(door, authority, clients.issue("client"), tmp_path) == 200
        for client in (None, strangers.issue("client")):
            with pytest.raises((ssl.SSLError, ConnectionError)):
                ask_over_tls(door, authority, client, tmp_path)


def test_a_handshake_that_does_not_come_is_given_up():
    key, cert = Authority().issue("server")
    with opened(limits=Limits(slow_seconds=0.5), tls=Tls(key, cert)) as door, plugged(door) as client:
        assert rest_of(client) == b""


def test_keys_that_are_none_are_said_at_the_start():
    key, cert = Authority().issue("server")
    for tls, kind in [(Tls(b"", cert), ssl.SSLError), (Tls(key, cert, client_verify=True), ValueError)]:
        with pytest.raises(kind):
            Door(Echo(), replace(SETTINGS, tls=tls)).start()


# The service itself


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
