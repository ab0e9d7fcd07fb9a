"""TLS at the REST door."""

import http.client
import os
import ssl
import tempfile
from dataclasses import replace

import pytest
from certificates import signed
from rest_client import PREDICT, SETTINGS, Echo, message, opened, plugged, rest_of

from bertline.serving.embedded.rest.server import RestServer
from bertline.serving.settings import Limits, Tls

Signed = tuple[bytes, bytes]


def ask_over_tls(door: RestServer, authority: Signed, client: Signed | None = None, folder=None) -> int:
    context = ssl.create_default_context(cadata=authority[1].decode())
    if client:
        for name, text in zip(("key", "cert"), client, strict=True):
            (folder / name).write_bytes(text)
        context.load_cert_chain(folder / "cert", folder / "key")
    connection = http.client.HTTPSConnection("127.0.0.1", door.port, context=context, timeout=60)
    connection.request("POST", PREDICT, b'{"instances": ["a"]}')
    return connection.getresponse().status


def test_tls_shows_the_servers_certificate_and_leaves_no_key_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    authority = signed("authority")
    key, cert = signed("server", authority)
    with opened(tls=Tls(key, cert)) as door:
        assert os.listdir(tmp_path) == []
        assert ask_over_tls(door, authority) == 200
        with pytest.raises(ssl.SSLCertVerificationError):
            ask_over_tls(door, signed("another"))
        with plugged(door) as client:
            client.sendall(message())
            assert b"200" not in rest_of(client)


def test_mutual_tls_asks_for_a_certificate_of_the_clients_authority(tmp_path):
    authority, clients, strangers = signed("authority"), signed("clients"), signed("strangers")
    key, cert = signed("server", authority)
    with opened(tls=Tls(key, cert, custom_ca=clients[1], client_verify=True)) as door:
        assert ask_over_tls(door, authority, signed("client", clients), tmp_path) == 200
        for client in (None, signed("client", strangers)):
            with pytest.raises((ssl.SSLError, ConnectionError)):
                ask_over_tls(door, authority, client, tmp_path)


def test_a_handshake_that_does_not_come_is_given_up():
    key, cert = signed("server")
    with opened(limits=Limits(slow_seconds=0.5), tls=Tls(key, cert)) as door, plugged(door) as client:
        assert rest_of(client) == b""


def test_keys_that_are_none_are_said_at_the_start():
    key, cert = signed("server")
    for tls, kind in [(Tls(b"", cert), ssl.SSLError), (Tls(key, cert, client_verify=True), ValueError)]:
        with pytest.raises(kind):
            RestServer(Echo(), replace(SETTINGS, tls=tls)).start()
