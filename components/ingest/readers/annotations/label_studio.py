"""Label Studio's JSON: a list of tasks, each with its data and what people have annotated. Its short form, JSON-MIN, too.

The columns are the fields of a task's `data`, and the names of the controls by which it was annotated: of Choices
(classes), Labels (character spans), Rating and Number. Of several annotations of a task the ground truth is taken, else the
newest. A row's number is that of its task in the file, for such a file is often one line.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from bertline.components.ingest.files import open_text
from bertline.components.ingest.readers.annotations import examples as annotated
from bertline.components.ingest.readers.annotations.examples import Example
from bertline.components.ingest.readers.json_items import ItemReader
from bertline.components.ingest.readers.records import JSON, MAX_RECORD_CHARS, BadRow, Remark, Row, as_raw, bad_row
from bertline.pipeline.config import DataConfig

SKIPPED = "skipped in Label Studio"
UNANNOTATED = "not annotated in Label Studio"
DIFFERING = "tasks whose annotations differ; the ground truth is taken, else the newest"
_NOT_DATA = ("id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time")
_NUMBERS = ("rating", "number")


def examples(path: str, data: DataConfig) -> Iterator[Example | BadRow]:
    with open_text(path, data.encoding, newline="") as stream:
        for number, (_, task) in enumerate(ItemReader(path, stream, None, MAX_RECORD_CHARS), 1):
            if not isinstance(task, dict):
                yield bad_row(path, number, JSON, "a task is an object, with data and annotations", as_raw({"task": task}))
            elif isinstance(task.get("data"), dict):
                yield _example(number, task)
            else:
                fields = {name: _short_form(value) for name, value in task.items() if name not in _NOT_DATA}
                yield Example(number, fields, as_raw(task))


def _example(number: int, task: Mapping[str, Any]) -> Example:
    given = task.get("annotations", task.get("completions")) or []
    annotations = [one for one in given if isinstance(one, dict)]
    usable = [one for one in annotations if not one.get("was_cancelled")]
    fields, raw = task["data"], as_raw(task)
    if not usable:
        return Example(number, fields, raw, SKIPPED if annotations else UNANNOTATED)
    results = [_result(one) for one in usable]
    chosen = max(range(len(usable)), key=lambda at: (bool(usable[at].get("ground_truth")), _time(usable[at]), at))
    differ = len({json.dumps(result, sort_keys=True) for result in results}) > 1
    remarks = (Remark(DIFFERING, f"task {task.get('id')}"),) if differ else ()
    return Example(number, {**fields, **results[chosen]}, raw, remarks=remarks)


def _time(annotation: Mapping[str, Any]) -> str:
    """As ISO 8601 has it, which sorts as a text."""
    return str(annotation.get("updated_at") or annotation.get("created_at") or "")


def _result(annotation: Mapping[str, Any]) -> dict[str, Any]:
    """Name of the control -> what was annotated by it."""
    found: dict[str, Any] = {}
    for region in annotation.get("result") or []:
        if not isinstance(region, dict):
            continue
        kind, name, value = region.get("type"), region.get("from_name"), region.get("value")
        if not isinstance(name, str) or not isinstance(value, dict):
            continue
        if kind == "choices" and "start" not in value:  # of the whole text, and not of a region
            found[name] = [*found.get(name, []), *_listed(value.get("choices"))]
        elif kind == "labels":
            found[name] = [*found.get(name, []), _span(value)]
        elif kind in _NUMBERS:
            found[name] = value.get(kind)
    return found


def _span(value: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value[name] for name in ("start", "end", "text", "labels") if name in value}


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else [value]


def _short_form(value: Any) -> Any:
    """Of JSON-MIN, where one choice is a text and several are `{"choices": […]}`."""
    if isinstance(value, dict) and isinstance(value.get("choices"), list):
        return value["choices"]
    if isinstance(value, list) and all(isinstance(one, dict) and "labels" in one for one in value):
        return [_span(one) for one in value]
    return value


def columns(path: str, data: DataConfig) -> list[str]:
    return annotated.columns_of(examples, path, data)


def read(path: str, data: DataConfig, columns: Collection[str] | None = None) -> Iterator[Row | BadRow]:
    return annotated.rows(examples, path, data, columns)
