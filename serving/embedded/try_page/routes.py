"""The paths of the page, and who may ask them.

A browser runs the scripts of every site that its user visits, and these can send requests to a server on this machine. So
where the server listens on this machine alone, it answers only to a name of this machine (a site that lets its own name
lead here, by DNS rebinding, asks under that name), and it explains answers for its own page alone.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bertline.serving.embedded.errors import Call, RequestError
from bertline.serving.embedded.lifecycle.manager import Manager
from bertline.serving.embedded.rest.api import Reply, refusal
from bertline.serving.embedded.rest.replies import error_reply
from bertline.serving.embedded.try_page.explainer import Explaining
from bertline.serving.embedded.try_page.models import known_models
from bertline.serving.launch.ports import is_loopback
from bertline.serving.settings import TryPage

PREFIX = "/page/"
MODELS, EXPLAIN = f"{PREFIX}models", f"{PREFIX}explain"
FILES = {
    "page.html": "text/html; charset=utf-8",
    "page.css": "text/css; charset=utf-8",
    **{
        name: "text/javascript; charset=utf-8"
        for name in ("page.js", "asking.js", "dom.js", "forms.js", "answers.js", "many.js", "tables.js", "why.js")
    },
}
HEADERS = {
    # Own files and own answers only: no other host, no script or style inside the page, no frame around it.
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none';"
        " form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
MAX_BYTES = 1 << 20
"""Of a question to explain; its texts have 100,000 characters at most, which the explainer counts."""
_HERE = Path(__file__).parent
_log = logging.getLogger(__name__)

Headers = Mapping[bytes, bytes]


class Routes:
    """
    Args:
      host: the address that the server listens on.
    """

    def __init__(self, manager: Manager, settings: TryPage, host: str) -> None:
        self._manager, self._is_local = manager, is_loopback(host)
        self.seconds = settings.explain_seconds
        """So long an answer may take."""
        self._explaining = Explaining(settings) if settings.explainer else None

    def has(self, path: str) -> bool:
        return path == "/" or path.startswith(PREFIX)

    def answer(self, method: str, path: str, headers: Headers, body: bytes, call: Call) -> Reply:
        """The reply to one request, with what a browser must be told."""
        try:
            reply = self._answered(method, path, headers, body, call)
        except RequestError as error:
            reply = refusal(error)
        except Exception:
            _log.exception("%s %s", method, path)
            reply = Reply(500, error_reply("Internal error"))
        return reply._replace(headers=HEADERS)

    def stop(self) -> None:
        if self._explaining:
            self._explaining.stop()

    def _answered(self, method: str, path: str, headers: Headers, body: bytes, call: Call) -> Reply:
        if self._is_local and not is_loopback(_host_name(headers)):
            raise RequestError(
                "PERMISSION_DENIED", "This page is for this machine alone: open it under the name localhost or 127.0.0.1."
            )
        name = "page.html" if path == "/" else path.removeprefix(PREFIX)
        answers: dict[str, tuple[str, Callable[[], Reply]]] = {
            MODELS: ("GET", lambda: _json({"models": known_models(self._manager, with_examples=self._is_local)})),
            EXPLAIN: ("POST", lambda: self._explained(headers, body, call)),
        }
        if name in FILES and path != f"{PREFIX}page.html":
            answers[path] = "GET", lambda: Reply(200, _file(name), FILES[name])
        if path not in answers:
            raise RequestError("NOT_FOUND", f"Not found: {path}")
        wanted, answered = answers[path]
        if method != wanted:
            return Reply(405, error_reply(f"{path} takes {wanted}"))
        return answered()

    def _explained(self, headers: Headers, body: bytes, call: Call) -> Reply:
        _require_own_page(headers)
        if self._explaining is None:
            raise RequestError("UNIMPLEMENTED", "This server explains no predictions; use `bertline explain`.")
        if len(body) > MAX_BYTES:
            return Reply(
                413, error_reply(f"A request to explain is limited to {MAX_BYTES:,} bytes; explain a shorter text.")
            )
        try:
            question = json.loads(body)
        except (ValueError, RecursionError):
            question = None
        return _json(self._explaining.ask(self._manager, question, call))


def _host_name(headers: Headers) -> str:
    """Without its port, which is another one behind a tunnel."""
    try:
        return urlsplit(f"//{_text(headers, b'host')}").hostname or ""
    except ValueError:
        return ""


def _require_own_page(headers: Headers) -> None:
    """A script of another site can send what a form sends without being asked about it, and JSON only if we allow it."""
    origin, site = _text(headers, b"origin"), _text(headers, b"sec-fetch-site")
    is_json = _text(headers, b"content-type").partition(";")[0].strip().lower() == "application/json"
    is_own = site in ("", "same-origin") and (not origin or urlsplit(origin).netloc == _text(headers, b"host"))
    if not is_json or not is_own:
        raise RequestError("PERMISSION_DENIED", "Only the page of this server may send this, as JSON.")


def _text(headers: Headers, name: bytes) -> str:
    return headers.get(name, b"").decode("latin-1")


def _json(value: Any) -> Reply:
    return Reply(200, json.dumps(value, ensure_ascii=False, allow_nan=False).encode(errors="replace"))


@cache
def _file(name: str) -> bytes:
    return (_HERE / name).read_bytes()
