"""The worst mistakes as plain values, for a page and for a program."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from bertline.components.evaluator.predictions.outcomes import Mistake, worst
from bertline.components.evaluator.predictions.rows import HeldOutRows

MOST_ROWS = 50
MOST_CHARACTERS = 500
"""Of a text: enough to see what it is."""


def error_records(rows: HeldOutRows, most: int = MOST_ROWS) -> list[dict[str, Any]]:
    """Each with its texts under their keys, the worst first."""
    return [_record(mistake, rows.description.text_keys) for mistake in worst(rows, most)]


def error_json(rows: HeldOutRows, most: int = MOST_ROWS) -> str:
    return json.dumps(error_records(rows, most), ensure_ascii=False, indent=1)


def _record(mistake: Mistake, keys: Sequence[str]) -> dict[str, Any]:
    outcome = mistake.outcome
    texts = {
        key: [_cut(text) for text in value] if isinstance(value := mistake.texts[key], list) else _cut(value)
        for key in keys
    }
    said = {"expected": _cut(outcome.expected), "answered": _cut(outcome.answered)}
    return {"id": mistake.id, "badness": round(outcome.badness, 6), "right": outcome.right, **said, **texts}


def _cut(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else text[: MOST_CHARACTERS - 1] + "…"
