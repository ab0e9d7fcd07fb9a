"""Tells MLflow what stands in the journals of a spool: in order, each journal's entries once, however often it takes.

One sender works on a spool at a time; where several pipelines run at once, the others wait for their turn and the first
one sends for all. What a store does not take now is tried again; what it will never take, as a name that it forbids, is
noted and passed over, so that it holds up nothing else.
"""

from __future__ import annotations

import fcntl
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from components.tracking.journal import KILLED, Journal, Operation, State, journals, now
from components.tracking.operations import Entry, Store, Unresolved, is_passing
from components.tracking.words import Discreet, reason, without_secrets
from pipeline.config import without_password

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
            done = replay(journal, self._store(uri), self._spool, self._progress)
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

    def _store(self, uri: str) -> Store:
        if uri not in self._stores:
            # The journal has no password; the environment may.
            full = self._uri if self._uri and without_password(self._uri) == uri else uri
            self._stores[uri] = Store(full)
        return self._stores[uri]


def replay(journal: Journal, store: Store, spool: Path, progress: Progress = lambda journal, state: None) -> bool:
    """Sends what is left of a journal, noting each entry that MLflow has; whether all is sent.

    Raises what a store that is down raises: the entry stays, and so do all after it.
    """
    state = replace(journal.state, problem=None)
    entry = Entry(journal, journal.head, spool)
    for operations, end in _gathered(journal, state.sent):
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


@contextmanager
def only_sender(spool: Path, gave_up: Callable[[], bool]) -> Iterator[bool]:
    """Holds the spool's lock; false where another had it until `gave_up`."""
    with (spool / _LOCK).open("w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                if gave_up():
                    yield False
                    return
                time.sleep(0.1)
            else:
                yield True
                return


def main(spool: Path) -> None:
    """Sends until the process that started it closes the standard input or dies."""
    os.nice(10)
    sys.stdout, sys.stderr = Discreet(sys.stdout), Discreet(sys.stderr)  # type: ignore[assignment]
    logging.basicConfig(format="%(asctime)s %(message)s")
    over, hurry = threading.Event(), threading.Event()

    def listen() -> None:
        while os.read(sys.stdin.fileno(), 4096):
            hurry.set()
        over.set()
        hurry.set()

    threading.Thread(target=listen, daemon=True).start()
    with only_sender(spool, over.is_set) as mine:
        if not mine:
            return
        sending, last_moment = Round(spool, os.environ.get("MLFLOW_TRACKING_URI")), None
        while True:
            ending = over.is_set()
            hurry.clear()
            sent = sending.run()
            if ending:
                last_moment = last_moment or time.monotonic() + _LAST_SECONDS
                if sent or time.monotonic() > last_moment:
                    return
                time.sleep(0.2)
            else:
                hurry.wait(_EVERY_SECONDS)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
