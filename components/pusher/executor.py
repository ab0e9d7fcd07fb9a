"""The Pusher's work: a model becomes a numbered version that a server never sees half-copied.

`components/pusher/destinations.py` says how, in a folder and in a bucket. `components/pusher/component.py` is the
pipeline's door.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bertline.components.pusher.destinations import Bucket, Folder, destination_at
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.core.storage import AnyPath, at
from bertline.serving.contract import METADATA_FILE, WITHDRAWN, read_metadata

RUN_VARIABLE = "BERTLINE_MLFLOW_RUN"
"""Names the MLflow run to the Pusher. A parameter of the step would be part of its cache key, and no two runs are alike."""


@dataclass(frozen=True)
class Pushed:
    """One version in a destination."""

    version: int
    path: AnyPath
    metadata: Mapping[str, Any] = field(default_factory=dict)
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
    """What is pushed inside has this MLflow run in its metadata; without one, what stands outside goes on."""
    before = os.environ.get(RUN_VARIABLE)
    if run_id:
        os.environ[RUN_VARIABLE] = run_id
    try:
        yield
    finally:
        os.environ.pop(RUN_VARIABLE, None)
        if before is not None:
            os.environ[RUN_VARIABLE] = before


def model_digest(model_dir: str | AnyPath) -> str:
    """SHA-256 of the names and bytes of all files of a model, our own metadata left out."""
    root = at(model_dir)
    files = sorted(
        (path.relative_to(root).as_posix(), path)
        for path in root.rglob("*")
        if path.is_file() and path.relative_to(root).as_posix() != METADATA_FILE.as_posix()
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


def publish(model_dir: str | Path, destination: str | AnyPath, metadata: Mapping[str, Any]) -> Pushed:
    """Puts a model into `destination` under the next number, once.

    A model that stands there already, byte for byte, keeps its number; one that was withdrawn stays so, for a run that is
    given again must not undo what somebody decided since. Pushers that run at the same time take turns;
    one that dies leaves nothing that a server would load, and in a folder the next sweeps up what it left.

    Args:
      model_dir: folder of the SavedModel.
      destination: folder that a server watches, here or in a bucket; made when it is missing.
      metadata: what to write into the version's `assets.extra/bertline.json`, beside its digest and number.
    """
    model_dir, folder = Path(model_dir), destination_at(destination)
    if not (model_dir / "saved_model.pb").is_file():
        raise BertlineError(f"{model_dir}: no SavedModel here to push; run the Trainer first.")
    if folder.path.is_file():
        raise BertlineError(f"{destination} is a file; set push.destination to a folder.")
    digest = model_digest(model_dir)
    try:
        with folder.alone():
            found = _find(digest, pushed_versions(destination)) or _find(digest, withdrawn_versions(destination))
            return found or _fresh(*folder.put(model_dir, {**metadata, "digest": digest}))
    except OSError as error:
        raise BertlineError(
            f"{destination}: the model was not pushed, and the versions there are as before: {error}."
            " Make the folder writable with room for the model, or set push.destination to another one."
        ) from error


def _fresh(version: int, path: AnyPath, metadata: Mapping[str, Any]) -> Pushed:
    return Pushed(version, path, metadata, fresh=True)


def pushed_versions(destination: str | AnyPath) -> list[Pushed]:
    """Every version in a destination, the oldest first."""
    return _versions(destination)


def withdrawn_versions(destination: str | AnyPath) -> list[Pushed]:
    """Those that a rollback took back, the oldest first."""
    return _versions(destination, WITHDRAWN)


def _versions(destination: str | AnyPath, prefix: str = "") -> list[Pushed]:
    numbered = destination_at(destination).numbered(prefix)
    found = [
        Pushed(number, path, read_metadata(path), withdrawn=bool(prefix)) for number, path in numbered if path.is_dir()
    ]
    return sorted(found, key=lambda pushed: pushed.version)


def roll_back(destination: str | AnyPath, to: int | None = None) -> Rollback:
    """Lets servers go back to the version before, or to a certain one.

    Versions are withdrawn by another name, which is no number: nothing is lost, and their numbers are not given again. A
    server that has the newest one loaded answers by it until the one before is loaded.

    Args:
      destination: folder of the versions.
      to: the version to be served; one that was withdrawn comes back, and those above it are withdrawn.
    """
    folder = destination_at(destination)
    if not pushed_versions(destination) and not withdrawn_versions(destination):
        raise BertlineError(f"{destination}: no versions here; `bertline run` pushes one.")
    try:
        with folder.alone():
            return _roll_back(folder, to)
    except OSError as error:
        raise BertlineError(f"{destination}: the rollback failed: {error}. Make the folder writable.") from error


def _roll_back(folder: Folder | Bucket, to: int | None) -> Rollback:
    destination = folder.path
    there = {pushed.version: pushed for pushed in pushed_versions(destination)}
    gone = {pushed.version: pushed for pushed in withdrawn_versions(destination)}
    if to is None:
        if len(there) < 2:
            only = f"version {max(there)} is the only one" if there else "every version is withdrawn"
            back = f"; --to {max(gone)} restores one that was withdrawn" if gone else ""
            raise BertlineError(f"{destination}: {only}, so there is no previous one{back}.")
        to = sorted(there)[-2]
    elif to not in there and to not in gone:
        known = ", ".join(map(str, sorted({*there, *gone})))
        raise BertlineError(f"{destination}: there is no version {to}; there are {known}.")
    restored = to not in there
    if restored:
        path = gone[to].path
        folder.move(path, path.name.removeprefix(WITHDRAWN))
    above = sorted(version for version in there if version > to)
    for version in above:  # the newest last: a server that looks meanwhile sees no change before the last one
        path = there[version].path
        folder.move(path, f"{WITHDRAWN}{path.name}")
    folder.sync()
    served = latest(destination)
    assert served is not None
    return Rollback(served, tuple(above), (to,) if restored else ())


def latest(destination: str | AnyPath) -> Pushed | None:
    """The version that a server would load now."""
    return next(reversed(pushed_versions(destination)), None)


def _find(digest: str, versions: list[Pushed]) -> Pushed | None:
    for pushed in reversed(versions):
        # The files are read again: a version that was damaged since does not count as pushed.
        if pushed.metadata.get("digest") == digest and model_digest(pushed.path) == digest:
            return pushed
    return None
