"""Tables whose rows have several texts, one of which is right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import islice

from bertline.components.ingest.rows import as_number
from bertline.pipeline.new.guess import NEEDS_CHECKPOINT, Guess, Setting, room_for
from bertline.pipeline.new.tables import columns
from bertline.pipeline.new.tables.row_settings import row_settings, texts_of
from bertline.pipeline.new.tables.table import Table

_LIMIT = 0.9
_ASKED_ABOUT = ("article", "context", "passage")


def guess_choice(table: Table) -> Guess | None:
    """Columns as ending0, ending1 …, or one with a list, and a label that names one of them by number, letter or column."""
    candidates: list[str | tuple[str, ...]] = [*columns.choice_columns(table.columns), *table.lists]
    for choices in candidates:
        named = (choices,) if isinstance(choices, str) else choices
        others = [name for name in table.columns if name not in named]
        texts = _asked_about(columns.texts(table, others)) or columns.main_texts(table, others)
        endings = _endings(table, choices)
        if not texts or sum(len(found) > 1 for found in endings) < _LIMIT * len(endings) or _are_numbers(endings):
            continue
        for label in columns.labels(table, (*texts, *named)):
            told = [(str(row[label]), len(found)) for row, found in zip(table.rows, endings, strict=True) if row.get(label)]
            first = columns.first_choice([name for name, _ in told], named, [count for _, count in told])
            if first is not None:
                return _guess(table, texts, choices, label, first, endings)
    return None


def _asked_about(texts: Sequence[str]) -> tuple[str, ...]:
    """A text and a question about it, which every choice answers; none if their names do not say so."""
    known = {name.lower(): name for name in texts}
    about = next((known[name] for name in _ASKED_ABOUT if name in known), None)
    return (about, known["question"]) if about and "question" in known else ()


def _guess(
    table: Table,
    texts: tuple[str, ...],
    choices: str | tuple[str, ...],
    label: str,
    first: int,
    endings: Sequence[tuple[str, ...]],
) -> Guess:
    needed = (*texts, label)
    whole = [
        (row, found)
        for row, found in zip(table.rows, endings, strict=True)
        if len(found) > 1 and all((row.get(column) or "").strip() for column in needed)
    ]
    complete = [row for row, _ in whole]
    counts = [len(found) for _, found in whole]
    places = Counter(str(row[label]) for row in complete)
    blind = max(max(places.values()), sum(1 / count for count in counts)) / len(whole)
    shown = ", ".join(f"{name} ({count:,})" for name, count in islice(sorted(places.items()), 5))
    many = f"{min(counts)} to {max(counts)}" if min(counts) < max(counts) else f"{max(counts)}"
    further = (
        Setting("choices", choices if isinstance(choices, str) else list(choices), "texts to choose from"),
        Setting("first_choice", first or None, "the labels count from 1"),
    )
    longest = [max(found, key=len) for _, found in whole]
    read_together = zip(texts_of(complete, texts), longest, strict=True)
    return Guess(
        task="choice",
        why=f"each example has {many} texts and names one of them",
        seen=table.seen,
        data=row_settings(table, texts, Setting("label", label, shown), complete, *further),
        seq_len=room_for(f"{text} {ending}" for text, ending in read_together),
        thresholds={"accuracy": min(0.99, round(blind + 0.05, 2))},
        why_thresholds=f"a prediction that ignores the texts reaches {blind:.3f}",
        model=NEEDS_CHECKPOINT,
    )


def _endings(table: Table, choices: str | tuple[str, ...]) -> Sequence[tuple[str, ...]]:
    """What each row has to choose from."""
    if isinstance(choices, str):
        return table.lists[choices]
    cells = ((row.get(name) or "" for name in choices) for row in table.rows)
    return [tuple(cell for cell in row if cell.strip()) for row in cells]


def _are_numbers(endings: Sequence[tuple[str, ...]]) -> bool:
    """Columns that are counted, as rating1 to rating3, and hold no texts."""
    cells = [cell for found in endings for cell in found]
    return sum(as_number(cell) is not None for cell in cells) > len(cells) / 2
