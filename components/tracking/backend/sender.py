"""Tells MLflow what stands in the journals of a spool, again and again, until all of it is told (`round.py`).

One sender works on a spool at a time; where several pipelines run at once, the others wait for their turn and the first
one sends for all.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import queue
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from bertline.components.tracking.backend.redaction import Discreet
from bertline.components.tracking.backend.round import Round
from bertline.components.tracking.backend.store import import_mlflow
from bertline.components.tracking.files import load_plotting
from bertline.components.tracking.journal import journals
from bertline.components.tracking.process import LOG

_LOCK = ".sender-lock"
_EVERY_SECONDS = 1.0  # metrics of so long a time travel together
_LAST_SECONDS = 20.0  # to send what is left when the pipeline is over or was killed


class Turn:
    """The right to send what stands in a spool, which one process has at a time."""

    def __init__(self, spool: Path) -> None:
        self._path = spool / _LOCK
        self._file: IO[str] | None = None

    def take(self) -> bool:
        """Whether it is ours now."""
        if self._file is None:
            file = self._path.open("w")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                file.close()
            else:
                self._file = file
        return self._file is not None

    def give_back(self) -> None:
        if self._file:
            self._file.close()
            self._file = None


class Watch:
    """A spool that is looked after, until whoever writes there leaves it or dies."""

    def __init__(self, spool: Path, uri: str) -> None:
        self._spool, self._turn = spool, Turn(spool)
        self._round = Round(spool, uri)
        self._last_moment: float | None = None
        self._has_sent = False

    def stay(self) -> None:
        self._last_moment = None

    def leave(self) -> None:
        self._last_moment = self._last_moment or time.monotonic() + _LAST_SECONDS

    @property
    def is_leaving(self) -> bool:
        return self._last_moment is not None

    @property
    def is_idle(self) -> bool:
        """Whether all that somebody has written there so far is sent, and more is to come."""
        return self._has_sent and not self.is_leaving

    def look(self) -> bool:
        """Sends what is there; whether it needs to be looked after any more."""
        if not self._spool.is_dir():
            return False
        try:
            if not self._turn.take():
                return not self.is_leaving
            with self._logged():
                sent = self._round.run()
        except OSError:  # of the spool itself, as on a full disk
            sent = False
        self._has_sent = sent and any(journals(self._spool))
        if self._last_moment and (sent or time.monotonic() > self._last_moment):
            self._turn.give_back()
            return False
        return True

    @contextmanager
    def _logged(self) -> Iterator[None]:
        """What is said inside goes to the log of the spool, without secrets."""
        with (self._spool / LOG).open("a") as file:
            handler = logging.StreamHandler(Discreet(file))
            handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
            logging.root.addHandler(handler)
            try:
                yield
            finally:
                logging.root.removeHandler(handler)


def main() -> None:
    """Does what its standard input says, a line of JSON each: which spools to watch and to leave. Its end is the end."""
    sys.stdout, sys.stderr = Discreet(sys.stdout), Discreet(sys.stderr)  # type: ignore[assignment]
    inbox: queue.Queue[dict[str, Any] | None] = queue.Queue()

    def listen() -> None:
        for line in sys.stdin:
            inbox.put(json.loads(line))
        inbox.put(None)

    threading.Thread(target=listen, daemon=True).start()
    import_mlflow()  # while whoever has started us is still looking at the data
    watched: dict[Path, Watch] = {}
    is_over = False
    while watched or not is_over:
        for message in _taken(inbox, _pause(watched, is_over)):
            if message is None:
                is_over = True
                for watch in watched.values():
                    watch.leave()
            elif "watch" in message:
                os.environ.update(message["environment"])
                spool = Path(message["watch"])
                watched.setdefault(spool, Watch(spool, message["uri"])).stay()
            elif "leave" in message and Path(message["leave"]) in watched:
                watched[Path(message["leave"])].leave()
        watched = {spool: watch for spool, watch in watched.items() if watch.look()}
        if watched and all(watch.is_idle for watch in watched.values()):
            load_plotting()  # while there is nothing else to do


def _pause(watched: Mapping[Path, Watch], is_over: bool) -> float | None:
    """Seconds for which the next message is waited for; without anything to do, as long as it takes."""
    if not watched:
        return None
    return 0.2 if is_over or any(watch.is_leaving for watch in watched.values()) else _EVERY_SECONDS


def _taken(inbox: queue.Queue[dict[str, Any] | None], pause: float | None) -> list[dict[str, Any] | None]:
    """The messages that are there, or that come first."""
    taken: list[dict[str, Any] | None] = []
    with suppress(queue.Empty):
        taken.append(inbox.get(timeout=pause))
        while True:
            taken.append(inbox.get_nowait())
    return taken


if __name__ == "__main__":
    main()
