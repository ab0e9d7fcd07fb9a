"""What a step depends on beside its inputs: the code behind it, and files that the config names.

TFX's cache knows neither, so both are passed to the steps as parameters. They are readable, file by file, so that the log
can say which one changed.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from components.ingest.files import digest
from pipeline import storage
from pipeline.config import Config
from pipeline.errors import BertlineError

ROOT = Path(__file__).parent.parent
PACKAGES = ("pipeline", "components", "models", "serving")

# Their values reach the steps as parameters, or they only tell what happens: changing them changes no result.
_WITHOUT_EFFECT = ("pipeline", "components.events", "components.artifacts")


@dataclass(frozen=True)
class InputDigests:
    """Of the files that a config names; they are read once a run."""

    data: str
    vocab: str
    checkpoint: str

    @classmethod
    def of(cls, config: Config, *, data: bool = True) -> InputDigests:
        """Args: data: whether the raw files can be looked at from here."""
        vocab = config.text.vocab, config.text.target_vocab
        return cls(
            data=digest(config.data) if data else "",
            vocab=" ".join(map(file_fingerprint, vocab)).strip(),
            checkpoint=file_fingerprint(config.model.checkpoint),
        )


def all_sources() -> str:
    """One digest of every source file of ours."""
    total = hashlib.sha256()
    for path in sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        total.update(f"{path.relative_to(ROOT)}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()


def code_fingerprint(*modules: str) -> str:
    """JSON of source file -> digest, over the modules and all of ours that they import, directly or not."""
    seen: dict[str, str] = {}
    waiting = list(modules)
    while waiting:
        module = waiting.pop()
        path = _source(module)
        if path is None or module.startswith(_WITHOUT_EFFECT) or (name := str(path.relative_to(ROOT))) in seen:
            continue
        seen[name] = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
        waiting += _imports(path)
    return json.dumps(seen, sort_keys=True)


def file_fingerprint(path: str | None) -> str:
    """Digest of a file, or of the weights and settings in a checkpoint's folder; empty without one."""
    if not path:
        return ""
    place = Path(storage.at_hand(path))
    if not place.exists():
        raise BertlineError(f"{path}: there is no such file or folder; correct the path in the config.")
    files = [place] if place.is_file() else sorted(file for file in place.iterdir() if file.is_file())
    files += sorted(place.glob("1_Pooling/config.json"))  # which may choose the pooling
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.name.encode())
        with file.open("rb") as stream:
            while chunk := stream.read(1 << 20):
                digest.update(chunk)
    return digest.hexdigest()[:16]


def _source(module: str) -> Path | None:
    if module.partition(".")[0] not in PACKAGES:
        return None
    base = ROOT / Path(*module.split("."))
    candidates = (base.with_suffix(".py"), base / "__init__.py")
    return next((path for path in candidates if path.is_file()), None)


@cache
def _imports(path: Path) -> list[str]:
    found = []
    for node in _statements(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            # `from models import inputs` names a module, `from models.task import Task` a value in one.
            found += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return found


def _statements(node: ast.AST) -> Iterator[ast.stmt]:
    """All statements below, with the imports among them; to walk through every expression takes as long as parsing."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        for child in getattr(node, field, ()):
            if isinstance(child, ast.stmt):
                yield child
            yield from _statements(child)
