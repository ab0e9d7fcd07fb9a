"""Tells MLflow what stands in the journals of a spool: in order, each journal's entries once, however often it takes.

One sender works on a spool at a time; where several pipelines run at once, the others wait for their turn and the first
one sends for all. What a store does not take now is tried again; what it will never take, as a name that it forbids, is
noted and passed over, so that it holds up nothing else.
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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import IO, Any

from bertline.components.tracking.backend.operations import Entry, Store, Unresolved, is_passing
from bertline.components.tracking.backend.redaction import Discreet, reason, without_secrets
from bertline.components.tracking.backend.store import import_mlflow
from bertline.components.tracking.files import load_plotting
from bertline.components.tracking.journal import KILLED, Journal, Operation, State, journals, now
from bertline.components.tracking.process import LOG
from bertline.pipeline.config import without_password

_LOCK = ".sender-lock"
_EVERY_SECONDS = 1.0  # metrics of so long a time travel together
_LONGEST_PAUSE = 10.0
_LAST_SECONDS = 20.0  # to send what is left when the line is over or was killed
_MOST_METRICS = 1000  # that MLflow takes at once
_MOST_REFUSED = 20

Progress = Callable[[Journal, State], None]


class Round:
    """One pass over all journals of a spool; what fails is left alone for a while.

    Where the store is down, that is the store; where it answers, and only does not take something, as because an experiment
    was deleted, it is the experiment. Its runs wait, so that they are told in order, and those of others do not.
    """

    def __init__(self, spool: Path, uri: str | None, progress: Progress | None = None) -> None:
        self._spool, self._uri = spool, uri
        self._stores: dict[str, Store] = {}
        self._rest_until: dict[tuple[str, ...], float] = {}
        self._pause: dict[tuple[str, ...], float] = {}
        self._progress = progress or (lambda journal, state: None)

    def run(self) -> bool:
        """Whether everything is sent now."""
        sent = True
        for journal in journals(self._spool):
            _close_killed(journal)
            if journal.is_sent:
                _clear(journal)
            else:
                sent = self._send(journal) and sent
        return sent

    def _send(self, journal: Journal) -> bool:
        uri = journal.head.get("uri")
        if not uri:
            return True  # a process is just opening it
        store, experiment = (uri,), (uri, journal.head["experiment"])
        if time.monotonic() < max(self._rest_until.get(who, 0) for who in (store, experiment)):
            return False
        try:
            done = replay(journal, self._store(uri), self._spool, self._told)
        except Exception as error:
            logging.exception("%s", journal)
            with suppress(OSError):  # as on a full disk; what cannot be noted is sent once more
                journal.note(replace(journal.state, problem=reason(error, uri)))
            who = experiment if self._store(uri).answers() else store
            pause = min(_LONGEST_PAUSE, self._pause.get(who, 0.5) * 2)
            self._pause[who], self._rest_until[who] = pause, time.monotonic() + pause
            return False
        for who in (store, experiment):
            self._pause.pop(who, None)
        if done:
            _clear(journal)
        return done

    def _told(self, journal: Journal, state: State) -> None:
        self._progress(journal, state)
        self._open_younger(journal)

    def _open_younger(self, journal: Journal) -> None:
        """Makes runs known that have begun meanwhile: a study wants their ids, and not to wait for older runs' pictures."""
        uri, experiment = (journal.head.get(name) for name in ("uri", "experiment"))
        for other in journals(self._spool):
            head = other.head
            if other.state.sent or (head.get("uri"), head.get("experiment")) != (uri, experiment):
                continue
            with suppress(Exception):  # which is told when it is its turn
                replay(other, self._store(str(uri)), self._spool, entries=1)

    def _store(self, uri: str) -> Store:
        if uri not in self._stores:
            # The journal has no password; the environment may.
            full = self._uri if self._uri and without_password(self._uri) == uri else uri
            self._stores[uri] = Store(full)
        return self._stores[uri]


def replay(
    journal: Journal,
    store: Store,
    spool: Path,
    progress: Progress = lambda journal, state: None,
    *,
    entries: int | None = None,
) -> bool:
    """Sends what is left of a journal, or so many entries of it, noting each that MLflow has; whether all is sent.

    Raises what a store that is down raises: the entry stays, and so do all after it.
    """
    state = replace(journal.state, problem=None)
    entry = Entry(journal, journal.head, spool)
    for operations, end in islice(_gathered(journal, state.sent), entries):
        try:
            state = replace(_applied(store, entry, operations, state), sent=end)
        except Unresolved:  # it is about a run that another journal opens first
            return False
        journal.note(state)
        progress(journal, state)
    return journal.is_sent


def _applied(store: Store, entry: Entry, operations: list[Operation], state: State) -> State:
    """The state after the operations; what the store will never take is noted in it."""
    try:
        return store.apply(entry, operations, state)
    except Unresolved:
        raise
    except Exception as error:
        what = operations[0]["do"]
        if what == "open" or is_passing(error):
            raise
        if len(operations) > 1:  # only the one that is wrong is lost
            for operation in operations:
                state = _applied(store, entry, [operation], state)
            return state
        logging.exception("refused: %s", what)
        sentence = f"{what}: {next(iter(str(error).splitlines()), type(error).__name__)}"
        return replace(state, refused=[*state.refused, without_secrets(sentence)[:300]][:_MOST_REFUSED])


def _gathered(journal: Journal, begin: int) -> Iterator[tuple[list[Operation], int]]:
    """Entries one by one, but for metrics, of which many make one call."""
    metrics: list[Operation] = []
    count, end = 0, begin
    for operation, after in journal.operations(begin):
        if operation["do"] == "metrics":
            metrics.append(operation)
            count, end = count + len(operation["metrics"]), after
            if count >= _MOST_METRICS - 100:
                yield metrics, end
                metrics, count = [], 0
            continue
        if metrics:
            yield metrics, end
            metrics, count = [], 0
        yield [operation], after
    if metrics:
        yield metrics, end


def _close_killed(journal: Journal) -> None:
    """The record of a process that could not say its last word."""
    if journal.last["do"] in ("end", "abandon") or not journal.own():
        return
    try:
        if journal.last["do"] not in ("end", "abandon"):
            journal.append({"do": "end", "status": KILLED, "time": now()})
    finally:
        journal.release()


def _clear(journal: Journal) -> None:
    """What is over and sent is not kept; what was killed may go on."""
    last = journal.last
    over = last["do"] == "abandon" or (last["do"] == "end" and last["status"] != KILLED)
    if over and journal.own():  # the line reads the state until it lets go
        journal.remove()
        journal.release()


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
