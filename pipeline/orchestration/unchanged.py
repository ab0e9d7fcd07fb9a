"""A run in which nothing changed: its steps are looked up in ML Metadata, without TensorFlow, Beam or TFX.

Importing these and asking TFX's launcher step by step took 15 seconds of a run that then did nothing. So a run that came
to its end is remembered under a fingerprint of all that it followed from: the config, the digests of what it read, every
source file of ours, and the versions of what we build on. The next run with that fingerprint finds the executions of the
last one, looks whether TFX's cache would still give just these, and writes to ML Metadata what TFX's launcher would: a
cached execution of every step, with the same inputs and outputs. In all other cases the launcher decides, as ever.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ml_metadata.metadata_store.metadata_store import MetadataStore
from ml_metadata.proto import metadata_store_pb2 as mlmd

from bertline.components.tracking import system
from bertline.components.tracking.journal import Operation
from bertline.pipeline.config import Config, LabelKind
from bertline.pipeline.console.summary import Summary
from bertline.pipeline.core import events
from bertline.pipeline.orchestration.executions import FINISHED, Output, is_whole, outputs_of, why_again
from bertline.pipeline.orchestration.fingerprints import InputDigests, all_sources
from bertline.pipeline.runs.record import RunRecord

_LIMIT = 20
"""Runs with different fingerprints that are remembered."""
_RUN, _CACHE_KEY = "pipeline_run", "execution_cache"
"""TFX's types of contexts: of a run, and of what its cache finds executions by."""


@dataclass(frozen=True)
class Remembered:
    """A run that came to its end."""

    identity: str
    """By which its MLflow run would be gone on with, had it been killed."""
    label: LabelKind | None
    executions: Mapping[str, int]
    """The steps in their order, and the number of each one's execution in ML Metadata."""
    registered: Operation | None
    """What the registry was told of its model."""

    def write(self, config: Config, fingerprint: str) -> None:
        path = _path(config)
        known = {**_read(path), fingerprint: asdict(self)}
        newest = dict([*known.items()][-_LIMIT:])
        unfinished = path.with_suffix(".part")
        unfinished.write_text(json.dumps(newest, indent=1) + "\n")
        os.replace(unfinished, path)

    @classmethod
    def find(cls, config: Config, fingerprint: str) -> Remembered | None:
        found = _read(_path(config)).get(fingerprint)
        return cls(**found) if found else None


def fingerprint(config: Config, digests: InputDigests) -> str:
    """Of all that a run follows from."""
    parts = [config.to_json(), json.dumps(asdict(digests)), all_sources(), json.dumps(system.versions())]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def run_from_cache(config: Config, fingerprint: str, log: Path) -> Summary | None:
    """Records a run whose steps all come from the cache; None where one of them has to be run."""
    remembered = Remembered.find(config, fingerprint)
    if remembered is None or not config.metadata_path.is_file():
        return None
    connection = mlmd.ConnectionConfig()
    connection.sqlite.filename_uri = str(config.metadata_path)
    store = MetadataStore(connection)
    executions = {execution.id: execution for execution in store.get_executions_by_id([*remembered.executions.values()])}
    steps = {name: executions.get(number) for name, number in remembered.executions.items()}
    found = {
        name: execution
        for name, execution in steps.items()
        if execution and _would_be_taken(store, f"{config.name}.{name}", execution)
    }
    if not steps or len(found) < len(steps):
        return None
    record = RunRecord(config, remembered.label, registered=remembered.registered)
    record.summary.log = str(log)
    with record.kept(remembered.identity):
        for name, outputs in _taken(store, found, record.run_id):
            record.learn_from(name, outputs)
    return record.summary


def _would_be_taken(store: MetadataStore, context_name: str, execution: mlmd.Execution) -> bool:
    """Whether the step, run again, would come from TFX's cache, and with the outputs of just this execution."""
    if execution.last_known_state not in FINISHED or why_again(store, context_name):
        return False
    outputs = outputs_of(store, execution)
    keys = [context for context in store.get_contexts_by_execution(execution.id) if context.type == _CACHE_KEY]
    if not is_whole(outputs.values()) or len(keys) != 1:
        return False
    alike = [other for other in store.get_executions_by_context(keys[0].id) if other.last_known_state in FINISHED]
    newest = max(alike, key=lambda other: other.id)
    return newest.id == execution.id or _ids(outputs_of(store, newest)) == _ids(outputs)


def _taken(
    store: MetadataStore, steps: Mapping[str, mlmd.Execution], run_id: str
) -> Iterator[tuple[str, dict[str, Output]]]:
    """Writes a cached execution of each step; yields its outputs."""
    for name, before in steps.items():
        events.emit(events.StepStarted(name))
        began = time.perf_counter()
        links = store.get_events_by_execution_ids([before.id])
        artifacts = {artifact.id: artifact for artifact in store.get_artifacts_by_id([e.artifact_id for e in links])}
        pairs = [(artifacts[e.artifact_id], mlmd.Event(type=e.type, path=e.path, artifact_id=e.artifact_id)) for e in links]
        number, _, _ = store.put_execution(
            _copy(before, last_known_state=mlmd.Execution.CACHED, name=str(uuid.uuid4())),
            pairs,
            [_of_run(context, run_id) for context in store.get_contexts_by_execution(before.id)],
            reuse_context_if_already_exist=True,
        )
        outputs = outputs_of(store, before)
        seconds = time.perf_counter() - began
        events.emit(events.StepFinished(name, seconds, True, (), number, _ids(outputs)))
        yield name, outputs


def _of_run(context: mlmd.Context, run_id: str) -> mlmd.Context:
    """The same context of another run; what is of no run is the same one."""
    return _copy(context, name=run_id) if context.type == _RUN else context


def _copy(message: Any, **changes: Any) -> Any:
    """A new one of its kind for ML Metadata, with other values in some fields."""
    made = type(message)(type_id=message.type_id, **changes)
    for name in ("properties", "custom_properties"):
        for key, value in getattr(message, name).items():
            getattr(made, name)[key].CopyFrom(value)
    return made


def _ids(outputs: Mapping[str, Output]) -> dict[str, int]:
    return {key: output.id for key, output in outputs.items()}


def _path(config: Config) -> Path:
    return config.home / "finished-runs.json"


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
