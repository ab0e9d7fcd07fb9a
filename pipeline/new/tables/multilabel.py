"""Rows with any number of classes: in a list, or in one column with a mark between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from bertline.components.ingest.rows import as_classes
from bertline.pipeline.new.guess import FROM_SCRATCH, NEEDS_CHECKPOINT, Guess, Setting, room_for
from bertline.pipeline.new.tables import columns
from bertline.pipeline.new.tables.row_settings import row_settings, texts_of
from bertline.pipeline.new.tables.table import Table

_DELIMITERS = (",", ";", "|")
_MIN_FRACTION = 0.05
"""Of the rows with a class, so many have a second one at least."""
_MAX_WORDS = 4


class _Found(NamedTuple):
    column: str
    delimiter: str
    classes: Counter[str]


def guess_several(table: Table) -> Guess | None:
    texts = columns.main_texts(table)
    found = _find(table, [name for name in table.columns if name not in texts]) if texts else None
    if found is None:
        return None
    complete = table.complete(texts)
    often = found.classes.most_common()
    shown = ", ".join(f"{name} ({count:,})" for name, count in often[:5])
    more = f", {len(often) - 5} more" if len(often) > 5 else ""
    between = Setting("label_delimiter", None if found.delimiter == "," else found.delimiter)
    return Guess(
        task="multilabel",
        why=f"any number of {len(often)} classes per example",
        seen=table.seen,
        data=row_settings(table, texts, Setting("label", found.column, f"{shown}{more}"), complete, between),
        seq_len=room_for(texts_of(complete, texts)),
        thresholds={"micro_f1": 0.3},
        why_thresholds="over the decisions of all classes; predicting no class has 0",
        model=NEEDS_CHECKPOINT if len(texts) == 2 else FROM_SCRATCH,
    )


def _find(table: Table, among: Sequence[str]) -> _Found | None:
    for column in among:
        values = table.values(column)
        # A list is one whatever mark it is looked at with.
        for mark in _DELIMITERS[:1] if column in table.lists else _DELIMITERS:
            rows = [as_classes(value, mark) for value in values]
            classes = Counter(name for names in rows for name in names)
            if _are_classes(classes, [len(names) for names in rows]):
                return _Found(column, mark, classes)
    return None


def _are_classes(counts: Counter[str], sizes: Sequence[int]) -> bool:
    """Few short names that repeat, and in some rows more than one of them."""
    some, several = sum(size > 0 for size in sizes), sum(size > 1 for size in sizes)
    return (
        2 <= len(counts) <= columns.MAX_CLASSES
        and several > _MIN_FRACTION * some
        and sum(counts.values()) >= 3 * len(counts)
        and all(len(name.split()) <= _MAX_WORDS and not columns.are_decimals([name]) for name in counts)
    )
