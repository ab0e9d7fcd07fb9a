"""Where versions are pushed to: a folder, or a place in a bucket. Either shows a server whole versions only.

A serving process polls for integer-named folders and loads the highest. In a folder a version is copied under a name that
is no number, made durable, and only then renamed: the rename is the one moment at which it exists. A bucket has no renames;
there `saved_model.pb` comes last, without which no server loads anything, and a number belongs to whoever has made a file
of its name first.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bertline.pipeline.core.storage import AnyPath, at, is_remote, reaching, send
from bertline.serving.contract import WITHDRAWN, write_metadata

_LOCK = ".bertline-lock"
_LAST = ".bertline-last"  # the highest number ever given: a version that was removed does not free its number
_INCOMING = ".incoming-"
_CLAIMS = ".bertline-claims"
_MODEL = "saved_model.pb"


def destination_at(place: str | AnyPath) -> Folder | Bucket:
    return Bucket(str(place)) if is_remote(place) else Folder(Path(place))


class Folder:
    """A folder of this machine."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Holds the folder's lock; the system frees it when the process dies. What dead pushers left is removed."""
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / _LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for leftover in self.path.glob(f"{_INCOMING}*"):  # while the lock is ours, no living one is copying
                shutil.rmtree(leftover)
            yield

    def numbered(self, prefix: str = "") -> list[tuple[int, Path]]:
        """Children whose name is a number, after a prefix; servers read `00000123` as 123."""
        return _numbered(self.path, prefix) if self.path.is_dir() else []

    def put(self, model_dir: Path, metadata: dict[str, Any]) -> tuple[int, Path, dict[str, Any]]:
        """Copies a model under the next number; its metadata says which."""
        incoming = self.path / f"{_INCOMING}{uuid.uuid4().hex}"
        try:
            shutil.copytree(model_dir, incoming)
            put = self._take_number(incoming, metadata)
        except BaseException:
            shutil.rmtree(incoming, ignore_errors=True)
            raise
        self.sync()
        return put

    def _take_number(self, incoming: Path, metadata: dict[str, Any]) -> tuple[int, Path, dict[str, Any]]:
        while True:
            version = max(self._last_number(), _highest(self)) + 1
            target = self.path / str(version)
            numbered_metadata = {**metadata, "version": version}
            write_metadata(incoming, numbered_metadata)
            for path in (*incoming.rglob("*"), incoming):
                _sync(path)
            try:
                incoming.rename(target)
            except OSError:
                if not target.exists():
                    raise
                # A pusher that does not know our lock was quicker: the next number is free.
            else:
                (self.path / _LAST).write_text(f"{version}\n")
                return version, target, numbered_metadata

    def _last_number(self) -> int:
        try:
            return int((self.path / _LAST).read_text())
        except (OSError, ValueError):
            return 0

    def move(self, path: Path, name: str) -> None:
        path.rename(path.with_name(name))

    def sync(self) -> None:
        _sync(self.path)


class Bucket:
    """A place in a bucket. Nobody can be kept out of it; a number is given once all the same."""

    def __init__(self, uri: str) -> None:
        self.path = at(uri.rstrip("/"))

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        with reaching(str(self.path)):
            yield

    def numbered(self, prefix: str = "") -> list[tuple[int, AnyPath]]:
        """Those that are whole."""
        with reaching(str(self.path)):
            found = _numbered(self.path, prefix) if self.path.is_dir() else []
            return [(number, path) for number, path in found if (path / _MODEL).is_file()]

    def put(self, model_dir: Path, metadata: dict[str, Any]) -> tuple[int, AnyPath, dict[str, Any]]:
        version = self._claim()
        target, numbered_metadata = self.path / str(version), {**metadata, "version": version}
        with tempfile.TemporaryDirectory() as folder:
            staged = Path(folder) / "model"
            shutil.copytree(model_dir, staged)
            write_metadata(staged, numbered_metadata)
            send(staged, str(target), last=_MODEL)
        return version, target, numbered_metadata

    def _claim(self) -> int:
        claims = self.path / _CLAIMS
        claimed = [int(path.name) for path in claims.iterdir() if path.name.isdigit()] if claims.is_dir() else []
        version = max(_highest(self), *claimed, 0) + 1
        while True:
            try:
                self.path.fs.pipe_file((claims / str(version)).path, b"\n", mode="create")
            except FileExistsError:
                version += 1
            else:
                return version

    def move(self, path: AnyPath, name: str) -> None:
        """Copies, and removes what was copied; the model's own file comes last, and goes first."""
        system, target = path.fs, path.with_name(name)
        names = sorted((file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file()), key=_MODEL.__eq__)
        for file in names:
            system.cp_file((path / file).path, (target / file).path)
        for file in reversed(names):
            system.rm_file((path / file).path)

    def sync(self) -> None:
        """A bucket has what it said it has."""


def _numbered(folder: AnyPath, prefix: str) -> list[tuple[int, Any]]:
    named = [(path.name.removeprefix(prefix), path) for path in folder.iterdir() if path.name.startswith(prefix)]
    return [(int(name), path) for name, path in named if name.isascii() and name.isdigit()]


def _highest(destination: Folder | Bucket) -> int:
    return max((number for prefix in ("", WITHDRAWN) for number, _ in destination.numbered(prefix)), default=0)


def _sync(path: Path) -> None:
    """Waits until a file or a folder's entries are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
