"""The Pusher's work: a model becomes a numbered version that a server never sees half-copied.

A serving process polls the destination for integer-named folders and loads the highest. So a version is copied under a
name that is no number, made durable, and only then renamed: the rename is the one moment at which it exists.
`components/pusher.py` is the pipeline's door to this file.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pipeline.errors import BertlineError
from serving.contract import CARD, read_card, write_card

_LOCK = ".bertline-lock"
_LAST = ".bertline-last"  # the highest number ever given: a version that was removed does not free its number
_INCOMING = ".incoming-"


@dataclass(frozen=True)
class Pushed:
    """One version in a destination."""

    version: int
    path: Path
    card: Mapping[str, Any] = field(default_factory=dict)
    """What the version says of itself; empty when somebody else put it there."""
    fresh: bool = False
    """Whether this very call of `publish` has put it there."""


def model_digest(model_dir: str | Path) -> str:
    """SHA-256 of the names and bytes of all files of a model, our own card left out."""
    root = Path(model_dir)
    files = sorted(
        (path.relative_to(root).as_posix(), path)
        for path in root.rglob("*")
        if path.is_file() and path.relative_to(root) != CARD
    )
    digest = hashlib.sha256()
    for name, path in files:
        # The lengths keep "a" + "bc" and "ab" + "c" apart.
        encoded = name.encode()
        digest.update(b"%d %d " % (len(encoded), path.stat().st_size) + encoded)
        with path.open("rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
    return digest.hexdigest()


def publish(model_dir: str | Path, destination: str | Path, card: Mapping[str, Any]) -> Pushed:
    """Puts a model into `destination` under the next number, once.

    A model that stands there already, byte for byte, keeps its number. Pushers that run at the same time take turns;
    one that dies leaves nothing under a number, and the next sweeps up what it left.

    Args:
      model_dir: folder of the SavedModel.
      destination: folder that a server watches; made when it is missing.
      card: what to write into the version's `assets.extra/bertline.json`, beside its digest and number.
    """
    model_dir, destination = Path(model_dir), Path(destination)
    if not (model_dir / "saved_model.pb").is_file():
        raise BertlineError(f"{model_dir}: there is no SavedModel here to push; run the Trainer first.")
    if destination.exists() and not destination.is_dir():
        raise BertlineError(f"{destination} is a file; set push.destination to a folder.")
    digest = model_digest(model_dir)
    try:
        destination.mkdir(parents=True, exist_ok=True)
        with _only_pusher(destination):
            _sweep(destination)
            return _find(digest, destination) or _push(model_dir, destination, {**card, "digest": digest})
    except OSError as error:
        raise BertlineError(
            f"{destination}: the model was not pushed, and the versions there are as before: {error}."
            " Make the folder writable with room for the model, or set push.destination to another one."
        ) from error


def pushed_versions(destination: str | Path) -> list[Pushed]:
    """Every version in a destination, the oldest first."""
    found = [Pushed(number, path, read_card(path)) for number, path in _numbered(Path(destination)) if path.is_dir()]
    return sorted(found, key=lambda pushed: pushed.version)


def latest(destination: str | Path) -> Pushed | None:
    """The version that a server would load now."""
    return next(reversed(pushed_versions(destination)), None)


def _numbered(destination: Path) -> list[tuple[int, Path]]:
    """Children whose name is a number; servers read `00000123` as 123."""
    if not destination.is_dir():
        return []
    return [(int(path.name), path) for path in destination.iterdir() if path.name.isascii() and path.name.isdigit()]


def _find(digest: str, destination: Path) -> Pushed | None:
    for pushed in reversed(pushed_versions(destination)):
        # The files are read again: a version that was damaged since does not count as pushed.
        if pushed.card.get("digest") == digest and model_digest(pushed.path) == digest:
            return pushed
    return None


def _push(model_dir: Path, destination: Path, card: dict[str, Any]) -> Pushed:
    incoming = destination / f"{_INCOMING}{uuid.uuid4().hex}"
    try:
        shutil.copytree(model_dir, incoming)
        pushed = _take_number(incoming, destination, card)
    except BaseException:
        shutil.rmtree(incoming, ignore_errors=True)
        raise
    _sync(destination)
    return replace(pushed, fresh=True)


def _take_number(incoming: Path, destination: Path, card: dict[str, Any]) -> Pushed:
    while True:
        version = max(_last_number(destination), *(number for number, _ in _numbered(destination)), 0) + 1
        target = destination / str(version)
        numbered_card = {**card, "version": version}
        write_card(incoming, numbered_card)
        for path in (*incoming.rglob("*"), incoming):
            _sync(path)
        try:
            incoming.rename(target)
        except OSError:
            if not target.exists():
                raise
            # A pusher that does not know our lock was quicker: the next number is free.
        else:
            (destination / _LAST).write_text(f"{version}\n")
            return Pushed(version, target, numbered_card)


def _last_number(destination: Path) -> int:
    try:
        return int((destination / _LAST).read_text())
    except (OSError, ValueError):
        return 0


def _sync(path: Path) -> None:
    """Waits until a file or a folder's entries are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _only_pusher(destination: Path) -> Iterator[None]:
    """Holds the destination's lock; the system frees it when the process dies."""
    with (destination / _LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _sweep(destination: Path) -> None:
    """Removes what dead pushers left: while the lock is ours, no living one is copying."""
    for leftover in destination.glob(f"{_INCOMING}*"):
        shutil.rmtree(leftover)
