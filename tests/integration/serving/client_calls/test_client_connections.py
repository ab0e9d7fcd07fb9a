"""What is not there, not up yet, too large, or behind TLS."""

from __future__ import annotations

from concurrent import futures

import pytest
from certificates import signed
from shouting_server import LONG, MODEL, Shouts, both, listening, server_credentials

from bertline.serving.client.sync import ClientTls, ServingError


@both
def test_what_is_not_there_is_told_with_what_is(shouts, address, make):
    with pytest.raises(ServingError, match="model quiet: the server has no such model") as failed:
        make(address, "quiet").regress("a")
    assert failed.value.code == "NOT_FOUND"
    with pytest.raises(ServingError, match="loud version 7: no such version .*it has 3, 4"):
        make(address, MODEL, version=7).regress("a")


@both
def test_a_port_where_nothing_listens_is_told_as_such(make):
    with listening(Shouts()) as gone:
        pass
    with pytest.raises(ServingError, match=f"{gone}, model loud: no server responds .*start the server"):
        make(gone, MODEL, retries=1).status()


@both
def test_a_server_that_is_not_up_yet_can_be_waited_for(shouts, make):
    with listening(shouts) as where:
        pass
    with futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lambda: make(where, MODEL, timeout=LONG, wait_for_ready=True).regress("abc"))
        with listening(shouts, port=int(where.rpartition(":")[2])):
            assert waiting.result()[0].value == 3


@both
def test_a_reply_above_the_bound_is_refused(shouts, address, make):
    shouts.filling = b"x" * 20_000
    assert make(address, MODEL).predict({"text": ["a"]}).outputs["filling"].tolist() == [shouts.filling]
    with pytest.raises(ServingError, match="too large .*max_message_bytes") as failed:
        make(address, MODEL, max_message_bytes=10_000).predict({"text": ["a"]})
    assert failed.value.code == "RESOURCE_EXHAUSTED"


@both
def test_a_secure_server_is_asked_by_whom_it_knows(shouts, files, make):
    ca = str(files / "ca.pem")
    known = ClientTls.read(ca=ca, cert=str(files / "client.pem"), key=str(files / "client.key"))
    with listening(shouts, server_credentials(files, mutual=False)) as where:
        assert make(where, MODEL, tls=ClientTls.read(ca=ca)).regress("abc")[0].value == 3
        for stranger in (ClientTls(ca=signed("other")[1]), None):
            with pytest.raises(ServingError) as failed:
                make(where, MODEL, tls=stranger, retries=0).regress("abc")
            assert failed.value.code == "UNAVAILABLE"
    with listening(shouts, server_credentials(files, mutual=True)) as where:
        assert make(where, MODEL, tls=known).regress("abc")[0].value == 3
        with pytest.raises(ServingError):
            make(where, MODEL, tls=ClientTls.read(ca=ca), retries=0).regress("abc")
    assert len(shouts.sizes) == 2
