"""What the page is told of the models: the versions that answer, what each takes and gives, and texts to begin with."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import model_pb2

from bertline.models.responses.base import text_of
from bertline.models.responses.types import EMBED, EMBEDDED
from bertline.models.tasks.base.task import tasks_with
from bertline.serving.client.recognition import CHOICES, Signature, UnknownKindError, kind_of, text_keys
from bertline.serving.client.requests import specs_of
from bertline.serving.contract import DEFAULT_SIGNATURE, read_metadata
from bertline.serving.embedded.errors import RequestError
from bertline.serving.embedded.lifecycle import warm_up
from bertline.serving.embedded.lifecycle.known import Lease, State
from bertline.serving.embedded.lifecycle.manager import Manager
from bertline.serving.embedded.tensors import to_array

Signatures = Mapping[str, meta_graph_pb2.SignatureDef]

_EXAMPLES, _MAX_CHARACTERS = 3, 2000
_MAX_LABELS = 1000
_MAX_ELEMENTS = 1000  # of an example's tensor


def known_models(manager: Manager, *, with_examples: bool) -> list[dict[str, Any]]:
    """Every model with its versions that answer, the newest first.

    Args:
      with_examples: whether texts are shown that models bring along: they may be of the data.
    """
    return [_model(manager, name, with_examples) for name in manager.names()]


def _model(manager: Manager, name: str, with_examples: bool) -> dict[str, Any]:
    versions, problem = [], ""
    try:
        statuses = manager.statuses(model_pb2.ModelSpec(name=name))
    except RequestError as error:
        return {"name": name, "versions": [], "problem": error.message}
    for number, state, failure in statuses:
        if state != State.AVAILABLE:
            told = f"could not be loaded: {failure.message}" if failure else f"is {State.Name(state).lower()}"
            problem = problem or f"version {number} {told}"
            continue
        spec = model_pb2.ModelSpec(name=name)
        spec.version.value = number
        try:
            with manager.lease(spec) as lease:
                versions.append(described(lease, with_examples=with_examples))
        except RequestError:
            continue  # it was unloaded meanwhile
    return {"name": name, "versions": versions, "problem": "" if versions else problem}


def described(lease: Lease, *, with_examples: bool) -> dict[str, Any]:
    """A version, by its metadata where it has any, and by its signatures alone where it has none."""
    signatures: Signatures = lease.servable.signatures
    metadata = read_metadata(str(lease.folder)) if lease.folder else {}
    found: dict[str, Any] = {"version": lease.version, "task": _text(metadata.get("task")), "kind": ""}
    if DEFAULT_SIGNATURE not in signatures:
        return found | {"problem": f"it has no signature {DEFAULT_SIGNATURE}, which this page uses; use REST."}
    signature = _signature(signatures[DEFAULT_SIGNATURE])
    try:
        kind = kind_of(signature)
    except UnknownKindError as error:
        return found | {"problem": f"{error}; use REST."}
    keys = text_keys(kind, signature)
    labels = metadata.get("labels")
    names = [label for label in labels if isinstance(label, str)] if isinstance(labels, list) else []
    return found | {
        "kind": kind.call,
        "task": found["task"] or tasks_with(kind)[0],
        "texts": list(keys),
        "outputs": list(kind.outputs),
        "labels": names[:_MAX_LABELS],
        "positive": _text(metadata.get("positive")),
        "embeds": EMBED in signatures and _is_embed(signatures[EMBED]),
        "examples": _examples(lease.folder, keys) if with_examples and lease.folder else [],
    }


def _signature(found: meta_graph_pb2.SignatureDef) -> Signature:
    return Signature(specs_of(found.inputs), specs_of(found.outputs), found.method_name)


def _is_embed(found: meta_graph_pb2.SignatureDef) -> bool:
    try:
        return kind_of(_signature(found)) is EMBEDDED
    except UnknownKindError:
        return False


def _examples(folder: Path, keys: tuple[str, ...]) -> list[dict[str, Any]]:
    """The first row of each request that a version brings along, where it is short enough to be looked at."""
    rows = []
    try:
        for record in islice(warm_up.records(folder), _EXAMPLES):
            request = record.predict_log.request
            if request.model_spec.signature_name in ("", DEFAULT_SIGNATURE) and set(request.inputs) == set(keys):
                rows.append({key: _first(request.inputs[key], key) for key in keys})
    except (RequestError, OSError, ValueError, IndexError, AttributeError):
        return []  # a page without examples is a page all the same
    return [row for row in rows if sum(map(len, _flat(row))) <= _MAX_CHARACTERS]


def _first(proto: Any, key: str) -> str | list[str]:
    value = to_array(proto, _MAX_ELEMENTS)[0]
    return [text_of(text) for text in value if text] if key == CHOICES else text_of(value)


def _flat(row: Mapping[str, Any]) -> list[str]:
    return [text for value in row.values() for text in (value if isinstance(value, list) else [value])]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
