"""Parallel text: two files, of which each line of one is a translation of the same line of the other.

The config names the file of the source language; `files.partner_of` says where the other one is. Lines end at line feeds
alone: to part them at other marks, as U+2028, on one side would shift all that follows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import zip_longest

from bertline.components.ingest.files import check_line, numbered_lines, open_text, partner_of, readable
from bertline.components.ingest.readers.records import MAX_RECORD_CHARS, TOO_LONG, BadRow, Row, bad_row
from bertline.pipeline.config import DataConfig
from bertline.pipeline.core.errors import BertlineError


def columns(path: str, data: DataConfig) -> list[str]:
    return [data.text_columns["text"], str(data.label)]


def read(path: str, data: DataConfig, columns: Collection[str] | None = None) -> Iterator[Row | BadRow]:
    """A row a line, of both files. A bad row names the file that the fault is in.

    Raises:
      BertlineError: the files have different numbers of lines. Which line has no partner cannot be known then, so that
        any row may be wrong.
    """
    partner = partner_of(path, data)
    names = (data.text_columns["text"], str(data.label))
    sides = (path, partner)
    both = [_lines(side, data) for side in sides]
    for number, lines in enumerate(zip_longest(*both), 1):
        if None in lines:
            rest = 1 + sum(1 for _ in both[0 if lines[0] is not None else 1])
            raise _uneven(sides, number - 1, number - 1 + rest, lines.index(None))
        source, target = lines
        values = {name: line or None for name, line in zip(names, lines, strict=True) if columns is None or name in columns}
        # A line that is bad on either side is one bad row: the other side alone teaches nothing.
        yield _bad(path, data, number, source) or _bad(partner, data, number, target) or Row(path, number, values)


def _lines(path: str, data: DataConfig) -> Iterator[str]:
    # Each file on its own, for what breaks off must be told of the right one.
    with readable(path), open_text(path, data.encoding, newline="\n") as stream:
        for _, line in numbered_lines(stream):
            yield line.rstrip("\r\n")


def _bad(path: str, data: DataConfig, number: int, line: str) -> BadRow | None:
    if len(line) > MAX_RECORD_CHARS:
        return bad_row(path, number, TOO_LONG, f"line longer than {MAX_RECORD_CHARS:,} characters", line)
    return check_line(path, data.encoding, number, line)


def _uneven(sides: tuple[str, str], fewer: int, more: int, shorter: int) -> BertlineError:
    ended, longer = sides[shorter], sides[1 - shorter]
    return BertlineError(
        f"{ended} has {fewer:,} lines and {longer} has {more:,}: the former ends before line {fewer + 1:,}. Parallel files"
        " have equally many lines, and a missing or added line shifts all that follow; find it, or fetch the files again."
    )
