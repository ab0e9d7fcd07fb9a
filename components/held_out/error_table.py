"""The worst mistakes, for a person and for a program."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from typing import Any

from components.held_out.outcomes import Mistake, worst
from components.held_out.rows import HeldOutRows

MOST_ROWS = 50
MOST_CHARACTERS = 500
"""Of a text: enough to see what it is."""

_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{title}</title>
<style>
body {{ font: 14px sans-serif; margin: 1em }}
table {{ border-collapse: collapse }}
th, td {{ border: 1px solid #bbb; padding: 4px 8px; text-align: left; vertical-align: top; max-width: 40em }}
td {{ overflow-wrap: anywhere; white-space: pre-wrap }}
</style>
<h1>{title}</h1>
<table><thead><tr>{head}</tr></thead><tbody>
{body}
</tbody></table></html>
"""


def error_table(rows: HeldOutRows, most: int = MOST_ROWS) -> str:
    """A page of HTML that needs nothing else."""
    records = error_records(rows, most)
    keys = rows.description.text_keys
    columns = ["badness", "expected", "answered", *keys, "id"]
    body = "\n".join(f"<tr>{''.join(f'<td>{_cell(record[name])}</td>' for name in columns)}</tr>" for record in records)
    title = f"The {len(records)} worst of {len(rows)} held-out rows ({rows.description.task})"
    head = "".join(f"<th>{_cell(name)}</th>" for name in columns)
    return _PAGE.format(title=html.escape(title), head=head, body=body)


def error_records(rows: HeldOutRows, most: int = MOST_ROWS) -> list[dict[str, Any]]:
    """The same as records: plain values, the worst first."""
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


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return "<br>".join(html.escape(str(item)) for item in value)
    return f"{value:.3f}" if isinstance(value, float) else html.escape(str(value))
