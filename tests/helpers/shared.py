"""What takes long to make and is only looked at: made once in a test run, whichever of its processes asks first."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any


def made_once(tmp_path_factory: Any, name: str, make: Callable[[Path], None]) -> Path:
    """The folder that `make` has filled; a failure is everybody's."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder, done = shared / name, shared / f"{name}.done"
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # whoever comes second waits until it is made
        if not done.exists():
            folder.mkdir()
            make(folder)
            done.touch()
    return folder


@cache
def process_folder() -> Path:
    """For what one process makes once and several of its files copy; it is gone when the process ends."""
    folder = tempfile.TemporaryDirectory(prefix="bertline-tests-", ignore_cleanup_errors=True)
    _KEPT.append(folder)
    return Path(folder.name)


_KEPT: list[Any] = []
"""A TemporaryDirectory goes with its object."""
