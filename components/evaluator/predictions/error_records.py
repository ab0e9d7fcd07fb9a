"""The worst mistakes as plain values, for a page and for a program."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from bertline.components.evaluator.predictions.outcomes import Mistake, worst
from bertline.components.evaluator.predictions.rows import EvaluationPredictions

MAX_EXAMPLES = 50
MAX_CHARACTERS = 500
"""Of a text: enough to see what it is."""


def error_records(rows: EvaluationPredictions, limit: int = MAX_EXAMPLES) -> list[dict[str, Any]]:
    """Each with its texts under their keys, the worst first."""
    return [_record(mistake, rows.description.text_keys) for mistake in worst(rows, limit)]


def error_json(rows: EvaluationPredictions, limit: int = MAX_EXAMPLES) -> str:
    return json.dumps(error_records(rows, limit), ensure_ascii=False, indent=1)


def _record(mistake: Mistake, keys: Sequence[str]) -> dict[str, Any]:
    outcome = mistake.outcome
    texts = {
        key: [_cut(text) for text in value] if isinstance(value := mistake.texts[key], list) else _cut(value)
        for key in keys
    }
    said = {"expected": _cut(outcome.expected), "answered": _cut(outcome.answered)}
    return {"id": mistake.id, "badness": round(outcome.badness, 6), "right": outcome.right, **said, **texts}


def _cut(text: str) -> str:
    return text if len(text) <= MAX_CHARACTERS else text[: MAX_CHARACTERS - 1] + "…"
