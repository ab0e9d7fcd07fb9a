"""Paths as a person reads them."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path


def from_here(path: str | Path | None) -> str:
    """A path, or a text with one in it, as seen from the working directory, where that is shorter."""
    return str(path).replace(f"{Path.cwd()}{os.sep}", "")


def program(name: str) -> str:
    """How a command of ours is called from where the user stands."""
    return name if shutil.which(name) else f"{Path(sys.executable).parent}/{name}".replace(f"{Path.cwd()}/", "")
