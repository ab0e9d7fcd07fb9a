"""What ML Metadata knows of a step's executions: what the last ones made, and why a new one differs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ml_metadata.proto import metadata_store_pb2 as mlmd

from bertline.pipeline.core.storage import at

FINISHED = (mlmd.Execution.COMPLETE, mlmd.Execution.CACHED)


@dataclass(frozen=True)
class Output:
    """An artifact that a step wrote."""

    uri: str
    properties: dict[str, Any] = field(default_factory=dict)
    id: int = 0


def why_again(store: Any, context_name: str) -> str | None:
    """Why a step's last result is not to be taken from the cache, whose key does not know of it.

    TFX would hand on a result without looking whether it is still on the disk; so too the version that a step pushed.
    """
    if store.get_context_by_type_and_name("node", context_name) is None:
        return None
    record = StepExecutions(store, context_name)
    last = record.now if record.now.last_known_state in FINISHED else record.before
    outputs = outputs_of(store, last).values() if last else ()
    for output in outputs:
        if reason := output.properties.get("again"):
            return str(reason)
    return None if is_whole(outputs) else "its last result was deleted"


def is_whole(outputs: Iterable[Output]) -> bool:
    """Whether all of it is on the disk, so too a version that was pushed."""
    places = [place for output in outputs for place in (output.uri, output.properties.get("pushed_destination")) if place]
    return all(at(place).exists() for place in places)


def outputs_of(store: Any, execution: mlmd.Execution) -> dict[str, Output]:
    """What an execution made, by name."""
    return {
        key: Output(artifact.uri, {n: _value(v) for n, v in artifact.custom_properties.items()}, artifact.id)
        for key, artifact in _artifacts(store, execution, mlmd.Event.OUTPUT)
    }


class StepExecutions:
    """A step's newest execution in ML Metadata, beside the finished one before it."""

    def __init__(self, store: Any, context_name: str) -> None:
        self._store = store
        context = store.get_context_by_type_and_name("node", context_name)
        executions = sorted(store.get_executions_by_context(context.id), key=lambda e: e.id)
        self.now = executions[-1]
        self.before = next((e for e in reversed(executions[:-1]) if e.last_known_state in FINISHED), None)

    def outputs(self) -> dict[str, Output]:
        """Of the newest one."""
        return outputs_of(self._store, self.now)

    def changes(self, demanded: str | None) -> Iterator[str]:
        """What differs from the last time, in words; TFX's cache key is made of just these things."""
        if demanded:
            yield demanded
        elif self.before is None:
            yield "first run"
        else:
            old, new = _parameters(self.before), _parameters(self.now)
            for key in sorted(old.keys() | new.keys()):
                if old.get(key) != new.get(key):
                    yield _difference(key, old.get(key), new.get(key))
            inputs_before = dict(self._inputs(self.before))
            for key, ids in self._inputs(self.now).items():
                if inputs_before.get(key) != ids:
                    yield f"its input {key} is new"

    def _inputs(self, execution: mlmd.Execution) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for key, artifact in _artifacts(self._store, execution, mlmd.Event.INPUT):
            found.setdefault(key, []).append(artifact.id)
        return found


def _artifacts(store: Any, execution: mlmd.Execution, kind: int) -> list[tuple[str, mlmd.Artifact]]:
    links = [event for event in store.get_events_by_execution_ids([execution.id]) if event.type == kind]
    artifacts = {artifact.id: artifact for artifact in store.get_artifacts_by_id([link.artifact_id for link in links])}
    return [(link.path.steps[0].key, artifacts[link.artifact_id]) for link in links]


def _value(value: mlmd.Value) -> Any:
    return getattr(value, value.WhichOneof("value"))


def _parameters(execution: mlmd.Execution) -> dict[str, str]:
    """The step's parameters, JSON inside them taken apart, as dotted names."""
    ours = {k: _value(v) for k, v in execution.custom_properties.items() if not k.startswith("__")}
    return dict(_leaves(ours))


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, str) and value[:1] in "{[":
        try:
            value = json.loads(value)
        except ValueError:
            yield name, value
            return
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(item, f"{name}.{key}" if name else str(key))
    else:
        yield name, str(value)


def _difference(key: str, old: str | None, new: str | None) -> str:
    key = key.removeprefix("custom_config.")
    if key.startswith("code."):
        file, _, definition = key.removeprefix("code.").partition(":")  # see `pipeline/orchestration/fingerprints.py`
        return f"the code of {definition} in {file} changed" if definition else f"the code in {file} changed"
    if old is not None and new is not None and len(old) + len(new) < 80:
        return f"{key}: {old} -> {new}"
    return f"{key} changed"
