"""The sender as a process of its own, as the pipeline sees it.

MLflow's client blocks for minutes where a server hangs, and importing it takes seconds of the interpreter's one lock: in
another process, with a lower priority, it cannot hold up a training. All runs of a process share one.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bertline.pipeline.config import Config
from bertline.pipeline.core.child_process import environment_of_child

LOG = "sender.log"
_PATIENT = 10  # how much nicer it is than the pipeline beside a training, where nobody waits for it
_HANDED_ON = "MLFLOW_"  # the environment may have changed since the process was started


class Sender:
    """A process that sends what stands in spools, for as long as somebody here writes to them."""

    _running: Sender | None = None
    _lock = threading.Lock()

    @classmethod
    def of(cls, spool: Path, uri: str) -> Sender:
        """One that looks after the spool. Each call wants one call of `release`.

        Args:
          uri: of the store, with its password, which no file and no command line has.
        """
        with cls._lock:
            if cls._running is None or not cls._running.is_alive:
                cls._running = cls(spool)
            found = cls._running
            found._users[spool] += 1
            found._give_way(_PATIENT)
            environment = {name: value for name, value in os.environ.items() if name.startswith(_HANDED_ON)}
            found._tell(watch=str(spool), uri=uri, environment=environment)
            return found

    def __init__(self, spool: Path) -> None:
        self._users: Counter[Path] = Counter()
        with (spool / LOG).open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "bertline.components.tracking.backend.sender"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=environment_of_child(),
                start_new_session=True,  # Ctrl-C ends the pipeline, which has then something to tell
            )
        atexit.register(self._end)

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def hurry(self) -> None:
        """Somebody waits for what is not sent yet."""
        self._give_way(0)
        self._tell()

    def release(self, spool: Path) -> None:
        """Nobody here writes there any more; what cannot be sent now stays."""
        with self._lock:
            self._users[spool] -= 1
            if self._users[spool] <= 0:
                del self._users[spool]
                self._tell(leave=str(spool))

    def _give_way(self, patience: int) -> None:
        niceness = min(19, os.getpriority(os.PRIO_PROCESS, 0) + patience)
        with suppress(OSError):  # it is dead; or we are not root, who alone may take patience back
            os.setpriority(os.PRIO_PROCESS, self._process.pid, niceness)
        with suppress(OSError):  # Linux may weigh sessions against each other first, and it has one of its own
            Path(f"/proc/{self._process.pid}/autogroup").write_text(str(niceness))

    def _tell(self, **message: Any) -> None:
        assert self._process.stdin is not None
        with suppress(OSError, ValueError):  # it is dead, or its input is closed
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()

    def _end(self) -> None:
        """It ends by itself, and is not waited for: it may be in the midst of a call that hangs."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()


@contextmanager
def sender_for(config: Config) -> Iterator[Sender | None]:
    """The sender of a run, if it is tracked."""
    if not config.tracking.enabled:
        yield None
        return
    sender = None
    with suppress(OSError):  # a record that cannot be kept is told of by the tracker
        config.spool_path.mkdir(parents=True, exist_ok=True)
        sender = Sender.of(config.spool_path, config.tracking_uri)
    try:
        yield sender
    finally:
        if sender:
            sender.release(config.spool_path)
