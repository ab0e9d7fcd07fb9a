"""What the registry is told of a model, from the model's own folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bertline.components.pusher.executor import Pushed, model_digest
from bertline.components.tracking.backend.registry import CANDIDATE, CHAMPION
from bertline.components.tracking.journal import Operation
from bertline.models.kinds import ENCODER
from bertline.models.responses.base import plain
from bertline.models.tasks.base.task import kind_for
from bertline.pipeline.config import Config
from bertline.pipeline.core.storage import AnyPath, is_remote
from bertline.serving.contract import folder_bytes, read_metadata


def candidate(config: Config, folder: str | Path) -> Operation:
    """A model that was trained."""
    sample = _sample(Path(folder)) if config.tracking.texts else {}
    return {**_described(config.name, Path(folder), model_digest(folder), (CANDIDATE,)), **sample}


def facts(folder: str | Path) -> dict[str, Any]:
    """How large a model is: its parameters, what shapes it, and the bytes of its folder; for people who compare runs."""
    metadata = read_metadata(folder)
    described = metadata.get("model", {})
    return {
        "kind": metadata.get("kind", ENCODER),
        "parameters": described.get("parameters"),
        "sizes": described.get("size", {}),
        "bytes": folder_bytes(folder),
    }


def champion(name: str, pushed: Pushed) -> Operation:
    """The version that servers load."""
    digest = pushed.metadata.get("digest") or model_digest(pushed.path)
    return {**_described(name, pushed.path, digest, (CHAMPION,)), "version": pushed.version}


def _described(name: str, folder: AnyPath, digest: str, aliases: Sequence[str]) -> Operation:
    metadata = read_metadata(folder)
    return {
        "name": name,
        "digest": digest,
        "path": str(folder if is_remote(folder) else folder.absolute()),
        "task": metadata.get("task", "unknown"),
        "kind": metadata.get("kind", ENCODER),
        "inputs": metadata.get("text_keys", ["text"]),
        "aliases": list(aliases),
    }


def _sample(folder: Path) -> dict[str, Any]:
    """A request that the model brings along, and its answer as a caller of the registered model gets it."""
    from bertline.components.serve_check.executor import read_samples

    samples = read_samples(folder)
    if not samples:
        return {}
    sample = samples[len(samples) // 2]
    asked, given = ({key: value[0] for key, value in part.items()} for part in (sample.inputs, sample.outputs))
    kind = kind_for(read_metadata(folder)["task"])
    return {"example": plain(asked), "answer": (kind.plain if kind else plain)(given)}
