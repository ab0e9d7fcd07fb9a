"""The sender as a process of its own, as the line sees it.

MLflow's client blocks for minutes where a server hangs, and importing it takes seconds of the interpreter's one lock: in
another process, with a lower priority, it cannot hold up a training.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

LOG = "sender.log"
_ROOT = Path(__file__).parents[2]


class Sender:
    """A process that sends what stands in a spool, for as long as somebody here writes to it."""

    _running: dict[Path, Sender] = {}
    _lock = threading.Lock()

    @classmethod
    def of(cls, spool: Path, uri: str) -> Sender:
        """That of the spool; runs of a study share one. Each call wants one call of `release`."""
        with cls._lock:
            found = cls._running.get(spool)
            if found is None or not found.is_alive:
                found = cls._running[spool] = cls(spool, uri)
            found._users += 1
            return found

    def __init__(self, spool: Path, uri: str) -> None:
        self._spool, self._users = spool, 0
        found = os.environ.get("PYTHONPATH")
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(_ROOT), *([found] if found else [])]),
            "MLFLOW_TRACKING_URI": uri,  # with its password, which no file and no command line has
        }
        with (spool / LOG).open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "components.tracking.sender", str(spool)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,  # Ctrl-C ends the line, which has then something to tell
            )

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def hurry(self) -> None:
        """Somebody waits for what is not sent yet."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.write(b"!")
            self._process.stdin.flush()

    def release(self) -> None:
        """It ends when nobody here writes any more; what is not sent by then stays."""
        with self._lock:
            self._users -= 1
            if self._users == 0:
                assert self._process.stdin is not None
                with suppress(OSError):
                    self._process.stdin.close()
                if self._running.get(self._spool) is self:  # and not one that has taken its place
                    del self._running[self._spool]
                # Not waited for: it may be in the midst of a call that hangs.
                threading.Thread(target=self._process.wait, daemon=True).start()
