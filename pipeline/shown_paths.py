"""Paths as a person reads them."""

from __future__ import annotations

import os
from pathlib import Path


def from_here(path: str | Path | None) -> str:
    """A path, or a text with one in it, as seen from the working directory, where that is shorter."""
    return str(path).replace(f"{Path.cwd()}{os.sep}", "")
