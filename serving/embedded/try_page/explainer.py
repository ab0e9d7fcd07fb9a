"""Why a model answered as it did, told by a process of its own.

To explain takes gradients, so it takes all of TensorFlow and a second copy of the model, and seconds of all cores. In a
process of its own it cannot hold up those who are answered, can be ended where it takes too long, and is started only when
somebody asks.
"""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import threading
from collections.abc import Mapping
from typing import Any

from tensorflow_serving.apis import model_pb2

from bertline.pipeline.core.child_process import environment_of_child
from bertline.serving.embedded.errors import Call, RequestError
from bertline.serving.embedded.lifecycle.manager import Manager
from bertline.serving.settings import TryPage

_GLANCE_SECONDS = 0.1


class Explaining:
    """One question at a time; whoever asks meanwhile is told so."""

    def __init__(self, settings: TryPage) -> None:
        self._settings = settings
        self._turn = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._idle: threading.Timer | None = None
        self._is_stopped = False

    def ask(self, manager: Manager, question: Any, call: Call) -> dict[str, Any]:
        """Explains one answer.

        Args:
          question: `model`, perhaps `version`, `texts` by the names of the model's signature, and perhaps the `label` that
            is explained in place of what was answered, or the `start` of the word whose tag is explained.
        """
        spec, told = _checked(question)
        if not self._turn.acquire(blocking=False):
            raise RequestError("RESOURCE_EXHAUSTED", "Another prediction is being explained; try again when that is done.")
        try:
            self._rest_not()
            with manager.lease(spec) as lease:
                found = self._asked(json.dumps({**told, "folder": str(lease.folder)}), call)
            if "error" in found:
                raise RequestError("FAILED_PRECONDITION", str(found["error"]))
            return {**found, "model": lease.model, "version": lease.version}
        finally:
            self._rest()
            self._turn.release()

    def stop(self) -> None:
        self._is_stopped = True
        self._rest_not()
        self._end()

    def _asked(self, line: str, call: Call) -> dict[str, Any]:
        process = self._started()
        assert process.stdin
        try:
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
            answer = self._awaited(call)
        except OSError:
            answer = None
        except RequestError:
            self._end()  # nobody waits for it any more, and the next one should not have to
            raise
        if answer is None:
            self._end()
            if self._is_stopped:
                raise RequestError("UNAVAILABLE", "The server is shutting down")
            raise RequestError("INTERNAL", "The process that explains predictions exited; it may have run out of memory.")
        return json.loads(answer)

    def _awaited(self, call: Call) -> str | None:
        while True:
            try:
                return self._lines.get(timeout=_GLANCE_SECONDS)
            except queue.Empty:
                pass
            if call.remaining <= 0:
                seconds = self._settings.explain_seconds
                raise RequestError(
                    "DEADLINE_EXCEEDED",
                    f"This takes more than {seconds:.0f} s and was given up; explain a shorter text, or use"
                    " `bertline explain`.",
                )
            call.check()

    def _started(self) -> subprocess.Popen[str]:
        if self._is_stopped:
            raise RequestError("UNAVAILABLE", "The server is shutting down")
        if self._process and self._process.poll() is None:
            return self._process
        self._lines = queue.SimpleQueue()
        self._process = subprocess.Popen(
            self._settings.explainer,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env=environment_of_child(CUDA_VISIBLE_DEVICES="-1"),  # the server itself holds the GPUs' memory
            start_new_session=True,  # Ctrl-C in a terminal is for the server, which ends it
        )
        threading.Thread(target=_read, args=(self._process, self._lines), name="explaining", daemon=True).start()
        return self._process

    def _rest(self) -> None:
        if not self._is_stopped and self._process and self._process.poll() is None:
            self._idle = threading.Timer(self._settings.idle_seconds, self._end_if_idle)
            self._idle.daemon = True
            self._idle.start()

    def _rest_not(self) -> None:
        if self._idle:
            self._idle.cancel()
            self._idle = None

    def _end_if_idle(self) -> None:
        if self._turn.acquire(blocking=False):
            try:
                self._end()
            finally:
                self._turn.release()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()  # it keeps nothing
        process.wait()
        if process.stdin:
            with contextlib.suppress(OSError):  # what was not read any more
                process.stdin.close()


def _read(process: subprocess.Popen[str], lines: queue.SimpleQueue[str | None]) -> None:
    assert process.stdout
    with process.stdout:
        for line in process.stdout:
            lines.put(line)
    lines.put(None)


def _checked(question: Any) -> tuple[model_pb2.ModelSpec, dict[str, Any]]:
    """The model of a question, and what is told of it; RequestError where it is none."""
    known = question if isinstance(question, Mapping) else {}
    name, version, texts, label, start = (known.get(key) for key in ("model", "version", "texts", "label", "start"))
    is_right = (
        isinstance(name, str)
        and _is_number(version)
        and _is_number(start)
        and isinstance(texts, Mapping)
        and all(isinstance(text, str) or _are_texts(text) for text in texts.values())
        and (label is None or isinstance(label, str))
    )
    if not is_right:
        raise RequestError(
            "INVALID_ARGUMENT",
            'A question is {"model": NAME, "version": NUMBER, "texts": {NAME: TEXT, …}, "label": NAME, "start": NUMBER};'
            " the version, the label and the start may be left out.",
        )
    assert isinstance(name, str) and isinstance(texts, Mapping)
    spec = model_pb2.ModelSpec(name=name)
    if version is not None:
        spec.version.value = version
    return spec, {"texts": dict(texts), "label": label, "start": start}


def _is_number(value: Any) -> bool:
    """Or none."""
    return value is None or (type(value) is int and 0 <= value < 1 << 63)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)
