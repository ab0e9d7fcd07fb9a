"""What is to be said to MLflow about a run, in order, in a file of its own.

The pipeline only ever appends to this file, in microseconds. The sender (`sender.py`) reads it, tells MLflow, and notes how
far it got: what a store that is down, slow or full did not take is still there for the next run or `bertline sync`.
Every operation may be sent twice without being recorded twice, so a sender that dies loses nothing and doubles nothing.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from io import FileIO
from pathlib import Path
from typing import Any

Operation = dict[str, Any]
"""`do` names it; see `operations.py`."""

NOTHING = "nothing"
_FILE, _STATE, _KEPT, _ROOM = "journal.jsonl", "state.json", "files", "room"
_ROOM_BYTES = 1 << 16
KILLED = "KILLED"
_MOMENT = 0.5  # for which a sender may hold a journal to look after it


@dataclass(frozen=True)
class State:
    """What the sender has noted of a journal."""

    sent: int = 0
    """Bytes of the file that MLflow has."""
    experiment_id: str | None = None
    mlflow_run_id: str | None = None
    problem: str | None = None
    """Why the store does not take more at present."""
    refused: list[str] = field(default_factory=list)
    """What the store will never take, in sentences."""


class Journal:
    """A folder of the spool: the operations of one run, copies of its files, and the sender's state."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file: FileIO | None = None
        self._is_torn = False
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"Journal({self.folder.name})"

    # The pipeline's side.

    @classmethod
    def create(cls, spool: Path, name: str) -> Journal:
        """A new journal, after all that are there; it is this process's own from the start."""
        slug = re.sub(r"[^\w.-]", "_", name)[:80]
        folder = spool / f"{time.time_ns():020d}-{slug}"
        folder.mkdir(parents=True)
        journal = cls(folder)
        journal.own()
        return journal

    def own(self, patience: float = 0.0) -> bool:
        """Takes the journal for writing, for as long as the process lives; false where another one has it."""
        file = (self.folder / _FILE).open("ab", buffering=0)
        last_moment = time.monotonic() + patience
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                if time.monotonic() >= last_moment:
                    file.close()
                    return False
                time.sleep(0.02)
            else:
                self._file, self._is_torn = file, self.size > 0
                return True

    def release(self) -> None:
        if self._file:
            self._file.close()
            self._file = None

    @property
    def is_written(self) -> bool:
        """Whether a process has it for writing at this moment."""
        try:
            with (self.folder / _FILE).open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return False

    def append(self, operation: Operation) -> None:
        """In the file when this returns: a killed process loses nothing that it has said."""
        line = _written(operation)
        with self._lock:
            if self._file is None:
                raise OSError(f"{self.folder.name} is not open for writing")
            if self._is_torn:  # what a full disk or a killed process left half written must not swallow this line
                line = b"\n" + line
            self._is_torn = True
            if self._file.write(line) < len(line):
                raise OSError(f"{self.folder.name}: the disk is full")
            self._is_torn = False

    def keep_room(self) -> None:
        """Takes a little of the disk, for what is to be said last: how a run ended is said also where the disk is full."""
        (self.folder / _ROOM).write_bytes(bytes(_ROOM_BYTES))

    def free_room(self) -> None:
        with suppress(OSError):
            (self.folder / _ROOM).unlink(missing_ok=True)

    def keep(self, path: Path) -> str:
        """A file as it is now, by a name in this folder: the original may be gone when it is sent."""
        target = self._place_for(path.name)
        link_or_copy(path, target)
        return f"{_KEPT}/{target.name}"

    def keep_text(self, text: str, name: str) -> str:
        target = self._place_for(Path(name).name)
        target.write_text(text, encoding="utf-8", errors="replace")
        return f"{_KEPT}/{target.name}"

    def _place_for(self, name: str) -> Path:
        kept = self.folder / _KEPT
        kept.mkdir(exist_ok=True)
        return kept / f"{len(os.listdir(kept)):04d}-{name[-100:]}"

    # The sender's side.

    def operations(self, begin: int = 0) -> Iterator[tuple[Operation, int]]:
        """Every whole operation from byte `begin` on, with the byte after it."""
        try:
            file = (self.folder / _FILE).open("rb")
        except FileNotFoundError:
            return
        with file:
            file.seek(begin)
            for line in file:
                if not line.endswith(b"\n"):  # half written
                    return
                begin += len(line)
                yield _parsed(line), begin

    @property
    def head(self) -> Operation:
        """The operation that opens the run."""
        return next((operation for operation, _ in self.operations() if operation["do"] != NOTHING), {"do": NOTHING})

    @property
    def last(self) -> Operation:
        """Read from the end, for it is asked often."""
        length = 1 << 12
        while True:
            begin = max(0, self.size - length)
            try:
                file = (self.folder / _FILE).open("rb")
            except FileNotFoundError:  # all was sent, and the sender has just removed it
                return {"do": "abandon"}
            with file:
                file.seek(begin)
                lines = file.read().rpartition(b"\n")[0].split(b"\n")
            if begin == 0 or len(lines) > 1:
                return _parsed(lines[-1])
            length *= 4

    @property
    def size(self) -> int:
        try:
            return (self.folder / _FILE).stat().st_size
        except OSError:
            return 0

    @property
    def state(self) -> State:
        try:
            return State(**json.loads((self.folder / _STATE).read_text()))
        except (OSError, ValueError, TypeError):
            return State()

    def note(self, state: State) -> None:
        """Replaces the state in one go: a reader never sees half of it."""
        unfinished = self.folder / f"{_STATE}.part"
        unfinished.write_text(json.dumps(asdict(state)))
        os.replace(unfinished, self.folder / _STATE)

    @property
    def is_sent(self) -> bool:
        return self.state.sent >= self.size

    def remove(self) -> None:
        (self.folder / _FILE).unlink(missing_ok=True)  # first: without the files it could never be sent, if this is cut off
        shutil.rmtree(self.folder, ignore_errors=True)


def link_or_copy(path: Path, target: Path) -> None:
    """Not every file system knows links."""
    try:
        os.link(path, target)
    except OSError:
        shutil.copyfile(path, target)


def journals(spool: Path) -> list[Journal]:
    """The oldest first."""
    if not spool.is_dir():
        return []
    return [Journal(path) for path in sorted(spool.iterdir()) if (path / _FILE).is_file()]


def resumable(spool: Path, scope: str, identity: str) -> Journal | None:
    """The journal of a run that was killed and is given again now, which goes on in it.

    Runs of the same scope that were killed and are not given again will not be gone on with: another was started.

    Args:
      scope: what a run replaces, as the pipeline that it is of.
      identity: what makes two runs the same: code, config and data.
    """
    found, left = None, set()
    for journal in journals(spool):  # parts come after what they are parts of
        head, last = journal.head, journal.last
        if not (head.get("scope") == scope or head.get("parent") in left) or not _was_killed(last):
            continue
        if not journal.own(_MOMENT):
            continue  # it is running
        if found is None and head["identity"] == identity and head.get("parent") not in left:
            found = journal
            continue
        left.add(head["key"])
        if last.get("do") != "end":
            journal.append({"do": "end", "status": KILLED, "time": now()})
        journal.append({"do": "abandon"})
        journal.release()
    return found


def _written(operation: Operation) -> bytes:
    """Half characters and NUL, which no database takes as text, are replaced: one would hold up all that comes after it."""
    text = json.dumps(operation, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")
    return text.replace(b"\\u0000", b"\\ufffd") + b"\n"


def _parsed(line: bytes) -> Operation:
    try:
        found = json.loads(line)
    except ValueError:  # half a line, as a full disk or a killed process leaves it
        return {"do": NOTHING}
    return found


def _was_killed(last: Operation) -> bool:
    return last.get("do") not in ("end", "abandon") or (last.get("do") == "end" and last.get("status") == KILLED)


def now() -> int:
    """Milliseconds, as MLflow counts time."""
    return int(time.time() * 1000)
