"""doccano's JSON Lines: `text` with `label` or, of a project with relations, `entities`.

A label is a list: of classes, or of spans as [start, end, name]. doccano does not say whether somebody has looked at an
example that has none; `data.empty_annotations` says what becomes of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from bertline.components.ingest.readers import jsonl
from bertline.components.ingest.readers.annotations import examples as annotated
from bertline.components.ingest.readers.annotations.examples import Example
from bertline.components.ingest.readers.records import BadRow, Row
from bertline.pipeline.config import DataConfig

EMPTY = "without annotations (data.empty_annotations)"
_NOT_DATA = ("Comments", "comments", "relations", "annotation_approver")


def examples(path: str, data: DataConfig) -> Iterator[Example | BadRow]:
    for number, line, found in jsonl.objects(path, data):
        if isinstance(found, BadRow):
            yield found
            continue
        fields = {name: value for name, value in found.items() if name not in _NOT_DATA}
        is_empty = data.label in found and not found[data.label]
        yield Example(number, fields, line, EMPTY if is_empty and data.empty_annotations == "leave out" else None)


def columns(path: str, data: DataConfig) -> list[str]:
    return annotated.columns_of(examples, path, data)


def read(path: str, data: DataConfig, columns: Collection[str] | None = None) -> Iterator[Row | BadRow]:
    return annotated.rows(examples, path, data, columns)
