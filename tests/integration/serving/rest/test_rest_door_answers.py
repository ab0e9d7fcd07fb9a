"""The REST door on loopback: what is answered, and in which form."""

import gzip
import http.client
import json
import threading

import pytest
from rest_client import PREDICT, SETTINGS, Echo, ask, closed, message, opened, plugged, rest_of, still_answers

from bertline.serving.embedded.errors import Call


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
