"""The settings of `data` that every table has, whatever is learned from it."""

from __future__ import annotations

from collections.abc import Sequence

from bertline.pipeline.new.guess import Setting
from bertline.pipeline.new.tables.columns import split_config
from bertline.pipeline.new.tables.table import Table, Values


def row_settings(
    table: Table,
    texts: Sequence[str],
    label: Setting | None,
    complete: Sequence[Values],
    *further: Setting,
    positive: Setting | None = None,
) -> tuple[Setting, ...]:
    """The settings of `data`, in the order in which a person asks for them."""
    split = split_config(table)
    lacking = len(table.rows) - len(complete)
    why = f"or quarantine: {lacking:,} examples have no text{' or no label' if label else ''}"
    return (
        *table.settings,
        Setting("text", texts[0] if len(texts) == 1 else list(texts), f"of the columns {', '.join(table.columns)}"),
        *further,
        *([label] if label else []),
        *([positive] if positive else []),
        Setting("split", split.model_dump(mode="json", exclude_unset=True) or None, "a column says it"),
        Setting("incomplete", "stop" if lacking else None, why),
    )


def texts_of(rows: Sequence[Values], texts: Sequence[str]) -> list[str]:
    return [" ".join(str(row[column]) for column in texts) for row in rows]
