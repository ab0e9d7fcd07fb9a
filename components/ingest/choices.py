"""The texts of a row that one is to be chosen from, and which one its label names."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bertline.components.ingest.readers.records import BadRow, Row, as_raw, bad_row

if TYPE_CHECKING:
    from bertline.pipeline.config import DataConfig

NOT_A_CHOICE = "label is none of the choices"
NOT_A_LIST = "choices are not a list"
EMPTY_CHOICE = "empty choice"


def choices_of(row: Row, data: DataConfig) -> list[str] | BadRow:
    """The texts to choose from: of the columns, or of the list in the one column, up to the last that is not empty."""
    columns = data.choice_columns
    found = [row.values.get(column) or "" for column in columns]
    if isinstance(data.choices, str) and found[0].strip():
        try:
            given = json.loads(found[0])
        except ValueError:
            given = None
        if not isinstance(given, list) or not all(isinstance(choice, str) for choice in given):
            reason = f'column {data.choices!r} is not a list of texts; write one as ["…", "…"], or name a column for each'
            return bad_row(row.file, row.line, NOT_A_LIST, reason, as_raw(row.values))
        found = given
    while found and not found[-1].strip():
        found.pop()
    for number, choice in enumerate(found, 1):
        if not choice.strip():
            reason = f"choice {number} of {len(found)} is empty; only those after the last may be left out"
            return bad_row(row.file, row.line, EMPTY_CHOICE, reason, as_raw(row.values))
    return found


def as_index(label: str, columns: Sequence[str], count: int, first: int) -> int | None:
    """Which of so many choices a label names: by its column, its number counted from `first`, or its letter.

    >>> as_index("2", (), 4, first=0), as_index("2", (), 4, first=1), as_index("c", (), 4, first=0)
    (2, 1, 2)
    >>> as_index("ending2", ("ending0", "ending1", "ending2"), 3, first=0), as_index("E", (), 4, first=0)
    (2, None)
    """
    label = label.strip()
    if label in columns:
        index = columns.index(label)
    elif label.isdecimal():
        index = int(label) - first
    elif len(label) == 1 and label.isascii() and label.isalpha():
        index = ord(label.upper()) - ord("A")
    else:
        return None
    return index if 0 <= index < count else None
