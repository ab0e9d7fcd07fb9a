"""The first rows of a file with columns, read by the settings under which few of them are bad."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bertline.components.ingest.files import InputFile, find_files, format_by_ending
from bertline.components.ingest.readers.records import COLUMNS, ENCODING, QUOTES, UNREADABLE, BadRow, Row, list_of
from bertline.components.ingest.readers.registry import read, reader_of
from bertline.pipeline.config import DataConfig
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.new.guess import Setting, Source, one_line

LOOKED_AT = 20_000
"""Rows that a guess rests on."""
_OTHER_DELIMITERS = (";", "\t", "|")
_LISTS_SHARE = 0.9

Values = Mapping[str, str | None]


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of plain values under names."""

    source: Source
    data: DataConfig
    """How the file is read; what its columns mean is yet to be found out."""
    columns: tuple[str, ...]
    rows: Sequence[Values]
    bad: int
    """Rows that could not be read."""
    left_out: int = 0
    """Rows that are no examples by what the file says of them."""
    lists: Mapping[str, Sequence[tuple[str, ...]]] = field(default_factory=dict)
    """Column that holds a list in every row -> its lists, row by row."""

    def values(self, column: str) -> list[str]:
        """What stands in a column, without its gaps."""
        return [value for row in self.rows if (value := row.get(column))]

    def complete(self, columns: Sequence[str]) -> list[Values]:
        """Rows with something in each of the columns."""
        return [row for row in self.rows if all((row.get(column) or "").strip() for column in columns)]

    def evaluation(self, columns: Sequence[str]) -> list[Values]:
        """Complete rows of the file that is held out; none where there is no such file, or it cannot be read alike."""
        if self.source.evaluation is None:
            return []
        try:
            path = find_files(DataConfig.model_validate({"path": self.source.evaluation, "format": "documents"}))[0].path
            rows, _ = sample(InputFile(path, self.data.format or format_by_ending(path) or "", None), self.data)
        except (BertlineError, KeyError):
            return []
        return [row.values for row in rows if all((row.values.get(column) or "").strip() for column in columns)]

    @property
    def seen(self) -> str:
        left_out = f", {self.left_out:,} more left out" if self.left_out else ""
        unreadable = f", {self.bad:,} unreadable" if self.bad else ""
        return f"{seen_rows(len(self.rows), 'examples', self.source.path)}{left_out}{unreadable}"

    @property
    def settings(self) -> list[Setting]:
        """Where the file is and how it is read."""
        data = self.data
        return [
            *self.source.settings,
            Setting("format", data.format),
            Setting("encoding", data.encoding if data.encoding != "utf-8" else None, "detected, as the file is not UTF-8"),
            Setting("delimiter", data.delimiter),
            Setting("quotes", data.quotes, "taken for quotes, they do not close"),
            Setting("further_columns", data.further_columns or None, "some lines have more columns than the first"),
            Setting("columns", list(data.columns) or None, "line 1 looks like data, not like a header"),
        ]


def seen_rows(count: int, what: str, path: str) -> str:
    name = path.rstrip("/").rpartition("/")[2]
    return f"{'the first ' if count == LOOKED_AT else ''}{count:,} {what} of {name}"


def read_table(source: Source, file: InputFile, data: DataConfig) -> Table:
    """Looks at a CSV, TSV, JSONL or Parquet file."""
    data, rows, bad = _read_well(file, data)
    columns = tuple(reader_of(file.format).columns(file.path, data))
    if not rows:
        reason = f": {bad[0].reason}" if bad else ""
        raise BertlineError(f"{file.path}: the file has no readable line{one_line(reason)}.")
    values = [row.values for row in rows]
    return Table(source=source, data=data, columns=columns, rows=values, bad=len(bad), lists=lists_in(columns, values))


def lists_in(columns: Sequence[str], rows: Sequence[Values]) -> dict[str, Sequence[tuple[str, ...]]]:
    """Column that holds a list in every row -> its lists."""
    return {name: found for name in columns if (found := _lists([row.get(name) for row in rows]))}


def sample(file: InputFile, data: DataConfig) -> tuple[list[Row], list[BadRow]]:
    """The first rows that can be read, and those among them that cannot."""
    rows: list[Row] = []
    bad: list[BadRow] = []
    for row in itertools.islice(read(file, data), LOOKED_AT):
        if isinstance(row, BadRow):
            bad.append(row)
        else:
            rows.append(row)
    return rows, bad


def with_encoding(file: InputFile, data: DataConfig) -> DataConfig:
    """UTF-16 where the file begins with its mark."""
    if file.format in ("xlsx", "sql"):
        return data
    with open(file.path, "rb") as stream:
        is_utf16 = stream.read(2) in (b"\xff\xfe", b"\xfe\xff")
    return data.model_copy(update={"encoding": "utf-16"}) if is_utf16 else data


def _read_well(file: InputFile, data: DataConfig) -> tuple[DataConfig, list[Row], list[BadRow]]:
    """Reads the file by the first settings under which few rows are bad; else by the default ones."""
    data, rows, bad = _decoded(file, with_encoding(file, data))
    if rows and len(rows[0].values) == 1 or _fraction(bad, rows, COLUMNS, QUOTES) > data.max_bad_fraction:
        for update in _other_delimiters(file.format):
            other = data.model_copy(update=update)
            other_rows, other_bad = _table_sample(file, other)
            if other_rows and len(other_rows[0].values) > 1 and _fraction(other_bad, other_rows) <= data.max_bad_fraction:
                return other, other_rows, other_bad
    return data, rows, bad


def _decoded(file: InputFile, data: DataConfig) -> tuple[DataConfig, list[Row], list[BadRow]]:
    """Reads the file by the first encoding that fits. It goes before the delimiter: Excel writes a semicolon and the
    encoding of Windows at once, and neither is found without the other."""
    found = []
    for encoding in (data.encoding, "cp1252", "latin-1"):
        tried = data.model_copy(update={"encoding": encoding})
        rows, bad = _table_sample(file, tried)
        found.append((tried, rows, bad))
        # A header that cannot be decoded makes the whole file unreadable.
        if _fraction(bad, rows, ENCODING, UNREADABLE) <= data.max_bad_fraction:
            return found[-1]
    return found[0]


def _other_delimiters(format: str) -> Iterator[dict[str, Any]]:
    if format == "csv":
        yield from ({"delimiter": delimiter} for delimiter in _OTHER_DELIMITERS)
        # Of what is no CSV but for its name, quotes are often plain characters.
        yield from ({"delimiter": delimiter, "quotes": False} for delimiter in _OTHER_DELIMITERS)
        yield {"delimiter": "\t", "quotes": False, "further_columns": True}
    elif format == "tsv":
        yield {"quotes": True}
        yield {"further_columns": True}


def _table_sample(file: InputFile, data: DataConfig) -> tuple[list[Row], list[BadRow]]:
    """With the lists that a reader keeps only where a setting names their column."""
    try:
        columns = tuple(reader_of(file.format).columns(file.path, data))
    except BertlineError:
        columns = ()  # a header that cannot be read; `sample` gives the reason
    return sample(file, data.model_copy(update={"choices": columns}))


def _fraction(bad: list[BadRow], rows: list[Row], *kinds: str) -> float:
    counted = sum(not kinds or row.kind in kinds for row in bad)
    return counted / max(1, len(bad) + len(rows))


def _lists(values: Sequence[str | None]) -> list[tuple[str, ...]]:
    """The lists of a column, as JSON in its text; none if it holds something else."""
    found = [list_of(value or "") for value in values]
    held = sum(value is not None for value in found)
    return [tuple(value or ()) for value in found] if held >= _LISTS_SHARE * len(values) else []
