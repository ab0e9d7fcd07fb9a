"""The Hugging Face Hub on loopback: what its own client asks for, answered from a folder."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Hub:
    url: str
    downloaded: list[str] = field(default_factory=list)
    """Names of files."""


@contextmanager
def running(name: str, folder: Path) -> Iterator[Hub]:
    """Has one model, whose only commit is COMMIT; everything else is 404, as the Hub says it."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            files = [file for file in sorted(folder.rglob("*")) if file.is_file()]
            names = [file.relative_to(folder).as_posix() for file in files]
            api, resolve = f"/api/models/{name}", f"/{name}/resolve/"
            if path in (f"{api}/revision/main", f"{api}/revision/{COMMIT}", api):
                return self.answer(
                    {"id": name, "sha": COMMIT, "private": False, "siblings": [{"rfilename": each} for each in names]}
                )
            if path.startswith(f"{api}/tree/"):
                return self.answer(
                    [
                        {"type": "file", "path": each, "oid": _digest(file), "size": file.stat().st_size}
                        for each, file in zip(names, files, strict=True)
                    ]
                )
            inside = path.removeprefix(resolve).partition("/")[2] if path.startswith(resolve) else ""
            if inside in names:
                if self.command == "GET":
                    hub.downloaded.append(inside)
                return self.give((folder / inside).read_bytes(), _digest(folder / inside))
            return self.give(b"", status=404, code="EntryNotFound" if path.startswith(resolve) else "RepoNotFound")

        do_HEAD = do_GET

        def answer(self, found: object) -> None:
            self.give(json.dumps(found).encode())

        def give(self, content: bytes, etag: str = "", status: int = 200, code: str = "") -> None:
            self.send_response(status)
            headers = {"ETag": f'"{etag}"', "X-Error-Code": code, "X-Repo-Commit": COMMIT, "Content-Length": len(content)}
            for header, value in headers.items():
                self.send_header(header, str(value))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub = Hub(f"http://127.0.0.1:{server.server_port}")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()


def _digest(file: Path) -> str:
    return hashlib.sha1(file.read_bytes()).hexdigest()
