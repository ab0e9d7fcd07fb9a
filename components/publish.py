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
from serving.contract import CARD, WITHDRAWN, read_card, write_card

RUN_VARIABLE = "BERTLINE_MLFLOW_RUN"
"""Names the MLflow run to the Pusher. A parameter of the step would be part of its cache key, and no two runs are alike."""
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
    withdrawn: bool = False
    """Whether somebody has taken it back: servers do not see it."""


@dataclass(frozen=True)
class Rollback:
    """What a rollback has changed."""

    served: Pushed
    """What a server loads now."""
    withdrawn: tuple[int, ...] = ()
    restored: tuple[int, ...] = ()


@contextlib.contextmanager
def pushed_by(run_id: str | None) -> Iterator[None]:
    """What is pushed inside has this MLflow run on its card; without one, what stands outside goes on."""
    before = os.environ.get(RUN_VARIABLE)
    if run_id:
        os.environ[RUN_VARIABLE] = run_id
    try:
        yield
    finally:
        os.environ.pop(RUN_VARIABLE, None)
        if before is not None:
            os.environ[RUN_VARIABLE] = before


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

    A model that stands there already, byte for byte, keeps its number; one that was withdrawn stays so, for a run that is
    given again must not undo what somebody decided since. Pushers that run at the same time take turns;
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
            found = _find(digest, pushed_versions(destination)) or _find(digest, withdrawn_versions(destination))
            return found or _push(model_dir, destination, {**card, "digest": digest})
    except OSError as error:
        raise BertlineError(
            f"{destination}: the model was not pushed, and the versions there are as before: {error}."
            " Make the folder writable with room for the model, or set push.destination to another one."
        ) from error


def pushed_versions(destination: str | Path) -> list[Pushed]:
    """Every version in a destination, the oldest first."""
    found = [Pushed(number, path, read_card(path)) for number, path in _numbered(Path(destination)) if path.is_dir()]
    return sorted(found, key=lambda pushed: pushed.version)


def withdrawn_versions(destination: str | Path) -> list[Pushed]:
    """Those that a rollback took back, the oldest first."""
    found = [
        Pushed(number, path, read_card(path), withdrawn=True)
        for number, path in _numbered(Path(destination), WITHDRAWN)
        if path.is_dir()
    ]
    return sorted(found, key=lambda pushed: pushed.version)


def roll_back(destination: str | Path, to: int | None = None) -> Rollback:
    """Lets servers go back to the version before, or to a certain one.

    Versions are withdrawn by another name, which is no number: nothing is lost, and their numbers are not given again. A
    server that has the newest one loaded answers by it until the one before is loaded.

    Args:
      destination: folder of the versions.
      to: the version to be served; one that was withdrawn comes back, and those above it are withdrawn.
    """
    destination = Path(destination)
    if not pushed_versions(destination) and not withdrawn_versions(destination):
        raise BertlineError(f"{destination}: there are no versions here; `bertline run` pushes one.")
    try:
        with _only_pusher(destination):
            return _roll_back(destination, to)
    except OSError as error:
        raise BertlineError(f"{destination}: the rollback broke off: {error}. Make the folder writable.") from error


def _roll_back(destination: Path, to: int | None) -> Rollback:
    there = {pushed.version: pushed for pushed in pushed_versions(destination)}
    gone = {pushed.version: pushed for pushed in withdrawn_versions(destination)}
    if to is None:
        if len(there) < 2:
            only = f"version {max(there)} is the only one" if there else "every version is withdrawn"
            back = f"; --to {max(gone)} brings back one that was withdrawn" if gone else ""
            raise BertlineError(f"{destination}: {only}, so there is none before it to return to{back}.")
        to = sorted(there)[-2]
    elif to not in there and to not in gone:
        known = ", ".join(map(str, sorted({*there, *gone})))
        raise BertlineError(f"{destination}: there is no version {to}; there are {known}.")
    restored = to not in there
    if restored:
        path = gone[to].path
        path.rename(path.with_name(path.name.removeprefix(WITHDRAWN)))
    above = sorted(version for version in there if version > to)
    for version in above:  # the newest last: a server that looks meanwhile sees no change before the last one
        path = there[version].path
        path.rename(path.with_name(f"{WITHDRAWN}{path.name}"))
    _sync(destination)
    served = latest(destination)
    assert served is not None
    return Rollback(served, tuple(above), (to,) if restored else ())


def latest(destination: str | Path) -> Pushed | None:
    """The version that a server would load now."""
    return next(reversed(pushed_versions(destination)), None)


def _numbered(destination: Path, prefix: str = "") -> list[tuple[int, Path]]:
    """Children whose name is a number, after a prefix; servers read `00000123` as 123."""
    if not destination.is_dir():
        return []
    named = [(path.name.removeprefix(prefix), path) for path in destination.iterdir() if path.name.startswith(prefix)]
    return [(int(name), path) for name, path in named if name.isascii() and name.isdigit()]


def _find(digest: str, versions: list[Pushed]) -> Pushed | None:
    for pushed in reversed(versions):
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
        taken = [number for prefix in ("", WITHDRAWN) for number, _ in _numbered(destination, prefix)]
        version = max(_last_number(destination), *taken, 0) + 1
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
