"""What becomes of a row: left out on purpose, quarantined, or kept on one side of the split."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

from components.ingest.records import BadRow, Row, Values, as_raw, bad_row
from pipeline.config import DataConfig, LabelKind

EMPTY_TEXT = "empty text"
EMPTY_SECOND = "empty second text"
MISSING_LABEL = "missing label"
LACKING = {"text": EMPTY_TEXT, "text_2": EMPTY_SECOND, "label": MISSING_LABEL}
"""Feature -> what a row without it is called."""
UNKNOWN_SPLIT = "unknown split"
NOT_A_NUMBER = "label is not a number"

Split = Literal["train", "eval"]
SPLITS: tuple[Split, ...] = ("train", "eval")


class KeptRow(NamedTuple):
    split: str
    features: dict[str, str | int | float | Values]
    """`text` (and `text_2`), `label`, `words`, the slice columns and lists; what is missing has no key."""
    missing: tuple[str, ...]
    """Of the values of LACKING, what makes the row incomplete."""

    @property
    def label(self) -> str | None:
        """The name of its class, if labels are classes and it has one."""
        label = self.features.get("label")
        return label if isinstance(label, str) else None


def is_excluded(row: Row, data: DataConfig) -> bool:
    return any(row.values.get(column) in values for column, values in data.exclude.items())


def hashed_split(key: str, eval_share: float) -> Split:
    """The same key is always on the same side, on every machine and however many rows there are."""
    bucket = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big")
    return "eval" if bucket < eval_share * 2**64 else "train"


def split_of(row: Row, data: DataConfig) -> Split | BadRow:
    """The side of a row whose file holds both sides. A row without a group goes by its text."""
    split = data.split
    if split.column is None:
        key = row.values.get(split.group) if split.group is not None else None
        texts = "\0".join(row.values.get(column) or "" for column in data.text_columns.values())
        return hashed_split(key or texts, split.eval_share)
    value = row.values.get(split.column)
    if value is not None and value in split.train:
        return "train"
    if value is not None and value in split.eval:
        return "eval"
    known = f"data.split.train ({', '.join(split.train)}) nor data.split.eval ({', '.join(split.eval)})"
    reason = f"column {split.column!r} says {value!r}, which is neither in {known}"
    return bad_row(row.file, row.line, UNKNOWN_SPLIT, reason, as_raw(row.values))


def as_number(text: str) -> float | None:
    """
    >>> as_number(" 4.25"), as_number("4,25"), as_number("nan")
    (4.25, None, None)
    """
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def sort_row(
    row: Row, data: DataConfig, file_split: str | None, slices: Sequence[str], label: LabelKind = "class"
) -> KeptRow | BadRow | None:
    """What becomes of a row; None if it is left out on purpose."""
    if is_excluded(row, data):
        return None
    split = file_split or split_of(row, data)
    if isinstance(split, BadRow):
        return split
    columns = data.text_columns | ({"label": data.label} if data.label else {})
    given = {name: row.values.get(column) for name, column in columns.items()}
    present = {name: value for name, value in given.items() if value is not None and value.strip()}
    absent = [name for name in columns if name not in present]
    if absent and data.incomplete == "quarantine":
        what = LACKING[absent[0]]
        return bad_row(row.file, row.line, what, f"{what} (column {columns[absent[0]]!r})", as_raw(row.values))
    words = sum(len(present.get(name, "").split()) for name in data.text_columns)
    features: dict[str, str | int | float | Values] = {**present, **row.lists, "words": words}
    if label == "number" and "label" in present:
        number = as_number(present["label"])
        if number is None:
            reason = f"column {data.label!r} says {present['label']!r}, which is not a number"
            return bad_row(row.file, row.line, NOT_A_NUMBER, reason, as_raw(row.values))
        features["label"] = number
    for name in slices:
        if (value := row.values.get(name)) is not None:
            features[name] = value
    return KeptRow(split, features, tuple(LACKING[name] for name in absent))
