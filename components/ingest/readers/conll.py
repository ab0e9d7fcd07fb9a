"""CoNLL: a word a line, its tag in the last of two to four columns, an empty line after each sentence.

A sentence becomes a row: its words with spaces between, and its tags with spaces between. What stands in the columns
between word and tag is not read. A line that is wrong spoils its sentence and no other.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

from bertline.components.ingest.files import check_line, numbered_lines, open_text
from bertline.components.ingest.readers.records import COLUMNS, MAX_RECORD_CHARS, TOO_LONG, BadRow, Row, bad_row
from bertline.models.data import tag_schemes
from bertline.pipeline.config import DataConfig
from bertline.pipeline.core.errors import BertlineError

DOCUMENT = "-DOCSTART-"
MISSING_TAG = "word without a tag"
NO_TAG = "not a tag"
SEGMENTS = "word without a segment number"
_LEAST, _LIMIT = 2, 4
_NUMBERED = re.compile(r"(.+?)\d+")


class _Line(NamedTuple):
    number: int
    text: str
    cells: list[str]

    @property
    def is_token(self) -> bool:
        """Whether the line can be nothing but a word with its tag."""
        return _LEAST <= len(self.cells) <= _LIMIT and bool(self.cells[0]) and tag_schemes.parse(self.cells[-1]) is not None


def columns(path: str, data: DataConfig) -> list[str]:
    _width(path, data)
    return [data.text_columns["text"], *([data.label] if data.label else [])]


def read(path: str, data: DataConfig, columns: Collection[str] | None = None) -> Iterator[Row | BadRow]:
    """A row a sentence. Its line is that of its first word; of a bad row, that of what is wrong."""
    width = _width(path, data)
    words: list[str] = []
    names: list[str] = []
    bad: BadRow | None = None
    first = size = 0

    def sentence() -> Iterator[Row | BadRow]:
        if bad:
            yield bad
        elif words:
            values: dict[str, str | None] = {data.text_columns["text"]: " ".join(words)}
            if data.label:
                values[data.label] = " ".join(names)
            yield Row(path, first, values)

    with open_text(path, data.encoding, newline="\n") as stream:
        for number, text in numbered_lines(stream):
            line = _Line(number, text.rstrip("\r\n"), _cells(text))
            if not text.strip() or line.cells[0] == DOCUMENT:
                yield from sentence()
                words, names, bad, size = [], [], None, 0
                continue
            if bad or _is_comment(line, width, bool(words)):
                continue
            size += len(text)
            found = check_line(path, data.encoding, number, line.text) or _word(path, line, width, size, data)
            if isinstance(found, BadRow):
                bad = found
                continue
            first = first if words else number
            words.append(found)
            names.append(line.cells[-1])
    yield from sentence()


def _cells(text: str) -> list[str]:
    """The columns of a line: parted by tabs if it has any, by spaces otherwise."""
    text = text.rstrip("\r\n")
    if "\t" in text:
        return [cell.strip(" ") for cell in text.split("\t")]
    return re.findall("[^ ]+", text) or [""]


def _is_comment(line: _Line, width: int, inside: bool) -> bool:
    """Whether a line that begins with # is one: only if it cannot be a word with its tag.

    Inside a sentence a bare # or a #word that lacks its tag is rather a mistake than a comment.
    """
    if not line.text.startswith("#") or (len(line.cells) == width and line.is_token):
        return False
    return not inside or (line.text.startswith("# ") and bool(line.text[1:].strip()))


def _word(path: str, line: _Line, width: int, size: int, data: DataConfig) -> str | BadRow:
    """The word of a line, or what is wrong with the line."""

    def bad(kind: str, reason: str) -> BadRow:
        return bad_row(path, line.number, kind, reason, line.text)

    if size > MAX_RECORD_CHARS:
        return bad(TOO_LONG, f"the sentence is longer than {MAX_RECORD_CHARS:,} characters; is no empty line after it?")
    word, tag = line.cells[0], line.cells[-1]
    if len(line.cells) == 1 or not tag:
        return bad(MISSING_TAG, f"the word {word!r} has no tag; a line is a word and, in its last column, a tag")
    if len(line.cells) != width:
        return bad(COLUMNS, f"{len(line.cells)} columns where {width} belong")
    if not word:
        return bad(COLUMNS, f"the tag {tag!r} has no word before it")
    if reason := tag_schemes.problem([tag], "any"):
        return bad(NO_TAG, reason)
    if data.segment_numbers:
        numbered = _NUMBERED.fullmatch(word)
        if numbered is None:
            return bad(SEGMENTS, f"the word {word!r} has no number at its end; leave out data.segment_numbers")
        word = numbered[1]
    # A word of a file with tabs may hold a space; a no-break space reads the same, and parts no words.
    return word.replace(" ", "\u00a0")


def _width(path: str, data: DataConfig) -> int:
    """How many columns the file has: as many as its first line with a word and a tag."""
    with open_text(path, data.encoding, newline="\n") as stream:
        first = None
        for number, text in numbered_lines(stream):
            line = _Line(number, text.rstrip("\r\n"), _cells(text))
            if not text.strip() or line.cells[0] == DOCUMENT:
                continue
            if line.is_token:
                return len(line.cells)
            if not line.text.startswith("#"):
                first = first or line
    if first is None:
        raise BertlineError(f"{path}: there is no word in the file; a line is a word and, in its last column, a tag.")
    raise BertlineError(
        f"{path}:{first.number}: no line of the file is a word and a tag in {_LEAST} to {_LIMIT} columns, nor is this one:"
        f" {first.text[:80]!r}; a tag is O, or a letter and a type, as B-PER. Is it a CoNLL file?"
    )
