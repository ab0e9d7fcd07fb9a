"""One pass over the journals of a spool: in order, each journal's entries once, however often it takes.

What a store does not take now is tried again; what it will never take, as a name that it forbids, is noted and passed over,
so that it holds up nothing else.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path

from bertline.components.tracking.backend.operations import Entry, Store, Unresolved, is_passing
from bertline.components.tracking.backend.redaction import reason, without_secrets
from bertline.components.tracking.journal import KILLED, Journal, Operation, State, journals, now
from bertline.pipeline.config import without_password

_LONGEST_PAUSE = 10.0
_MAX_METRICS = 1000  # that MLflow takes at once
_MAX_REFUSED = 20

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
        """Makes runs known that have begun meanwhile: a study wants their ids, and not to wait for older runs' plots."""
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
        return replace(state, refused=[*state.refused, without_secrets(sentence)[:300]][:_MAX_REFUSED])


def _gathered(journal: Journal, begin: int) -> Iterator[tuple[list[Operation], int]]:
    """Entries one by one, but for metrics, of which many make one call."""
    metrics: list[Operation] = []
    count, end = 0, begin
    for operation, after in journal.operations(begin):
        if operation["do"] == "metrics":
            metrics.append(operation)
            count, end = count + len(operation["metrics"]), after
            if count >= _MAX_METRICS - 100:
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
    if over and journal.own():  # the pipeline reads the state until it lets go
        journal.remove()
        journal.release()
