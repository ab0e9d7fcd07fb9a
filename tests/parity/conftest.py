"""The optional tier, against PyTorch itself. It stands outside the default run: it never skips, it runs or says why not."""

from __future__ import annotations

import importlib.util
import tomllib
from pathlib import Path

import pytest

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
MEASURED: dict[str, float] = {}


def pytest_configure(config):
    if all(map(importlib.util.find_spec, ("torch", "transformers"))):
        return
    # By their names, not as .[parity]: pip would resolve the project itself too, which only uv can.
    extra = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]["parity"]
    raise pytest.UsageError(f"these tests need PyTorch (CPU): .venv/bin/python -m pip install {' '.join(extra)}")


@pytest.fixture(scope="session")
def measured() -> dict[str, float]:
    """What was compared -> the largest difference of any number; printed at the end."""
    return MEASURED


def pytest_terminal_summary(terminalreporter):
    for name, difference in MEASURED.items():
        terminalreporter.write_line(f"largest difference  {difference:.1e}  {name}")
