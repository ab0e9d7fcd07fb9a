"""What a reader yields: rows whose values are text, and bad rows that say what is wrong with them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

ENCODING = "wrong encoding"
UNUSABLE = "unusable character"
COLUMNS = "wrong number of columns"
QUOTES = "quotes not in order"
TOO_LONG = "too long"
JSON = "not a JSON object"
NESTED = "not a plain value"
UNREADABLE = "unreadable file"

MAX_RECORD_CHARS = 10_000_000
"""A longer record is a bad row, so that one stray quote or a file without line ends cannot fill the memory."""

_RAW_CHARS = 500
_UNUSABLE_CHARS = re.compile("[\0\ud800-\udfff]")
_MARKED_BYTES = re.compile("[\udc00-\udcff]")


Values = tuple[str, ...] | tuple[int, ...]


class ListText(str):
    """A list of plain values as JSON: the form in which a column that may hold a list has one."""


class OneOrMore(ListText):
    """One from a source that writes a single value as a list, too."""


class Remark(NamedTuple):
    """Something that a reader has decided about a row which is kept, and a person should know."""

    kind: str
    """Remarks of one kind are counted together."""
    shown: str
    """What it was decided about, in a few words."""


class Row(NamedTuple):
    file: str
    line: int
    """First physical line of the record; in a file without lines, as Parquet, the number of the row. From 1."""
    values: dict[str, str | None]
    """Column -> its text; None where nothing is."""
    lists: Mapping[str, Values] = {}
    """Column -> its values, for a column that holds any number of them in a row."""
    left_out: str | None = None
    """Why it is no example, where its source says so, as one that was rejected in an annotation tool."""
    remarks: tuple[Remark, ...] = ()

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"


class BadRow(NamedTuple):
    file: str
    line: int
    kind: str
    """Reasons of one kind are counted together."""
    reason: str
    raw: str

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"


def bad_row(file: str, line: int, kind: str, reason: str, raw: str) -> BadRow:
    """A bad row whose raw text is short and can be written as UTF-8: marked bytes are shown as `\\xe9`."""
    raw = _MARKED_BYTES.sub(lambda mark: f"\\x{ord(mark[0]) - 0xDC00:02x}", raw[:_RAW_CHARS])
    return BadRow(file, line, kind, reason, raw.encode("utf-8", "backslashreplace").decode("utf-8")[:_RAW_CHARS])


def find_unusable(text: str) -> re.Match[str] | None:
    """The first NUL, lone surrogate or undecodable byte (`files.open_text` marks such bytes by surrogates)."""
    return _UNUSABLE_CHARS.search(text)


def as_text(value: Any) -> str | None:
    """A value of JSON or Parquet as text, None if there is none.

    A whole float is written as an integer: pandas turns a column of integers with a hole into floats, and a class "1"
    must not become "1.0" by that.

    Raises:
      ValueError: the value is nested, or bytes that are not UTF-8.
    """
    if value is None or isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, bytes):
        return value.decode("utf-8") or None
    if isinstance(value, dict | list):
        raise ValueError(f"a {'list' if isinstance(value, list) else 'mapping'} where one value belongs")
    return str(value) or None


def as_list(values: list[Any]) -> ListText:
    """A list of plain values as text; the same errors as of `as_text`."""
    return ListText(json.dumps([as_text(value) or "" for value in values], ensure_ascii=False))


def list_of(text: str) -> list[str] | None:
    """The values of a JSON list of plain values, as a column holds one: as a list, or as its text; None of any other text.

    >>> list_of('["a, b", 2]'), list_of("a, b"), list_of('[["a"]]')
    (['a, b', '2'], None, None)
    """
    if not text.lstrip().startswith("["):
        return None
    try:
        return [as_text(value) or "" for value in json.loads(text)]
    except (ValueError, RecursionError):
        return None


def make_row(
    file: str,
    line: int,
    values: Mapping[str, Any],
    columns: Collection[str] | None,
    raw: str | None = None,
    list_columns: Collection[str] = (),
) -> Row | BadRow:
    """A row of typed values as text. With `columns` None, every column that holds plain values is kept; `list_columns` may
    hold a list of them."""

    def bad(kind: str, reason: str) -> BadRow:
        return bad_row(file, line, kind, reason, as_raw(values) if raw is None else raw)

    texts: dict[str, str | None] = {}
    for name in values if columns is None else columns:
        try:
            value = values.get(name)
            text = as_list(value) if isinstance(value, list) and name in list_columns else as_text(value)
            texts[name] = text
        except UnicodeDecodeError as error:
            byte = error.object[error.start]
            reason = f"column {name!r}: byte 0x{byte:02X} at position {error.start + 1} is not valid UTF-8"
            return bad(ENCODING, reason)
        except ValueError as error:
            if columns is not None:
                return bad(NESTED, f"column {name!r} holds {error}")
            continue
        if text is not None and (found := find_unusable(text)):
            what = "a NUL character" if found[0] == "\0" else f"a lone surrogate (\\u{ord(found[0]):04x})"
            reason = f"column {name!r} holds {what} at position {found.start() + 1}; take it out of the data"
            return bad(UNUSABLE, reason)
    return Row(file, line, texts)


def as_raw(values: Mapping[str, Any]) -> str:
    """Stands in for the raw text of a row that has none."""
    return json.dumps(values, ensure_ascii=False, default=repr)
