"""What a step depends on beside its inputs: the code behind it, and files that the config names.

TFX's cache knows neither, so both are passed to the steps as parameters. They are readable, file by file, so that the log
can say which one changed.

The code behind a step is what its modules import, directly or not. Of `pipeline` steps import the config, with its
properties and validators, the storage and the errors. These count definition by definition, for `bertline.pipeline.config`
imports every section, and another property of the training must not have the data read again: a step is known by the
sections that its code names, by all that these refer to, and by nothing else of `pipeline`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint
from pathlib import Path

from bertline.components.ingest.files import digest
from bertline.pipeline.config import Config, own_tasks
from bertline.pipeline.core import plugins, storage
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.orchestration.source_code import Reference, Source

ROOT = Path(__file__).parents[2]
PACKAGES = ("pipeline", "components", "models", "serving")

# They only tell what happens, or name what is handed on: changing them changes no result.
_WITHOUT_EFFECT = ("bertline.pipeline.core.events", "bertline.components.artifacts")
_BY_DEFINITION = "bertline.pipeline"


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


def code_fingerprint(*modules: str, added: Iterable[EntryPoint] = ()) -> str:
    """JSON of source -> digest, over the modules and all of ours that they import, directly or not.

    A source is a file, or FILE:NAME, one definition in a file of `pipeline`.

    Args:
      added: what other packages give to the step. All of their code counts, with what it imports of ours.
    """
    seen: dict[str, str] = {}
    known: set[Reference] = set()
    waiting = [Reference(module) for module in modules]
    for point in added:
        seen |= plugins.digests(point)
        waiting += [found for path in plugins.sources(point) for found in Source(path.stem, path.read_bytes()).references]
    while waiting:
        reference = waiting.pop()
        if reference not in known:
            known.add(reference)
            digests, further = _reached(reference)
            seen |= digests
            waiting += further
    return json.dumps(seen, sort_keys=True)


def task_modules(task: str) -> list[str]:
    """The module of a task of ours."""
    return [f"bertline.models.tasks.{task}"] if task in own_tasks() else []


def added_to(config: Config, *groups: str) -> list[EntryPoint]:
    """What other packages add to a run: its task, its reader, and metrics, which any task may have."""
    wanted = {
        plugins.TASKS: [config.task] if config.task not in own_tasks() else [],
        plugins.READERS: [config.data.format] if config.data.format in plugins.registered(plugins.READERS) else [],
        plugins.METRICS: plugins.registered(plugins.METRICS),
    }
    return [plugins.point_of(group, name) for group in groups for name in wanted[group] if name]


def file_fingerprint(path: str | None) -> str:
    """Digest of a file, or of the weights and settings in a checkpoint's folder; empty without one."""
    if not path:
        return ""
    place = Path(storage.local_copy(path))
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


def _reached(reference: Reference) -> tuple[dict[str, str], list[Reference]]:
    """Digests of what a reference leads to, and where that leads."""
    module, name = reference
    path, by_definition = _path(module), module.startswith(_BY_DEFINITION)
    if name and (path is None or path.name == "__init__.py") and _path(f"{module}.{name}"):
        # `from bertline.models.data import batching` names a module, which comes with what its package does on
        # import.
        idle = path is None or (by_definition and _parsed(module, path.read_bytes()).hands_on_only)
        return {}, [Reference(f"{module}.{name}"), *([] if idle else [Reference(module)])]
    if path is None or module.startswith(_WITHOUT_EFFECT):
        return {}, []
    source = _parsed(module, path.read_bytes())
    file = str(path.relative_to(ROOT))
    if name is None:
        return {file: source.digest}, source.references
    if by_definition and (definition := source.definition(name)):
        return {f"{file}:{name}": definition.digest} if definition.digest else {}, definition.references
    return {}, [Reference(module), *source.on_demand.get(name, [])]


def _path(module: str) -> Path | None:
    top, *names = module.split(".")
    if top != "bertline" or not names or names[0] not in PACKAGES:
        return None
    base = ROOT / Path(*names)
    candidates = (base.with_suffix(".py"), base / "__init__.py")
    return next((path for path in candidates if path.is_file()), None)


@cache
def _parsed(module: str, text: bytes) -> Source:
    return Source(module, text)
