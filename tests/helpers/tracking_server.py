"""MLflow's own server on loopback, which can be killed, started again, and made to hang; and ways to it that are bad."""

from __future__ import annotations

import http.client
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from bertline.serving.launch.ports import free_ports


class TrackingServer:
    """Its runs and files stand in a folder, and outlive its process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port = free_ports()[0]
        self.uri = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        mlflow = Path(sys.executable).with_name("mlflow")
        command = [mlflow, "server", "--host", "127.0.0.1", "--port", str(self.port), "--workers", "1"]
        command += ["--backend-store-uri", f"sqlite:///{self._folder}/server.db"]
        command += ["--artifacts-destination", str(self._folder / "artifacts")]
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
            )
        while not self._answers():
            assert self._process.poll() is None, (self._folder / "server.log").read_text()
            time.sleep(0.1)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.uri}/health", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def hang(self) -> None:
        """Connections are taken, and nothing is answered."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        if self._process:
            self._signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        os.killpg(self._process.pid, number)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Not to the terminal."""


class Refusing(_Handler):
    """Lets nobody in, and repeats what it was told."""

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))  # or it would be taken for the next request
        self.answer(401, f"who is {self.headers.get('Authorization')}?".encode())

    do_POST = do_GET


class Losing(_Handler):
    """Hands on every request, and loses every second answer."""

    target = 0
    counted = itertools.count()

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        server = http.client.HTTPConnection("127.0.0.1", self.target)
        server.request(self.command, self.path, body, dict(self.headers))
        answer = server.getresponse()
        status, given = answer.status, answer.read()
        server.close()
        if next(self.counted) % 2:
            self.close_connection = True
        else:
            self.answer(status, given)

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET


@contextmanager
def listening(handler: type[_Handler], target: int = 0) -> Iterator[str]:
    """The address of a server on loopback; `target` is the port of the one behind it."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (handler,), {"target": target}))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
