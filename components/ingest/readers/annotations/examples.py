"""Examples as annotation tools export them: a text, and what people have said of it, as classes or as character spans.

A module for each tool (`label_studio.py`, `doccano.py`, `prodigy.py`) says which fields an example has and whether somebody
has annotated it. Here they become rows: classes a list, for any number of them; where the column of `data.label` holds
spans, the text becomes a list of words, and the label a list of their tags.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

from bertline.components.ingest.readers.annotations.word_tags import Span, tag_words
from bertline.components.ingest.readers.records import (
    NESTED,
    UNUSABLE,
    BadRow,
    ListText,
    OneOrMore,
    Remark,
    Row,
    bad_row,
    find_unusable,
    make_row,
)
from bertline.pipeline.config import DataConfig
from bertline.pipeline.core.errors import BertlineError

MISFIT = "spans do not fit their text"
_LOOKED_AT = 100
_PLACES = (("start", "end"), ("start_offset", "end_offset"))


class Example(NamedTuple):
    line: int
    """As of a `Row`."""
    fields: Mapping[str, Any]
    """Column -> what the file has there."""
    raw: str
    left_out: str | None = None
    remarks: tuple[Remark, ...] = ()


Examples = Callable[[str, DataConfig], Iterator[Example | BadRow]]
"""(path, data) -> the examples of a file."""


def columns_of(examples: Examples, path: str, data: DataConfig) -> list[str]:
    """The fields of the first examples that somebody has annotated, or of the others if nobody has."""
    annotated, others = dict[str, None](), dict[str, None]()
    looked_at = 0
    first_bad: BadRow | None = None
    for example in examples(path, data):
        if isinstance(example, BadRow):
            first_bad = first_bad or example
            continue
        names = dict.fromkeys(name for name, value in example.fields.items() if kind_of(value))
        (others if example.left_out else annotated).update(names)
        looked_at += not example.left_out
        if looked_at == _LOOKED_AT:
            break
    if found := list(annotated or others):
        return found
    raise BertlineError(
        f"{first_bad.place}: {first_bad.reason}." if first_bad else f"{path}: the file is empty; export annotated examples."
    )


def rows(examples: Examples, path: str, data: DataConfig, columns: Collection[str] | None = None) -> Iterator[Row | BadRow]:
    """A row of each example."""
    is_tagged = holds_spans(examples, path, data)
    for example in examples(path, data):
        yield example if isinstance(example, BadRow) else _row(path, example, data, columns, is_tagged)


def holds_spans(examples: Examples, path: str, data: DataConfig) -> bool:
    """Whether labels are spans, by the first example that has some: of one without any, nobody could tell."""
    if data.label is None:
        return False
    usable = (example for example in examples(path, data) if isinstance(example, Example))
    kinds = (kind_of(example.fields.get(data.label)) for example in usable)
    return next((kind for kind in kinds if kind and kind != "empty"), None) == "spans"


def kind_of(value: Any) -> str | None:
    """What a field holds: `spans`, `classes`, `empty` for a list of nothing, `plain`; None of what is nothing of these.

    >>> kind_of([[0, 3, "PER"]]), kind_of(["good"]), kind_of([]), kind_of("good"), kind_of({"a": 1})
    ('spans', 'classes', 'empty', 'plain', None)
    """
    if isinstance(value, list):
        if not value:
            return "empty"
        if all(isinstance(one, str | int | float) for one in value):
            return "classes"
        return "spans" if all(_looks_like_a_span(one) for one in value) else None
    return None if value is None or isinstance(value, dict) else "plain"


def _looks_like_a_span(value: Any) -> bool:
    if isinstance(value, dict):
        return any(start in value and end in value for start, end in _PLACES)
    return isinstance(value, list) and len(value) == 3 and isinstance(value[2], str)


def _row(path: str, example: Example, data: DataConfig, columns: Collection[str] | None, is_tagged: bool) -> Row | BadRow:
    def bad(kind: str, reason: str) -> BadRow:
        return bad_row(path, example.line, kind, reason, example.raw)

    values, remarks, text_column = dict(example.fields), example.remarks, data.text_columns["text"]
    if example.left_out:
        return Row(path, example.line, {}, left_out=example.left_out)
    if is_tagged and data.label:
        text, found = values.get(text_column), values.get(data.label) or []
        if text is not None and not isinstance(text, str):
            return bad(NESTED, f"column {text_column!r} has no text")
        if unusable := find_unusable(text or ""):
            return bad(UNUSABLE, f"column {text_column!r} has an unusable character at position {unusable.start() + 1}")
        try:
            tagged = tag_words(text or "", [span for value in found for span in _spans(value)])
        except ValueError as error:
            return bad(MISFIT, f"column {data.label!r}: {error}")
        values |= {text_column: tagged.words, data.label: tagged.tags}
        remarks += tagged.remarks
    elif data.label and isinstance(name := values.get(data.label), str):
        values[data.label] = [name]  # which may hold what parts the names of several classes
    row = make_row(path, example.line, values, columns, example.raw, data.list_columns)
    if isinstance(row, BadRow):
        return row
    if not is_tagged and data.label and isinstance(names := row.values.get(data.label), ListText):
        row.values[data.label] = OneOrMore(names)
    return row._replace(remarks=remarks)


def _spans(value: Any) -> Iterator[Span]:
    """The spans of one entry: several, if a tool gives the same characters several labels."""
    if not _looks_like_a_span(value):
        raise ValueError(f"{value!r} is not a span, which has a start, an end and a label")
    if isinstance(value, list):
        (start, end, labels), text = value, None
    else:
        first, last = next(names for names in _PLACES if names[0] in value and names[1] in value)
        start, end, text = value[first], value[last], value.get("text")
        labels = value.get("label", value.get("labels"))
    if not all(isinstance(place, int) and not isinstance(place, bool) for place in (start, end)):
        raise ValueError(f"a span is from {start!r} to {end!r}, which are not whole numbers")
    names = [labels] if isinstance(labels, str) else labels
    if not isinstance(names, list) or not names or not all(isinstance(name, str) and name.strip() for name in names):
        raise ValueError(f"the span {start} to {end} has no label")
    for name in names:
        yield Span(start, end, " ".join(name.split()), text if isinstance(text, str) else None)
