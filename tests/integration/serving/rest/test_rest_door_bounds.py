"""The REST door's bounds: clients that send too much, too slowly, or leave."""

import gzip
import select
import socket
import threading
import tracemalloc
from dataclasses import replace

import pytest
from rest_client import LIMITS, PREDICT, Echo, ask, message, opened, plugged, rest_of, still_answers

from bertline.serving.embedded.errors import Call
from bertline.serving.embedded.rest import server as rest
from bertline.serving.settings import Limits


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
        tracemalloc.start()  # in all threads of this process
        try:
            assert ask(door, body=folded, **{"Content-Encoding": "gzip"})[0] == 413
            assert tracemalloc.get_traced_memory()[1] < 10_000_000  # it was opened no further than the limit
        finally:
            tracemalloc.stop()


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
