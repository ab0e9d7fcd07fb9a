"""What a pushed model promises to those who load it: the names of its signatures, and a card that says what it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bertline.pipeline.core.storage import AnyPath, at

DEFAULT_SIGNATURE = "serving_default"
EXAMPLES_SIGNATURE = "serving_examples"
TARGETS_SIGNATURE = "evaluation_targets"
TOKENIZE_SIGNATURE = "tokenize"

CARD = Path("assets.extra") / "bertline.json"
"""The card inside each model. TensorFlow Serving ignores what it does not know in `assets.extra`."""
WARM_UP = Path("assets.extra") / "tf_serving_warmup_requests"
"""Requests that a version brings along: TFRecords of PredictionLog. A server asks them before it takes others."""
ENCODER = Path("assets.extra") / "encoder"
"""The Hugging Face folder of an encoder that other trainings may start from, inside each model that was pre-trained."""

WITHDRAWN = "withdrawn-"
"""Before the number of a version that servers are not to load any more."""


def read_card(folder: str | AnyPath) -> dict[str, Any]:
    """What a model says of itself; empty when it is not of this line."""
    try:
        card = json.loads((at(folder) / CARD.as_posix()).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return card if isinstance(card, dict) else {}


def write_card(folder: str | Path, card: dict[str, Any]) -> None:
    path = Path(folder) / CARD
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(card, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def folder_bytes(folder: str | Path) -> int:
    """What a model takes on the disk, which is about what its weights take in memory."""
    return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
