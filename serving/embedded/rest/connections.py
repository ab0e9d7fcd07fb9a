"""HTTP connections that give a slow or a silent client so much time and no more: uvicorn alone waits for ever.

The one place that goes by uvicorn's inside: its `H11Protocol`, with the state of a connection, and how its `Server` starts,
none of which is public. Known to work with uvicorn 0.54.0. After an upgrade `tests/unit/serving/test_private_uvicorn.py`
says what has changed; without it the REST API would not start, or would let a silent client keep its connection for ever.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import struct
import tempfile
import threading
from pathlib import Path
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol

from bertline.serving.embedded.rest.replies import error_reply
from bertline.serving.settings import Limits, Tls

CONNECTIONS_PER_REQUEST = 2
"""So many connections may be open for each request that may run: most are idle between two requests."""
IDLE_SECONDS = 5


class Connection(H11Protocol):
    """A request must have come whole within `slow_seconds`, and a reply that waits must be read on within as many."""

    limits: Limits

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._arrival: asyncio.TimerHandle | None = None
        self._departure: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # asyncio does it only for sockets that say TCP themselves; else each reply on a kept connection is 40 ms late.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if len(self.connections) > CONNECTIONS_PER_REQUEST * self.limits.concurrent_requests:
            transport.abort()
            return
        self._await_arrival()
        self._await_departure(0)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_awaiting()
        if self._departure:
            self._departure.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            self._await_arrival()
        else:
            self._stop_awaiting()

    def on_response_complete(self) -> None:
        self._stop_awaiting()  # an idle connection has uvicorn's own time
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY:  # the next request was sent at once, and not all of it
            self._await_arrival()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, msg)

    def _await_arrival(self) -> None:
        if self._arrival is None and not self.transport.is_closing():
            self._arrival = self.loop.call_later(self.limits.slow_seconds, self._refuse, 408, "The request came too slowly")

    def _stop_awaiting(self) -> None:
        if self._arrival:
            self._arrival.cancel()
            self._arrival = None

    def _await_departure(self, left: int) -> None:
        self._departure = self.loop.call_later(self.limits.slow_seconds, self._check_departure, left)

    def _check_departure(self, left: int) -> None:
        """A client that does not read holds the reply in memory, even after the connection was closed on our side."""
        size = self.transport.get_write_buffer_size()
        if size and size >= left > 0:
            at_once = struct.pack("ii", 1, 0)  # else the kernel keeps what it has of the reply, and waits on
            self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
            self.transport.abort()
        else:
            self._await_departure(size)

    def _refuse(self, status: int, message: str) -> None:
        """Answers, if nothing was answered yet, and closes."""
        self._stop_awaiting()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            body = error_reply(message)
            headers = {"content-type": "application/json", "content-length": str(len(body)), "connection": "close"}
            start = h11.Response(status_code=status, headers=list(headers.items()), reason=STATUS_PHRASES[status])
            for event in (start, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


class Listener(uvicorn.Server):
    """uvicorn's server on sockets that are bound already. Run it outside the main thread: there it leaves signals alone."""

    def __init__(self, config: uvicorn.Config, handshake_seconds: float) -> None:
        super().__init__(config)
        self._handshake_seconds = handshake_seconds
        self.is_up = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn's, with a bound on the TLS handshake, which it does not pass on."""
        await self.lifespan.startup()
        self.servers = [
            await asyncio.get_running_loop().create_server(
                self._connection,
                sock=listening,
                ssl=self.config.ssl,
                ssl_handshake_timeout=self._handshake_seconds if self.config.ssl else None,
                backlog=self.config.backlog,
            )
            for listening in sockets or []
        ]
        self.started = True
        self.is_up.set()

    def _connection(self) -> asyncio.Protocol:
        made: Any = self.config.http_protocol_class
        return made(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)


def tls_context(tls: Tls) -> ssl.SSLContext:
    """For a server that shows its certificate and, with `client_verify`, asks for the client's."""
    if tls.client_verify and not tls.custom_ca:
        raise ValueError("client_verify needs custom_ca, the authority that signs the clients' certificates")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    with tempfile.TemporaryDirectory(prefix="tls-") as folder:  # its mode is 0700; OpenSSL reads keys from files only
        key, chain = Path(folder, "key.pem"), Path(folder, "cert.pem")
        for path, text in ((key, tls.server_key), (chain, tls.server_cert)):
            with open(path, "wb", opener=lambda name, flags: os.open(name, flags | os.O_EXCL, 0o600)) as file:
                file.write(text)
        context.load_cert_chain(chain, key)
    if tls.custom_ca:
        context.load_verify_locations(cadata=tls.custom_ca.decode())
    if tls.client_verify:
        context.verify_mode = ssl.CERT_REQUIRED
    return context
