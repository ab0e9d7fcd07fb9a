"""`bertline ui`: MLflow's own pages over the store of a workspace."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import click

from bertline.pipeline.core.errors import BertlineError

_HOST = "127.0.0.1"
_STOP_SECONDS = 10.0


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), default=5000, show_default=True, help="0: any free port.")
@click.option("--workspace", default="workspace", show_default=True)
def ui(port: int, workspace: str) -> None:
    """Open MLflow's UI on the recorded runs, until Ctrl-C.

    It is served to this machine only, from the store of the workspace. If the runs are recorded by a server, that has the
    UI already, and its URL is printed.

    \b
    bertline ui                 http://127.0.0.1:5000
    bertline ui --port 8080
    """
    from bertline.components.tracking.backend.store import is_there
    from bertline.pipeline.config import without_password
    from bertline.pipeline.runs.store import store_of

    uri = store_of(workspace)
    if uri.startswith(("http://", "https://")):
        click.echo(f"the runs are recorded by a server, which has the UI: {without_password(uri)}")
        return
    if not is_there(uri):
        raise BertlineError(f"there is no MLflow store {without_password(uri)} to show; `bertline run` creates it.")
    _serve(uri, port)


def _serve(uri: str, port: int) -> None:
    """Runs MLflow's server until SIGINT or SIGTERM, and ends it with all that it has started."""
    from bertline.components.tracking.backend.store import quiet
    from bertline.pipeline.config import without_password
    from bertline.serving.launch.ports import free_ports, require_free

    program = Path(sys.executable).with_name("mlflow")
    if not program.is_file():
        raise BertlineError(f"there is no {program}; `make setup` installs MLflow with its programs.")
    require_free(_HOST, {"--port": port})
    port = port or free_ports(_HOST)[0]
    quiet()
    stop = threading.Event()
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGTERM, signal.SIGINT)}
    # The store goes by the environment: others can read the arguments of a process, and a store's name may have a password.
    # Jobs are of no use to whoever only looks.
    environment = {**os.environ, "MLFLOW_BACKEND_STORE_URI": uri, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    command = [str(program), "ui", "--host", _HOST, "--port", str(port), "--workers", "1"]
    # In a session of its own: its workers are ended with it, and Ctrl-C in a terminal is for us to pass on, once.
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=sys.stderr.fileno(), start_new_session=True
    )
    told = False
    try:
        while not stop.wait(0.3):
            if process.poll() is not None:
                raise BertlineError(f"MLflow exited with code {process.returncode}; see its output above.")
            if not told and _answers(port):
                told = True
                click.echo(f"MLflow shows {without_password(uri)} on http://{_HOST}:{port}. Ctrl-C to stop.")
    finally:
        _end(process)
        for number, handler in before.items():
            signal.signal(number, handler)


def _answers(port: int) -> bool:
    asked = HTTPConnection(_HOST, port, timeout=5)
    try:
        asked.request("GET", "/health")
        return asked.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        asked.close()


def _end(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:  # none of the session is left
            break
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            continue
    process.wait()
