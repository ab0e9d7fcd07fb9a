"""The readers by format, and the cheap look at every file before anything is started."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

from bertline.components.ingest.files import InputFile, find_files, nearest, readable
from bertline.components.ingest.readers import conll, database, delimited, documents, excel, jsonl, parallel, parquet, squad
from bertline.components.ingest.readers.annotations import doccano, label_studio, prodigy
from bertline.components.ingest.readers.records import UNREADABLE, BadRow, Row, bad_row
from bertline.pipeline.config import DataConfig
from bertline.pipeline.core import plugins
from bertline.pipeline.core.errors import BertlineError


class Reader(NamedTuple):
    """How one format is read; a new format is one more of these in `READERS`, or registered as `bertline.readers`."""

    columns: Callable[[str, DataConfig], list[str]]
    """(path, data) -> the file's columns; raises BertlineError if it has none."""
    read: Callable[..., Iterator[Row | BadRow]]
    """(path, data, columns) -> rows with these columns, or with all if `columns` is None."""


READERS: dict[str, Reader] = {
    "csv": Reader(delimited.columns, delimited.read),
    "tsv": Reader(delimited.columns, delimited.read),
    "jsonl": Reader(jsonl.columns, jsonl.read),
    "parquet": Reader(parquet.columns, parquet.read),
    "documents": Reader(documents.columns, documents.read),
    "conll": Reader(conll.columns, conll.read),
    "squad": Reader(squad.columns, squad.read),
    "parallel": Reader(parallel.columns, parallel.read),
    "label-studio": Reader(label_studio.columns, label_studio.read),
    "doccano": Reader(doccano.columns, doccano.read),
    "prodigy": Reader(prodigy.columns, prodigy.read),
    "xlsx": Reader(excel.columns, excel.read),
    "sql": Reader(database.columns, database.read),
}


def reader_of(format: str) -> Reader:
    """Ours, or one that an installed package registers."""
    if format in READERS and format not in plugins.registered(plugins.READERS):
        return READERS[format]
    found: Reader = plugins.load(plugins.READERS, format, Reader, READERS)
    return found


def read(file: InputFile, data: DataConfig, columns: Collection[str] | None = None) -> Iterator[Row | BadRow]:
    """The rows of a file. Never raises for what is in it: where reading breaks off, the last row is a bad one."""
    line = 0
    try:
        with readable(file.path):
            for row in reader_of(file.format).read(file.path, data, columns):
                line = row.line
                yield row
    except BertlineError as error:
        yield bad_row(file.path, line + 1, UNREADABLE, str(error), "")


def needed_columns(data: DataConfig, slices: Sequence[str] = (), lists: Sequence[str] = ()) -> dict[str, str]:
    """Column -> the setting that names it."""
    named = {column: "data.text" for column in data.text_columns.values()}
    named |= dict.fromkeys(data.choice_columns, "data.choices")
    if data.label is not None:
        named[data.label] = "data.label"
    for name, setting in ((data.split.column, "data.split.column"), (data.split.group, "data.split.group")):
        if name is not None and data.path is not None:  # files that are a split each need no column for it
            named.setdefault(name, setting)
    for name in data.exclude:
        named.setdefault(name, "data.exclude")
    for name in slices:
        named.setdefault(name, "evaluation.slices")
    for name in lists:
        named.setdefault(name, "task")
    return named


def check_inputs(data: DataConfig, slices: Sequence[str] = (), lists: Sequence[str] = ()) -> list[InputFile]:
    """Opens each file and looks at its header and first record; what is wrong there is told before Beam starts."""
    files = find_files(data)
    for file in files:
        reader = reader_of(file.format)
        with readable(file.path):
            known = reader.columns(file.path, data)
            for name, setting in needed_columns(data, slices, lists).items():
                of_split = setting.startswith("data.split") and file.split is not None
                if name not in known and not of_split:
                    raise BertlineError(_missing_column(file, data, name, setting, known))
            if next(reader.read(file.path, data), None) is None:
                raise BertlineError(f"{file.path}: the file has columns ({', '.join(known)}) and no examples.")
    return files


def _missing_column(file: InputFile, data: DataConfig, name: str, setting: str, known: list[str]) -> str:
    shown = ", ".join(column if len(column) <= 40 else f"{column[:40]}…" for column in known)
    headerless = file.format in ("csv", "tsv") and not data.columns
    if file.format == "documents":
        remedy = "set data.format to csv or tsv if it has some, or use the task pretraining"
        return f"{file.path}: {setting}: plain text has no columns, so none {name!r}; {remedy}."
    if file.format == "conll":
        return f"{file.path}: {setting}: of CoNLL files only the word and its tag are read, so there is no {name!r}."
    if file.format == "parallel":
        return f"{file.path}: {setting}: parallel files are the columns {shown} and no others, so there is no {name!r}."
    hint = " If line 1 is not a header, name the columns in data.columns." if headerless else ""
    return f"{file.path}: {setting}: there is no column {name!r}{nearest(name, known) or '.'} Columns: {shown}.{hint}"
