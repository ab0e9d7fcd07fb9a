"""JSON Lines: one object a line."""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Iterator
from typing import Any

from bertline.components.ingest.files import check_line, numbered_lines, open_text
from bertline.components.ingest.readers.records import JSON, MAX_RECORD_CHARS, TOO_LONG, BadRow, Row, bad_row, make_row
from bertline.pipeline.config import DataConfig
from bertline.pipeline.core.errors import BertlineError

_LOOKED_AT = 100
_NAMES = {list: "a list", str: "a string", bool: "a boolean", type(None): "null"}


def objects(path: str, data: DataConfig) -> Iterator[tuple[int, str, dict[str, Any] | BadRow]]:
    """Number, text and content of each line that is not blank."""
    with open_text(path, data.encoding, newline="\n") as stream:
        for number, line in numbered_lines(stream):
            if not line.isspace():
                yield number, line.rstrip("\r\n"), _parse(path, data, number, line)


def _parse(path: str, data: DataConfig, number: int, line: str) -> dict[str, Any] | BadRow:
    if bad := check_line(path, data.encoding, number, line):
        return bad
    if len(line) > MAX_RECORD_CHARS:
        return bad_row(path, number, TOO_LONG, f"line longer than {MAX_RECORD_CHARS:,} characters", line)
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        reason = f"not valid JSON at column {error.pos + 1}: {error.msg}; write one object a line"
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, brackets thousands deep
        reason = f"not usable JSON: {error}"
    else:
        if isinstance(value, dict):
            return value
        reason = f'{_NAMES.get(type(value), "a number")}, not an object; write one {{"column": value}} a line'
    return bad_row(path, number, JSON, reason, line.rstrip("\r\n"))


def columns(path: str, data: DataConfig) -> list[str]:
    """The keys of the first objects; an object may leave out what it has no value for."""
    names: dict[str, None] = {}
    first_bad = None
    for _, _, found in itertools.islice(objects(path, data), _LOOKED_AT):
        if isinstance(found, BadRow):
            first_bad = first_bad or found
        else:
            names.update(dict.fromkeys(found))
    if not names and first_bad:
        raise BertlineError(f"{first_bad.place}: {first_bad.reason}.")
    if not names:
        raise BertlineError(f"{path}: the file is empty; name a file with one JSON object a line.")
    return list(names)


def read(path: str, data: DataConfig, columns: Collection[str] | None = None) -> Iterator[Row | BadRow]:
    for number, line, found in objects(path, data):
        yield found if isinstance(found, BadRow) else make_row(path, number, found, columns, line, data.list_columns)
