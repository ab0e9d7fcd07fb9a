"""The REST door: HTTP around `answer`, with bounds on what a stranger may send, hold and ask for."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
import zlib
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import uvicorn

from bertline.serving.embedded.errors import Call, RequestError
from bertline.serving.embedded.rest.api import Refused, Reply, Service, answer, refusal
from bertline.serving.embedded.rest.connections import IDLE_SECONDS, Connection, Listener, tls_context
from bertline.serving.embedded.rest.replies import error_reply
from bertline.serving.embedded.try_page.routes import Routes
from bertline.serving.settings import ServerSettings

__all__ = ["RestServer", "Reply", "Service", "answer"]

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

LINGER_SECONDS = 2.0
"""So long what a refused client still sends is taken and thrown away: a connection that closes on unread bytes is reset,
and the client would see that in place of the answer."""
_log = logging.getLogger(__name__)


class _TooLarge(Exception):
    """The body has more bytes than a message may have."""


class _Gone(Exception):
    """The client left before its request was whole."""


class RestServer:
    """REST on a port of its own, in a thread of its own."""

    def __init__(
        self,
        service: Service,
        settings: ServerSettings,
        render_metrics: Callable[[], bytes] | None = None,
        refused: Refused = lambda model, code, api: None,
        page: Routes | None = None,
    ) -> None:
        self._service, self._settings, self._render, self._refused = service, settings, render_metrics, refused
        self._page = page
        self._limits = settings.limits
        self._running = 0  # requests that are being answered; the event loop's thread alone counts
        self._pool: ThreadPoolExecutor | None = None
        self._listener: Listener | None = None
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self.port = settings.rest_api_port or 0
        """The true one, once the door is open."""

    def start(self) -> None:
        """Returns when it listens. What hinders it, as a port that is taken, is raised here."""
        settings = self._settings
        context = tls_context(settings.tls) if settings.tls else None
        family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
        listening = socket.create_server((settings.host, self.port), family=family)
        self.port = listening.getsockname()[1]
        config = uvicorn.Config(
            self,
            http=type("Connection", (Connection,), {"limits": self._limits}),
            ws="none",
            loop="asyncio",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            log_level="error",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=IDLE_SECONDS,
            ssl_context_factory=(lambda *_: context) if context else None,
        )
        self._pool = ThreadPoolExecutor(self._limits.concurrent_requests, thread_name_prefix="rest")
        self._listener = Listener(config, self._limits.slow_seconds)
        self._thread = threading.Thread(target=self._serve, args=(self._listener, listening), name="rest", daemon=True)
        self._thread.start()
        self._listener.is_up.wait()
        if self._failure:
            raise self._failure

    def stop(self, grace_seconds: float = 0.0) -> None:
        """No new connections; what is under way has `grace_seconds`, and is then answered with 503."""
        if not self._listener or not self._thread or not self._pool:
            return
        self._listener.config.timeout_graceful_shutdown = grace_seconds  # type: ignore[assignment]  # a float will do
        self._listener.should_exit = True
        self._thread.join()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _serve(self, listener: Listener, listening: socket.socket) -> None:
        try:
            listener.run(sockets=[listening])
        except BaseException as failure:
            self._failure = failure
            _log.exception("the REST server failed")
        finally:
            listening.close()
            listener.is_up.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, by ASGI."""
        close = False
        try:
            reply = await self._reply(scope, receive)
        except _Gone:
            return
        except _TooLarge:
            close = True
            size = self._limits.message_bytes
            reply = Reply(413, error_reply(f"The request has more than {size} bytes, which is the limit"))
        except asyncio.CancelledError:  # the time to drain is over
            close = True
            reply = refusal(RequestError("UNAVAILABLE", "The server is shutting down"))
        except Exception:
            _log.exception("%s %s", scope["method"], scope["path"])
            reply = Reply(500, error_reply("Internal error"))
        headers = {"content-type": reply.content_type, "content-length": str(len(reply.body)), **reply.headers}
        if close:
            headers["connection"] = "close"
        fields = [(name.encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": reply.status, "headers": fields})
        await send({"type": "http.response.body", "body": reply.body, "more_body": reply.status == 413})
        if reply.status == 413:
            await _discard(receive)
            await send({"type": "http.response.body", "body": b""})

    async def _reply(self, scope: Scope, receive: Receive) -> Reply:
        body = await self._body(scope, receive)
        if scope["method"] == "GET" and scope["path"] == self._settings.prometheus_path and self._render:
            page = await asyncio.get_running_loop().run_in_executor(None, self._render)
            return Reply(200, page, "text/plain; version=0.0.4; charset=utf-8")
        if self._running >= self._limits.concurrent_requests:
            return refusal(RequestError("RESOURCE_EXHAUSTED", "Too many requests are being answered; try again later"))
        self._running += 1
        try:
            return await self._answered(scope, receive, body)
        finally:
            self._running -= 1

    async def _answered(self, scope: Scope, receive: Receive, body: bytes) -> Reply:
        """In a thread; meanwhile it is noticed if the client leaves, and the thread may ask for it."""
        path, query = scope["raw_path"].decode(), scope["query_string"].decode()
        gone = threading.Event()
        of_page = self._page if self._page and self._page.has(scope["path"]) else None
        seconds = of_page.seconds if of_page else self._settings.rest_timeout_seconds
        call = Call(entrypoint="REST", deadline=time.monotonic() + seconds, is_cancelled=gone.is_set)
        run = asyncio.get_running_loop().run_in_executor
        if of_page:
            work = run(self._pool, of_page.answer, scope["method"], scope["path"], dict(scope["headers"]), body, call)
        else:
            asked = self._service, scope["method"], f"{path}?{query}" if query else path, body, call
            work = run(self._pool, answer, *asked, self._limits, self._refused)
        watch = asyncio.ensure_future(_watch(receive, gone))
        try:
            return await work
        finally:
            watch.cancel()
            gone.set()  # if nobody waits for the thread any more, it need not go on

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        headers = dict(scope["headers"])
        limit = self._limits.message_bytes
        if int(headers.get(b"content-length", 0)) > limit:
            raise _TooLarge
        parts: list[bytes] = []
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _Gone
            parts.append(message["body"])
            size, more = size + len(message["body"]), message["more_body"]
            if size > limit:
                raise _TooLarge
        body = b"".join(parts)
        return _unzipped(body, limit) if b"gzip" in headers.get(b"content-encoding", b"") else body


async def _watch(receive: Receive, gone: threading.Event) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    gone.set()


async def _discard(receive: Receive) -> None:
    try:
        async with asyncio.timeout(LINGER_SECONDS):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect" or not message["more_body"]:
                    return
    except TimeoutError:
        return


def _unzipped(body: bytes, limit: int) -> bytes:
    """As TensorFlow Serving takes it, and no further than the limit, whatever is folded up in it."""
    inflater = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        opened = inflater.decompress(body, limit + 1)
    except zlib.error:
        opened = b""
    if len(opened) > limit:
        raise _TooLarge
    return opened
