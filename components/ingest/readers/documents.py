"""Plain text, whose documents become a row each.

Documents are parted by empty lines, or begin at headings of WikiText's kind, ` = Title = ` (` = = Section = = ` stands
inside one); a heading is no part of the text. Sentences are a line each, or found in the lines.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from bertline.components.ingest.files import check_line, numbered_lines, open_text
from bertline.components.ingest.readers.records import MAX_RECORD_CHARS, TOO_LONG, BadRow, Row, bad_row
from bertline.pipeline.config import DataConfig

_TITLE = re.compile(r"\s*= [^=].* =\s*")
_HEADING = re.compile(r"\s*(= ){2,}.*( =){2,}\s*")
# A sentence seems to end at . ! or ?, with quotes and brackets behind it, where a capital, a digit or a quote follows.
_SENTENCE_END = re.compile(r"(?<=[.!?])(\s*[\"'”’)\]]*)\s+(?=[\"'“‘(\[]?\s?[A-Z0-9])|(?<=[。！？])(?=.)")


def columns(path: str, data: DataConfig) -> list[str]:
    return [data.text_columns["text"]]


def read(path: str, data: DataConfig, columns: Collection[str] | None = None) -> Iterator[Row | BadRow]:
    """A row a document: its sentences, a line each. Its line is that of its first sentence."""
    sentences: list[str] = []
    first = size = 0
    column = data.text_columns["text"]

    def document() -> Iterator[Row | BadRow]:
        text = "\n".join(sentences)
        if size > MAX_RECORD_CHARS:
            yield bad_row(path, first, TOO_LONG, f"the document is longer than {MAX_RECORD_CHARS:,} characters", text)
        elif sentences:
            yield Row(path, first, {column: text})

    with open_text(path, data.encoding, newline="\n") as stream:
        for number, line in numbered_lines(stream):
            if bad := check_line(path, data.encoding, number, line):
                yield bad
                continue
            by_headings = data.documents == "headings"
            if _TITLE.fullmatch(line) if by_headings else not line.strip():
                yield from document()
                sentences, size = [], 0
            elif line.strip() and not (by_headings and _HEADING.fullmatch(line)):
                if not sentences:
                    first = number
                size += len(line)
                if size <= MAX_RECORD_CHARS:  # what is beyond is never kept
                    sentences += split_sentences(line) if data.sentences == "split" else [line.strip()]
    yield from document()


def split_sentences(line: str) -> list[str]:
    """
    >>> split_sentences("It rained . Nobody came ! \\" Why ? \\" she asked .")
    ['It rained .', 'Nobody came ! "', 'Why ? " she asked .']
    """
    found, begin = [], 0
    for match in _SENTENCE_END.finditer(line):
        found.append(line[begin : match.end(1) if match[1] else match.start()])
        begin = match.end()
    return [sentence.strip() for sentence in (*found, line[begin:]) if sentence.strip()]
