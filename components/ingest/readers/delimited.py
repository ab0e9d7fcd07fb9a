"""CSV and TSV: RFC 4180 quoting with embedded line ends, or literal quotes; one bad record never spoils the next."""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Collection, Iterator
from typing import NamedTuple, TextIO

from bertline.components.ingest.files import check_line, format_of, numbered_lines, open_text
from bertline.components.ingest.readers.records import COLUMNS, MAX_RECORD_CHARS, QUOTES, TOO_LONG, BadRow, Row, bad_row
from bertline.pipeline.config import DataConfig
from bertline.pipeline.core.errors import BertlineError

# The csv module's own limit is one of the process and small; `_Lines` holds ours.
csv.field_size_limit(max(csv.field_size_limit(), MAX_RECORD_CHARS + 1))


class _TooLong(csv.Error):
    pass


class _Lines:
    """Feeds physical lines to csv.reader, remembers those of the record at hand and takes lines back."""

    def __init__(self, stream: TextIO):
        self._ahead = numbered_lines(stream)
        self._back: deque[tuple[int, str]] = deque()
        self._chars = 0
        self.taken: list[tuple[int, str]] = []

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        number, line = self._back.popleft() if self._back else next(self._ahead)
        self.taken.append((number, line))
        self._chars += len(line)
        if self._chars > MAX_RECORD_CHARS:
            raise _TooLong
        return line

    def begin_record(self) -> None:
        self.taken, self._chars = [], 0

    def give_back_all_but_first(self) -> None:
        self._back.extendleft(reversed(self.taken[1:]))
        del self.taken[1:]


class _Record(NamedTuple):
    lines: list[tuple[int, str]]
    cells: list[str]
    problem: tuple[str, str] | None

    @property
    def number(self) -> int:
        return self.lines[0][0]

    def bad(self, path: str, kind: str, reason: str) -> BadRow:
        return bad_row(path, self.number, kind, reason, "".join(line for _, line in self.lines).rstrip("\r\n"))


def _records(stream: TextIO, data: DataConfig, tabs: bool) -> Iterator[_Record]:
    delimiter = data.delimiter or ("\t" if tabs else ",")
    if delimiter in '"\r\n':
        raise BertlineError(f"data.delimiter: {delimiter!r} cannot separate columns; a comma, a tab, `;` or `|` can.")
    quotes = not tabs if data.quotes is None else data.quotes
    lines = _Lines(stream)
    reader = csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE, strict=True)
    while True:
        lines.begin_record()
        cells: list[str] = []
        problem = None
        try:
            cells = next(reader)
        except StopIteration:
            return
        except _TooLong:
            problem = TOO_LONG, f"the record is longer than {MAX_RECORD_CHARS:,} characters; is a quote never closed?"
        except csv.Error as error:
            problem = QUOTES, f"{error}; close each quoted value, and write a quote inside it twice"
        if problem:
            # A stray quote swallows the lines after it: only its own line is bad, the others are read again.
            lines.give_back_all_but_first()
        if cells or problem:  # else a blank line
            yield _Record(lines.taken, cells, problem)


def _header(record: _Record | None, path: str, data: DataConfig) -> list[str]:
    if record is None:
        raise BertlineError(f"{path}: the file is empty; give a file with a header line and examples.")
    for number, line in record.lines:
        if bad := check_line(path, data.encoding, number, line):
            raise BertlineError(f"{path}: the header line cannot be read: {bad.reason}{_looks_like_utf16(line)}.")
    if record.problem:
        raise BertlineError(f"{path}: the header line cannot be read: {record.problem[1]}.")
    names = [name.strip() for name in record.cells]
    twice = sorted({name for name in names if name and names.count(name) > 1})
    if twice:
        raise BertlineError(
            f"{path}, line {record.number}: two columns are named {twice[0]!r}; rename one, or if this is"
            " no header, name the columns in data.columns."
        )
    return names


def _looks_like_utf16(line: str) -> str:
    return "; it looks like UTF-16, set data.encoding: utf-16" if line[:2] in ("\udcff\udcfe", "\udcfe\udcff") else ""


def columns(path: str, data: DataConfig) -> list[str]:
    tabs = format_of(path, data) == "tsv"
    with open_text(path, data.encoding, newline="") as stream:
        first = next(_records(stream, data, tabs), None)
    if not data.columns:
        return _header(first, path, data)
    if first and [cell.strip() for cell in first.cells] == list(data.columns):
        raise BertlineError(f"{path}: line 1 is a header line; leave out data.columns, which is for files without one.")
    return list(data.columns)


def read(path: str, data: DataConfig, columns: Collection[str] | None = None) -> Iterator[Row | BadRow]:
    tabs = format_of(path, data) == "tsv"
    with open_text(path, data.encoding, newline="") as stream:
        records = _records(stream, data, tabs)
        names = list(data.columns) or _header(next(records, None), path, data)
        kept = [(at, name) for at, name in enumerate(names) if columns is None or name in columns]
        for record in records:
            if bad := _bad_bytes(record, path, data):
                yield bad
            elif record.problem:
                yield record.bad(path, *record.problem)
            elif len(record.cells) < len(names) or (len(record.cells) > len(names) and not data.further_columns):
                yield record.bad(path, COLUMNS, f"{len(record.cells)} columns where {len(names)} belong")
            else:
                yield Row(path, record.number, {name: record.cells[at] or None for at, name in kept})


def _bad_bytes(record: _Record, path: str, data: DataConfig) -> BadRow | None:
    for number, line in record.lines:
        if bad := check_line(path, data.encoding, number, line):
            return record.bad(path, bad.kind, bad.reason)
    return None
