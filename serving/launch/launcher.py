"""The real TensorFlow Serving: its binary or its image, started with files that say what our settings say.

    with launch(settings, "binary") as running:      # every model is AVAILABLE
        ask(running.port)

What it is told stands in `flags.py`. Here its process is started, awaited until its models answer, and taken down
with everything that was written for it.

Over 300 lines in one module: it is the life of one process, from its files to its last words.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from bertline.pipeline.core.errors import BertlineError
from bertline.serving.launch import config_files, ports
from bertline.serving.launch.flags import (
    BINARY,
    FILE_FLAGS,
    IMAGE,
    Engine,
    default_image,
    docker_command,
    files_of,
    in_container,
    notes,
    server_flags,
)
from bertline.serving.launch.readiness import asking
from bertline.serving.settings import ServerSettings

Say = Callable[[str], None]

PATIENCE = 600.0
"""Seconds until every model must answer: a first load of a large one, or the pull of an image, takes minutes."""
_ASK_SECONDS = 0.02
"""Between the first questions whether models answer, and at last ten times as many: a small one is there in a second."""
_STOP_SECONDS = 30.0
_LOG_SECONDS = 5.0  # for the rest of the log of a server that has ended

_NO_BINARY = (
    f"there is no {BINARY} on PATH; install the Debian package tensorflow-model-server from TensorFlow Serving's own apt"
    f" source (its setup guide says how), take --engine docker with the image {IMAGE}, or leave out --engine: the embedded"
    " server needs neither."
)
_NO_DOCKER = (
    f"Docker does not answer here; install and start it (the image is {IMAGE}), take --engine binary with TensorFlow"
    " Serving's Debian package, or leave out --engine: the embedded server needs neither."
)


def find_binary() -> Path | None:
    found = shutil.which(BINARY)
    return Path(found) if found else None


def find_docker() -> Path | None:
    """Docker's client, where its daemon answers: the one without the other is common, and of no use."""
    found = shutil.which("docker")
    if not found:
        return None
    try:
        done = subprocess.run([found, "version", "--format", "{{.Server.Version}}"], capture_output=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return Path(found) if done.returncode == 0 else None


def probe_version(binary: str | Path) -> str:
    """What a binary says of its version, as 2.16.1."""
    try:
        done = subprocess.run([str(binary), "--version"], capture_output=True, text=True, errors="replace", timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BertlineError(f"{binary} --version: {error}; reinstall TensorFlow Serving.") from error
    said = done.stdout + done.stderr
    found = re.search(r"TensorFlow ModelServer:\s*(\S+)", said)
    if not found:
        last = (said.strip().splitlines() or ["it says nothing"])[-1]
        raise BertlineError(f"{binary} --version prints none ({last}); reinstall TensorFlow Serving.")
    return found[1]


@dataclass
class Running:
    """A server that was started; as a context, it is stopped at the end."""

    process: subprocess.Popen[str]
    settings: ServerSettings
    """With the ports that it really has."""
    title: str
    folder: Path
    """Its files."""
    kill: tuple[str, ...] = ()
    """A command that ends it where signals to `process` do not."""
    last_words: deque[str] = field(default_factory=lambda: deque(maxlen=20))
    reader: threading.Thread | None = None

    @property
    def port(self) -> int:
        return self.settings.port

    @property
    def rest_port(self) -> int | None:
        return self.settings.rest_api_port

    def await_models(self, say: Say, patience: float = PATIENCE, stop: threading.Event | None = None) -> bool:
        """Waits until every model answers.

        Returns:
          False when `stop` was set before.

        Raises:
          BertlineError: the server has ended, a model cannot be loaded, or `patience` seconds are over.
        """
        stop = stop or threading.Event()
        began = told = time.monotonic()
        with asking(self.settings) as answers:
            while not answers():
                self.require_alive()
                now = time.monotonic()
                if now - began > patience:
                    raise BertlineError(f"{self.title}: no answer for its models in {patience:.0f} s.{self._log()}")
                if now - told >= 10:
                    told = now
                    say(f"{self.title}: waiting for its models, {now - began:.0f} s …")
                if stop.wait(max(_ASK_SECONDS, min(10 * _ASK_SECONDS, (now - began) / 20))):
                    return False
        self.require_alive()  # what answered may be another server, on the port that this one did not get
        return True

    def require_alive(self) -> None:
        code = self.process.poll()
        if code is not None:
            if self.reader:
                self.reader.join(_LOG_SECONDS)
            how = f"was ended by signal {-code}" if code < 0 else f"exited with code {code}"
            raise BertlineError(f"{self.title} {how}.{self._log()}")

    def stop(self) -> None:
        """Ends the server, and removes its files. Once or several times."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                if self.kill:
                    subprocess.run(self.kill, capture_output=True, timeout=_STOP_SECONDS)
                self.process.kill()
                self.process.wait()
        if self.reader:
            self.reader.join(_LOG_SECONDS)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _log(self) -> str:
        return " The last it said:\n  " + "\n  ".join(self.last_words) if self.last_words else " It said nothing."

    def __enter__(self) -> Running:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()


def start(
    settings: ServerSettings,
    engine: Engine,
    say: Say,
    *,
    extra: Mapping[str, str] | None = None,
    image: str | None = None,
    log: Say | None = None,
) -> Running:
    """Starts the server and does not wait for it.

    Args:
      settings: port 0 takes any that is free.
      engine: the binary on PATH, or the image in Docker.
      say: takes sentences for the user.
      extra: flags of tensorflow_model_server that the settings do not have, without dashes.
      image: of Docker; that of the pinned version by default.
      log: takes each line that the server writes; the standard error by default.
    """
    executable = find_binary() if engine == "binary" else find_docker()
    if executable is None:
        raise BertlineError(_NO_BINARY if engine == "binary" else _NO_DOCKER)
    image = image or default_image()
    title = f"{BINARY} {probe_version(executable)}" if engine == "binary" else image
    settings = _with_ports(settings, "0.0.0.0" if engine == "binary" else settings.host)
    folder = Path(tempfile.mkdtemp(prefix="bertline-serve-"))  # of this user alone: it may hold a key
    try:
        seen_at = str(folder) if engine == "binary" else "/config"
        extra = _write_files(settings if engine == "binary" else in_container(settings), folder, seen_at, extra or {})
        name = f"bertline-serve-{uuid.uuid4().hex[:8]}"
        command = [str(executable), *server_flags(settings, seen_at, extra)]
        kill: tuple[str, ...] = ()
        if engine == "docker":
            _require_folders(settings)
            command = docker_command(executable, settings, folder, name, image, extra)
            kill = (str(executable), "kill", name)
        for note in notes(settings, engine):
            say(f"note: {note}")
        say(f"{title} loads {_names(settings)} …")
        process = spawned(command)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return heard(Running(process, settings, title, folder, kill), log or _to_stderr)


def spawned(command: Sequence[str], **how: Any) -> subprocess.Popen[str]:
    """A server's process, whose log is read by us. In a session of its own: Ctrl-C in a terminal is for us, and we pass it
    on once."""
    given: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, **how}
    return subprocess.Popen(command, text=True, errors="replace", start_new_session=True, **given)


def heard(running: Running, log: Say) -> Running:
    """Its log goes to `log`, line by line, and its last words are kept."""
    running.reader = threading.Thread(target=read_log, args=(running.process, running.last_words, log), daemon=True)
    running.reader.start()
    return running


def launch(
    settings: ServerSettings,
    engine: Engine,
    say: Say = lambda line: None,
    *,
    extra: Mapping[str, str] | None = None,
    image: str | None = None,
    log: Say | None = None,
    patience: float = PATIENCE,
) -> Running:
    """Starts the server and waits until every model answers; see `start` for what it takes."""
    running = start(settings, engine, say, extra=extra, image=image, log=log)
    try:
        running.await_models(say, patience)
    except BaseException:
        running.stop()
        raise
    return running


def serve(settings: ServerSettings, engine: Engine, say: Say, *, extra: Mapping[str, str] | None = None) -> None:
    """Runs the server until SIGTERM or SIGINT, or until it ends, which is an error."""
    stop = threading.Event()
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        with start(settings, engine, say, extra=extra) as running:
            if running.await_models(say, stop=stop):
                say(_served(running))
                while not stop.wait(0.5):
                    running.require_alive()
            say(f"{running.title} is stopped.")
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _names(settings: ServerSettings) -> str:
    return ", ".join(model.name for model in settings.models.model_config_list.config) or "no model yet"


def _served(running: Running) -> str:
    host = "127.0.0.1" if running.settings.host == "0.0.0.0" else running.settings.host
    rest = f", REST on http://{host}:{running.rest_port}" if running.rest_port else ""
    return f"{running.title} serves {_names(running.settings)}: gRPC on {host}:{running.port}{rest}. Ctrl-C ends it."


def _with_ports(settings: ServerSettings, host: str) -> ServerSettings:
    wanted = {"--port": settings.port}
    if settings.rest_api_port is not None:
        wanted["--rest_api_port"] = settings.rest_api_port
    ports.require_free(host, wanted)
    free, other = ports.free_ports(host)
    rest = other if settings.rest_api_port == 0 else settings.rest_api_port
    return replace(settings, port=settings.port or free, rest_api_port=rest)


def _require_folders(settings: ServerSettings) -> None:
    """Docker would make a folder that is missing, as root's own."""
    for model in settings.models.model_config_list.config:
        if not config_files.is_uri(model.base_path) and not Path(model.base_path).is_dir():
            raise BertlineError(f"{model.base_path}, the base path of {model.name}, is no folder; make it first.")


def _write_files(settings: ServerSettings, folder: Path, seen_at: str, extra: Mapping[str, str]) -> dict[str, str]:
    """Writes all files, and returns the flags with the places at which the server sees those that they name."""
    files = files_of(settings)
    for flag in FILE_FLAGS:
        if flag in extra:
            try:
                files[flag] = Path(extra[flag]).read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise BertlineError(f"--{flag} {extra[flag]}: {error}; name a text file that can be read.") from error
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return {flag: f"{seen_at}/{flag}" if flag in FILE_FLAGS else value for flag, value in extra.items()}


def read_log(process: subprocess.Popen[str], last_words: deque[str], log: Say) -> None:
    assert process.stdout is not None
    with process.stdout as lines:
        for line in lines:
            last_words.append(line.rstrip("\n"))
            log(line.rstrip("\n"))


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
