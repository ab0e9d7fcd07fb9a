"""What a run runs on: versions, the commit of the code, and the machine's load while it runs."""

from __future__ import annotations

import os
import platform
import subprocess
import threading
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import psutil

_PACKAGES = ("bertline", "tensorflow-cpu", "tensorflow", "keras", "tfx", "apache-beam", "tensorflow-text", "mlflow")
_EVERY_SECONDS = 10.0
_MEGABYTE = 1 << 20


def versions() -> dict[str, str]:
    found = {f"version.{name}": _version(name) for name in _PACKAGES}
    machine = {"machine.cores": str(os.cpu_count()), "machine.memory_gb": f"{psutil.virtual_memory().total / 2**30:.0f}"}
    known = {key: value for key, value in found.items() if value}
    return {"version.python": platform.python_version(), **known, **machine}


def commit() -> dict[str, str]:
    """The commit of the code, and whether it was changed since; nothing outside a git checkout."""
    folder = Path(__file__).parent

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10, check=True
        ).stdout.strip()

    try:
        return {"git.commit": git("rev-parse", "HEAD"), "git.dirty": str(bool(git("status", "--porcelain"))).lower()}
    except (OSError, subprocess.SubprocessError):
        return {}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


class Load(threading.Thread):
    """Tells every few seconds what the machine and this process need, until it is stopped.

    The names of what is the machine's are those of MLflow, whose pages show them under `System metrics`.
    """

    def __init__(self, log: Callable[[dict[str, float], int], None], first: int = 0) -> None:
        super().__init__(name="load", daemon=True)
        self._log, self._number = log, first
        self._stopped = threading.Event()

    def run(self) -> None:
        process = psutil.Process()
        psutil.cpu_percent()  # of the time between two calls
        while not self._stopped.wait(_EVERY_SECONDS):
            memory = psutil.virtual_memory()
            load = {
                "system/cpu_utilization_percentage": psutil.cpu_percent(),
                "system/system_memory_usage_megabytes": memory.used / _MEGABYTE,
                "system/system_memory_usage_percentage": memory.percent,
                "system/process_memory_megabytes": process.memory_info().rss / _MEGABYTE,
            }
            self._log(load, self._number)
            self._number += 1

    def stop(self) -> None:
        self._stopped.set()
