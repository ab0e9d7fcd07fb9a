"""Python processes that are started from here, and must find the packages of this project wherever they are started."""

from __future__ import annotations

import os
from pathlib import Path

_ROOT = Path(__file__).parents[3]


def environment_of_child(**changes: str) -> dict[str, str]:
    """This process's own environment, with the project first on PYTHONPATH: it may be run without being installed."""
    found = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(_ROOT), *([found] if found else [])]), **changes}
