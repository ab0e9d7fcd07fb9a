"""Checkpoints of a training whose folder is in a bucket: made on this machine, and copied there whenever one is whole."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bertline.pipeline.core.storage import at, fetch, is_remote, reaching, send


@contextmanager
def checkpoints_at(place: str) -> Iterator[tuple[Path, Callable[[], None]]]:
    """A folder of this machine with the checkpoints that are at `place`, and what is to be called after each new one.

    When the training is over, nothing is left at either; when it breaks off, what was copied stays.
    """
    if not is_remote(place):
        yield Path(place), lambda: None
        return
    bucket = at(place)
    with tempfile.TemporaryDirectory(prefix="bertline-checkpoints-") as parent:
        folder = Path(parent) / bucket.name
        folder.mkdir()
        with reaching(place):
            if bucket.is_dir():
                fetch(place, folder)

        def copy() -> None:
            with reaching(place):
                before = {path.name for path in bucket.iterdir()} if bucket.is_dir() else set()
                now = {path.name for path in folder.iterdir()}
                send(folder, place)
                for name in before - now:  # after the new one is whole
                    (bucket / name).unlink()

        yield folder, copy
        with reaching(place):
            for path in bucket.iterdir() if bucket.is_dir() else ():
                path.unlink()
