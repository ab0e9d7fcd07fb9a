"""Excel's workbooks (.xlsx), a row at a time: one sheet, whose first row that is not empty names the columns.

A workbook is a ZIP of XML, so that a small one may hold very much: what it unpacks to is bounded before it is read. Of a
formula the value counts that Excel has saved with it.
"""

from __future__ import annotations

import zipfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO
from xml.etree.ElementTree import ParseError

from bertline.components.ingest.files import nearest, open_bytes
from bertline.components.ingest.readers.records import BadRow, Row, as_raw, bad_row, make_row
from bertline.pipeline.config import DataConfig
from bertline.pipeline.core.errors import BertlineError

ERROR = "an error of Excel's"
MAX_UNPACKED = 2 << 30
MAX_HELD = 256 << 20
"""Of what is no sheet, as the texts that cells share: it is held in memory while rows are read."""
MAX_ROWS = 1 << 20
"""What a sheet of Excel has."""
_SHEETS = "xl/worksheets/"


def columns(path: str, data: DataConfig) -> list[str]:
    with _rows(path, data) as rows:
        return [name for name in _names(path, data, rows) if name]


def read(path: str, data: DataConfig, columns: Collection[str] | None = None) -> Iterator[Row | BadRow]:
    """A row's number is the one that Excel shows."""
    with _rows(path, data) as rows:
        names = _names(path, data, rows)
        kept = [(at, name) for at, name in enumerate(names) if name and (columns is None or name in columns)]
        for number, cells in rows:
            found = {name: cells[at] for at, name in kept if at < len(cells)}
            values = {name: cell.value for name, cell in found.items()}
            if broken := next((name for name, cell in found.items() if cell.data_type == "e"), None):
                reason = f"column {broken!r} holds {values[broken]}; fix the formula, or empty the cell"
                yield bad_row(path, number, ERROR, reason, as_raw(values))
            elif any(value is not None for value in values.values()):
                yield make_row(path, number, values, columns)


def sheets(path: str) -> list[str]:
    """Names of the sheets that are to be seen, and of the hidden ones after them."""
    with _workbook(path) as book:
        return [sheet.title for sheet in _sheets(book)]


def _sheets(book: Any) -> list[Any]:
    return sorted(book.worksheets, key=lambda sheet: sheet.sheet_state != "visible")


@contextmanager
def _rows(path: str, data: DataConfig) -> Iterator[Iterator[tuple[int, Sequence[Any]]]]:
    """Number and cells of each row that is not empty."""
    with _workbook(path) as book:
        known = {sheet.title: sheet for sheet in _sheets(book)}
        if data.sheet is not None and data.sheet not in known:
            near = nearest(data.sheet, known) or "."
            raise BertlineError(f"{path}: data.sheet: there is no sheet {data.sheet!r}{near} Sheets: {', '.join(known)}.")
        if not known:
            raise BertlineError(f"{path}: the workbook has no sheet with cells.")
        sheet = known[data.sheet] if data.sheet is not None else next(iter(known.values()))
        sheet.reset_dimensions()  # what a workbook says of its size need not be true
        yield _filled(path, sheet)


def _filled(path: str, sheet: Any) -> Iterator[tuple[int, Sequence[Any]]]:
    for number, cells in enumerate(sheet.iter_rows(), 1):
        if number > MAX_ROWS:
            raise BertlineError(
                f"{path}: the sheet {sheet.title!r} says it has over {MAX_ROWS:,} rows, which Excel has not."
            )
        if any(cell.value not in (None, "") for cell in cells):
            yield number, cells


def _names(path: str, data: DataConfig, rows: Iterator[tuple[int, Sequence[Any]]]) -> list[str]:
    """The names of the columns, empty for one without a header."""
    if data.columns:
        return list(data.columns)
    number, cells = next(rows, (0, ()))
    names = ["" if cell.value is None else str(cell.value).strip() for cell in cells]
    if not any(names):
        raise BertlineError(f"{path}: the sheet is empty; name another in data.sheet.")
    if twice := next((name for at, name in enumerate(names) if name and name in names[:at]), None):
        raise BertlineError(f"{path}, row {number}: two columns are named {twice!r}; rename one.")
    return names


@contextmanager
def _workbook(path: str) -> Iterator[Any]:
    try:
        from openpyxl import load_workbook
        from openpyxl.utils.exceptions import InvalidFileException
    except ImportError:
        raise BertlineError(
            f"{path}: Excel's workbooks need openpyxl, which is not installed; pip install 'bertline[excel]', or save the"
            " sheet as CSV."
        ) from None
    with open_bytes(path) as stream:
        try:
            _check_size(path, stream)
            book = load_workbook(stream, read_only=True, data_only=True, keep_links=False)
            try:
                yield book
            finally:
                book.close()
        except (zipfile.BadZipFile, InvalidFileException, ParseError, KeyError, ValueError, TypeError) as error:
            reason = str(error).strip("'\"").rstrip(".") or type(error).__name__
            raise BertlineError(
                f"{path}: this is no workbook that can be read: {reason}; save it as .xlsx without a password, or as CSV."
            ) from None


def _check_size(path: str, stream: BinaryIO) -> None:
    with zipfile.ZipFile(stream) as archive:
        sizes = {member.filename: member.file_size for member in archive.infolist()}
    held = max((size for name, size in sizes.items() if not name.startswith(_SHEETS)), default=0)
    total = sum(sizes.values())
    stream.seek(0)
    if total > MAX_UNPACKED or held > MAX_HELD:
        raise BertlineError(f"{path}: the workbook unpacks to {total >> 20:,} MiB, too many; save the sheet as CSV.")
