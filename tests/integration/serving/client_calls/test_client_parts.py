"""Calls of many rows: asked in parts, answered in order, by one version, and given up together."""

from __future__ import annotations

import asyncio
import threading

import grpc
import pytest
import tensorflow as tf
from shouting_server import LONG, MODEL, both

from bertline.serving.client import connection
from bertline.serving.client.sync import AsyncClient, Client, ServingError


@both
def test_many_rows_are_asked_in_parts_and_answered_in_their_order(shouts, address, make):
    texts = ["x" * (number % 17) for number in range(200)]
    found = make(address, MODEL, timeout=LONG).regress(texts)
    assert [one.value for one in found] == [len(text) for text in texts]
    assert sorted(shouts.sizes) == [8, 64, 64, 64]


@both
def test_several_parts_are_under_way_together_and_no_more_than_said(shouts, address, make):
    together = threading.Barrier(3)
    under_way, most = [], []

    def before(request, context):
        with shouts.lock:
            under_way.append(request)
            most.append(len(under_way))
        together.wait(LONG)  # none is answered before three have come
        with shouts.lock:
            under_way.pop()

    shouts.before = before
    make(address, MODEL, timeout=LONG, max_batch=1, at_once=3).regress(["a"] * 6)
    assert max(most) == 3


@both
def test_rows_of_a_call_are_all_answered_by_one_version(shouts, address, make):
    asked = iter(range(100))

    def before(request, context):
        shouts.version = 3 if next(asked) == 0 else 4  # a new one takes over after the first part

    shouts.before = before
    found = make(address, MODEL, timeout=LONG, max_batch=1, at_once=1).regress(["a", "b", "c"])
    assert [one.version for one in found] == [4, 4, 4] and len(shouts.sizes) == 6


@both
def test_versions_that_answer_in_turns_are_told(shouts, address, make):
    turns = iter(range(100))
    shouts.before = lambda request, context: setattr(shouts, "version", next(turns))
    with pytest.raises(ServingError, match="two versions responded to parts of one request") as failed:
        make(address, MODEL, timeout=LONG, max_batch=1, at_once=1).regress(["a", "b"])
    assert failed.value.code == "ABORTED" and len(shouts.sizes) == 2 * connection.ROUNDS


@both
def test_the_first_part_that_fails_gives_up_the_others(shouts, address, make):
    ended = threading.Event()
    begun = threading.Event()

    def before(request, context):
        if tf.make_ndarray(request.inputs["text"])[0] == b"bad":
            begun.wait(LONG)
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "a bad row")
        context.add_callback(ended.set)
        begun.set()
        ended.wait(LONG)

    shouts.before = before
    with pytest.raises(ServingError, match="a bad row"):
        make(address, MODEL, timeout=2 * LONG, max_batch=1).regress(["good", "bad"])
    assert ended.wait(LONG)  # the server was told, long before the deadline


def test_a_task_that_is_cancelled_cancels_its_request(shouts, address):
    begun, ended = threading.Event(), threading.Event()

    def before(request, context):
        context.add_callback(ended.set)
        begun.set()
        ended.wait(LONG)

    shouts.before = before

    async def cancelled():
        async with AsyncClient(address, MODEL, timeout=2 * LONG) as client:
            task = asyncio.ensure_future(client.regress("abc"))
            await asyncio.to_thread(begun.wait, LONG)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await asyncio.to_thread(ended.wait, LONG)

    asyncio.run(cancelled())


def test_an_interrupted_call_cancels_its_request(shouts, address, monkeypatch):
    begun, ended = threading.Event(), threading.Event()

    def before(request, context):
        context.add_callback(ended.set)
        begun.set()
        ended.wait(LONG)

    shouts.before = before
    client = Client(address, MODEL, timeout=2 * LONG)
    asked = client._stubs["Predict"].future

    class Interrupted:
        """What a call is to one who presses Ctrl-C."""

        def __init__(self, call):
            self.cancel = call.cancel

        def result(self):
            assert begun.wait(LONG)
            raise KeyboardInterrupt

    stub = type("Stub", (), {"future": staticmethod(lambda *given, **options: Interrupted(asked(*given, **options)))})
    monkeypatch.setitem(client._stubs, "Predict", stub)
    with pytest.raises(KeyboardInterrupt):
        client.regress("abc")
    assert ended.wait(LONG)  # long before the deadline
