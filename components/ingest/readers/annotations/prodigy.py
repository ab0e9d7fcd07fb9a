"""Prodigy's JSON Lines, as `db-out` writes them: `text` with `spans`, with `accept` (what was chosen of `options`), or with
one `label` that was asked about; and `answer`. Only what was accepted is an example."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from bertline.components.ingest.readers import jsonl
from bertline.components.ingest.readers.annotations import examples as annotated
from bertline.components.ingest.readers.annotations.examples import Example
from bertline.components.ingest.readers.records import BadRow, Row
from bertline.pipeline.config import DataConfig

LEFT_OUT = {"reject": "rejected in Prodigy", "ignore": "ignored in Prodigy"}
UNANSWERED = "without an answer in Prodigy"
ONE_ENTITY = "annotated for one entity only (ner in Prodigy)"
_NOT_DATA = ("answer", "options", "tokens", "meta", "config", "versions", "sessions", "priority", "score")


def examples(path: str, data: DataConfig) -> Iterator[Example | BadRow]:
    for number, line, found in jsonl.objects(path, data):
        if isinstance(found, BadRow):
            yield found
            continue
        fields = {name: value for name, value in found.items() if name not in _NOT_DATA and not name.startswith("_")}
        yield Example(number, fields, line, _left_out(found.get("answer"), found.get("_view_id"), data))


def _left_out(answer: object, view: object, data: DataConfig) -> str | None:
    if answer == "accept":
        # That one entity is right says nothing of the other words.
        return ONE_ENTITY if view == "ner" and data.label == "spans" else None
    return LEFT_OUT.get(str(answer), UNANSWERED)


def columns(path: str, data: DataConfig) -> list[str]:
    return annotated.columns_of(examples, path, data)


def read(path: str, data: DataConfig, columns: Collection[str] | None = None) -> Iterator[Row | BadRow]:
    return annotated.rows(examples, path, data, columns)
