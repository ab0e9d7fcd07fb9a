"""The raw files: which ones a config names, how they are opened, and what their content digests to."""

from __future__ import annotations

import bz2
import codecs
import difflib
import glob
import gzip
import hashlib
import io
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TextIO, cast

from bertline.components.ingest.readers import database
from bertline.components.ingest.readers.records import ENCODING, MAX_RECORD_CHARS, UNUSABLE, BadRow, bad_row, find_unusable
from bertline.components.ingest.spans import SPAN, files_of_spans
from bertline.pipeline.config import DataConfig, format_names
from bertline.pipeline.core import storage
from bertline.pipeline.core.errors import BertlineError

_COMPRESSED: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open}
_LIKELY_EXPANSION = {".gz": 4, ".bz2": 4, ".parquet": 4, ".pq": 4, ".xlsx": 4, ".xlsm": 4}
_FORMAT_OF_ENDING = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".xlsx": "xlsx",
    ".xlsm": "xlsx",
    ".txt": "documents",
    ".conll": "conll",
    ".bio": "conll",
    ".iob": "conll",
    ".iob2": "conll",
}


class InputFile(NamedTuple):
    path: str
    format: str
    split: str | None
    """The split that all its rows belong to; None if each row has its own."""
    partner: str | None = None
    """The file whose lines belong to this one's, of the format `parallel`."""

    @property
    def paths(self) -> tuple[str, ...]:
        """Every file that its rows are read from."""
        return (self.path,) if self.partner is None else (self.path, self.partner)


def raw_bytes(files: Iterable[InputFile]) -> int:
    """How much there is to read, about: what compressed files hold is a guess."""
    files = list(files)
    paths = [path for file in files for path in file.paths if file.format != "sql"]
    asked = sum(database.size(file.path) for file in files if file.format == "sql")
    return asked + sum(
        storage.at(path).stat().st_size * _LIKELY_EXPANSION.get(Path(path).suffix.lower(), 1) for path in paths
    )


def find_files(data: DataConfig) -> list[InputFile]:
    """The files that the config names, in a stable order."""
    if data.query is not None:
        return [InputFile(data.path or "", "sql", None)]
    settings = {"data.path": None, "data.train": "train", "data.eval": "eval", "data.test": "test"}
    files: list[InputFile] = []
    named_by: dict[str, str] = {}
    for setting, split in settings.items():
        pattern = getattr(data, setting.removeprefix("data."))
        for path in _matches(setting, pattern, data.spans) if pattern is not None else ():
            files.append(_input_file(path, data, split))
            for each in files[-1].paths:
                if named_by.setdefault(each, setting) != setting:
                    both = f"both {named_by[each]} and {setting} name it"
                    raise BertlineError(f"{each}: {both}; an example must not be in both splits.")
    return files


def _input_file(path: str, data: DataConfig, split: str | None) -> InputFile:
    format = format_of(path, data)
    return InputFile(path, format, split, partner_of(path, data) if format == "parallel" else None)


def partner_of(path: str, data: DataConfig) -> str:
    """The file beside a parallel one that has the other language: `train.de.gz` of `train.en.gz`, or `train.de`."""
    source, target = data.text_columns["text"], str(data.label)
    whole, plain = Path(path), uncompressed(path)
    compression = whole.name.removeprefix(plain.name)
    parts = plain.name.split(".")
    if source not in parts:
        raise BertlineError(
            f"{path}: no part of the name between dots is {source!r} (data.text), so it does not say which file has the"
            f" other language; name the files as train.{source} and train.{target}."
        )
    # The language stands at the end in most names, and a corpus may be called like one.
    at = len(parts) - 1 - parts[::-1].index(source)
    name = ".".join((*parts[:at], target, *parts[at + 1 :]))
    endings = dict.fromkeys((compression, "", *_COMPRESSED))
    folder = path.removesuffix(whole.name)
    tried = [f"{folder}{name}{ending}" for ending in endings]
    found = next((candidate for candidate in tried if storage.at(candidate).is_file()), None)
    if found is None:
        raise BertlineError(
            f"{path}: its partner with the column {target!r} (data.label) is missing; there is neither"
            f" {', nor '.join(tried)}. Put it there, or correct data.text and data.label."
        )
    return found


def _matches(setting: str, pattern: str, spans: int | None) -> list[str]:
    try:
        with storage.reaching(pattern):
            return _matching(setting, pattern, spans)
    except BertlineError as error:
        raise BertlineError(f"{setting}: {str(error).removeprefix(f'{setting}: ')}") from None


def _matching(setting: str, pattern: str, spans: int | None) -> list[str]:
    if SPAN in pattern:
        if found := files_of_spans(pattern, spans):
            return found
        raise BertlineError(f"{setting}: no file matches {pattern}, with a number for {SPAN}; check the folder.")
    place = storage.at(pattern)
    if place.is_file():  # first, so that a name with brackets is not taken for a pattern
        return [pattern]
    if place.is_dir():
        raise BertlineError(f"{setting}: {pattern} is a folder; name a file, or a pattern such as {pattern}/*.csv.")
    if glob.has_magic(pattern):
        if found := storage.find(pattern):
            return found
        raise BertlineError(f"{setting}: no file matches {pattern}; check the folder and the ending.")
    folder = place.parent
    if not folder.is_dir():
        raise BertlineError(f"{setting}: there is no file {pattern}, nor its folder {folder}; check the path.")
    hint = nearest(place.name, [path.name for path in folder.iterdir()])
    raise BertlineError(f"{setting}: there is no file {pattern}{hint or '; check the path'}.")


def nearest(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""


def format_of(path: str, data: DataConfig) -> str:
    found = data.format or format_by_ending(path)
    if found is None:
        raise BertlineError(
            f"{path}: the ending {uncompressed(path).suffix!r} does not say the format; set data.format to"
            f" {', '.join(format_names())}."
        )
    return found


def format_by_ending(path: str) -> str | None:
    return _FORMAT_OF_ENDING.get(uncompressed(path).suffix.lower())


def uncompressed(path: str) -> Path:
    found = Path(path)
    return found.with_suffix("") if found.suffix.lower() in _COMPRESSED else found


def digest(data: DataConfig) -> str:
    """A digest of the files' names and bytes, or of what a query gives: equal content is the same input wherever and
    whenever it was written."""
    if data.query is not None:
        return database.digest(data.path or "", data)
    total = hashlib.sha256()
    for split, path in ((file.split, path) for file in find_files(data) for path in file.paths):
        content = hashlib.sha256()
        with readable(path), storage.at(path).open("rb") as stream:
            while block := stream.read(1 << 20):
                content.update(block)
        total.update(f"{split}\0{os.path.basename(path)}\0{content.hexdigest()}\n".encode())
    return total.hexdigest()


@contextmanager
def readable(path: str) -> Iterator[None]:
    """Says of which file it was, and what to do, when reading breaks off."""
    try:
        with storage.reaching(path):
            yield
    except (OSError, EOFError, zlib.error, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error).rstrip(".")
        raise BertlineError(f"{path}: cannot be read to its end: {reason}; check or replace the file.") from None


def open_bytes(path: str) -> BinaryIO:
    opener, place = _COMPRESSED.get(Path(path).suffix.lower()), storage.at(path)
    if opener is None:
        return cast(BinaryIO, place.open("rb"))
    return cast(BinaryIO, opener(place.open("rb") if storage.is_remote(path) else path, "rb"))


def _mark_bytes(error: UnicodeError) -> tuple[str, int]:
    """Turns each undecodable byte into one lone surrogate: the text around it, line ends and quotes stay in place."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "".join(chr(0xDC00 + byte) for byte in error.object[error.start : error.end]), error.end


codecs.register_error("bertline-mark", _mark_bytes)


def open_text(path: str, encoding: str, newline: str) -> TextIO:
    """The decoded stream; a byte-order mark is no part of it, and undecodable bytes are marked, see `check_line`."""
    try:
        if codecs.lookup(encoding).name == "utf-8":
            encoding = "utf-8-sig"
        return io.TextIOWrapper(open_bytes(path), encoding=encoding, errors="bertline-mark", newline=newline)
    except LookupError:
        raise BertlineError(
            f"data.encoding: {encoding!r} is not an encoding; utf-8, latin-1, cp1252, utf-16 are."
        ) from None


def numbered_lines(stream: TextIO) -> Iterator[tuple[int, str]]:
    """Physical lines, counted from 1. Of a line that is too long only the beginning is kept, one character too much."""
    number = 0
    while line := stream.readline(MAX_RECORD_CHARS + 1):
        number += 1
        rest = line
        while len(rest) >= MAX_RECORD_CHARS and not rest.endswith(("\n", "\r")):
            rest = stream.readline(MAX_RECORD_CHARS)
        yield number, line


def check_line(path: str, encoding: str, number: int, line: str) -> BadRow | None:
    """The line as a bad row, if it holds a byte that could not be decoded, or a NUL."""
    found = find_unusable(line)
    if found is None:
        return None
    where = f"{os.path.basename(path)}, line {number}, column {found.start() + 1}"
    if found[0] == "\0":
        return bad_row(path, number, UNUSABLE, f"{where}: a NUL byte; take it out of the data", line)
    byte = f"0x{ord(found[0]) - 0xDC00:02X}"
    remedy = "set data.encoding, e.g. latin-1, or save the file as UTF-8"
    return bad_row(path, number, ENCODING, f"{where}: byte {byte} is not valid {encoding}; {remedy}", line)
