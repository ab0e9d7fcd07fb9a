"""`bertline ui`: MLflow's own pages over the store of a workspace."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import click

from pipeline.errors import BertlineError

_STOP_SECONDS = 10.0


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), default=5000, show_default=True, help="0 takes any that is free.")
@click.option("--workspace", default="workspace", show_default=True)
def ui(port: int, workspace: str) -> None:
    """Show the recorded runs in MLflow's own pages, until Ctrl-C.

    They are served to this machine alone, from the store of the workspace. Where the runs are recorded by a server, it has
    the pages already, and its address is printed.

    \b
    bertline ui                 http://127.0.0.1:5000
    bertline ui --port 8080
    """
    from components.store import is_there
    from pipeline.config import without_password
    from pipeline.run_store import store_of

    uri = store_of(workspace)
    if uri.startswith(("http://", "https://")):
        click.echo(f"the runs are recorded by a server, which shows them itself: {without_password(uri)}")
        return
    if not is_there(uri):
        raise BertlineError(f"there is no MLflow store {without_password(uri)} to show; `bertline run` makes it.")
    _serve(uri, port)


def _serve(uri: str, port: int) -> None:
    """Runs MLflow's server until SIGINT or SIGTERM, and ends it with all that it has started."""
    from components.store import quiet
    from serving.ports import free_ports, require_free

    program = Path(sys.executable).with_name("mlflow")
    if not program.is_file():
        raise BertlineError(f"there is no {program}; `make setup` installs MLflow with its programs.")
    require_free("127.0.0.1", {"--port": port})
    port = port or free_ports()[0]
    quiet()
    stop = threading.Event()
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGTERM, signal.SIGINT)}
    command = [str(program), "ui", "--backend-store-uri", uri, "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    # In a session of its own: its workers are ended with it, and Ctrl-C in a terminal is for us to pass on, once.
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr.fileno(), start_new_session=True)
    try:
        click.echo(f"MLflow shows {uri} on http://127.0.0.1:{port} in a few seconds. Ctrl-C ends it.")
        while not stop.wait(0.3):
            if process.poll() is not None:
                raise BertlineError(f"MLflow ended by itself, exit code {process.returncode}; what it said stands above.")
    finally:
        _end(process)
        for number, handler in before.items():
            signal.signal(number, handler)


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
