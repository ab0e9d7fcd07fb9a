"""Answers, retries and deadlines of a call, over real connections."""

from __future__ import annotations

import threading

import grpc
import pytest
from shouting_server import LONG, MODEL, both, fails

from bertline.serving.client.sync import ServingError


@both
def test_an_answer_carries_the_version_that_gave_it(shouts, address, make):
    client = make(address, MODEL)
    found = client.predict({"text": ["ab", "é", b"\xff\0\0"]})
    assert found.outputs["value"].tolist() == [2, 2, 3] and found.version == 4
    assert [(one.value, one.version) for one in client.regress("one text")] == [(8, 4)]
    assert client.regress([]) == []
    assert [(status.version, status.state) for status in client.status()] == [(3, "AVAILABLE"), (4, "AVAILABLE")]
    assert client.metadata().version == 4 and list(client.metadata().signatures) == ["serving_default"]


@both
def test_what_is_unavailable_is_asked_again_until_it_answers(shouts, address, make):
    shouts.before = fails(3)
    assert make(address, MODEL, timeout=LONG).regress("abc")[0].value == 3
    assert len(shouts.sizes) == 4


@both
def test_it_is_asked_again_no_more_often_than_said(shouts, address, make):
    shouts.before = fails(100)
    with pytest.raises(ServingError, match="overloaded .*queue.*try again later") as failed:
        make(address, MODEL, timeout=LONG, retries=2).regress("abc")
    assert failed.value.code == "UNAVAILABLE" and len(shouts.sizes) == 3


@both
@pytest.mark.parametrize("code", ["INVALID_ARGUMENT", "INTERNAL", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED"])
def test_no_other_failure_is_asked_again(shouts, address, make, code):
    shouts.before = fails(1, grpc.StatusCode[code], "no")
    with pytest.raises(ServingError) as failed:
        make(address, MODEL).regress("abc")
    assert failed.value.code == code and len(shouts.sizes) == 1


@both
def test_retries_end_with_the_deadline_of_the_whole_call(shouts, address, make):
    shouts.before = fails(10_000)
    with pytest.raises(ServingError) as failed:
        make(address, MODEL, timeout=0.5, retries=10_000).regress("abc")
    assert failed.value.code in ("UNAVAILABLE", "DEADLINE_EXCEEDED")
    assert shouts.left == sorted(shouts.left, reverse=True) and max(shouts.left) <= 0.5  # each was told what is left


@both
def test_a_call_ends_at_its_deadline_and_the_server_is_told(shouts, address, make):
    ended = threading.Event()

    def before(request, context):
        context.add_callback(ended.set)
        ended.wait(LONG)

    shouts.before = before
    with pytest.raises(ServingError, match=r"no response within 0\.2 s .*allow more time") as failed:
        make(address, MODEL).regress("abc", timeout=0.2)
    assert failed.value.code == "DEADLINE_EXCEEDED" and ended.wait(LONG)
