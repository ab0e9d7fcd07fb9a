"""What a pushed model promises to those who load it: the names of its signatures, and metadata that says what it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bertline.pipeline.core.storage import AnyPath, at

DEFAULT_SIGNATURE = "serving_default"
EXAMPLES_SIGNATURE = "serving_examples"
TARGETS_SIGNATURE = "evaluation_targets"
TOKENIZE_SIGNATURE = "tokenize"

METADATA_FILE = Path("assets.extra") / "bertline.json"
"""The metadata inside each model. TensorFlow Serving ignores what it does not know in `assets.extra`."""
WARM_UP = Path("assets.extra") / "tf_serving_warmup_requests"
"""Requests that a version brings along: TFRecords of PredictionLog. A server asks them before it takes others."""
ENCODER = Path("assets.extra") / "encoder"
"""The Hugging Face folder of an encoder that other trainings may start from, inside each model that was pre-trained."""

WITHDRAWN = "withdrawn-"
"""Before the number of a version that servers are not to load any more."""


def read_metadata(folder: str | AnyPath) -> dict[str, Any]:
    """What a model says of itself; empty when it is not of this pipeline."""
    try:
        metadata = json.loads((at(folder) / METADATA_FILE.as_posix()).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return metadata if isinstance(metadata, dict) else {}


def write_metadata(folder: str | Path, metadata: dict[str, Any]) -> None:
    path = Path(folder) / METADATA_FILE
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(metadata, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def folder_bytes(folder: str | Path) -> int:
    """What a model takes on the disk, which is about what its weights take in memory."""
    return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
