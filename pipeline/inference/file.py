"""`bertline predict --file`: a model's answers to a whole file, in the order of its lines.

The file is read twice: once to see that every line can be asked, before a model is loaded and hours are spent, and once to
ask. Neither time more than a buffer of rows is held. Inside the buffer rows of like length are asked together, because a
batch is padded to its longest text.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any, NamedTuple

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from bertline.components.ingest.choices import choices_of
from bertline.components.ingest.files import check_line, format_by_ending, nearest, numbered_lines, open_text, readable
from bertline.components.ingest.readers import delimited, jsonl
from bertline.components.ingest.readers.records import MAX_RECORD_CHARS, BadRow, Row, make_row
from bertline.pipeline.config import CHOICES, DataConfig
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.inference.predictor import BATCH, Found, Loaded, Texts, ask_all, size_of

FORMATS = ("jsonl", "csv", "tsv", "lines")
STDOUT = "-"
_BUFFER_ROWS = 64 * BATCH
_BUFFER_CHARS = 16_000_000
"""Rows are few where texts are long, so that the buffer stays small."""


class Question(NamedTuple):
    """A line of the file: what is kept of it, and what the model is asked."""

    fields: Mapping[str, Any]
    texts: Texts


def answer_file(path: str, out: str, found: Found, format: str | None = None) -> int:
    """Writes an object a line to `out`: the fields of the file's line, and the model's answer. Returns how many.

    Raises:
      BertlineError: a line cannot be asked; `out` is then left as it was.
    """
    _check_paths(path, out)
    source = Source.of(path, found, format)
    screen = Console(stderr=True)
    with _progress(screen) as progress:
        shown = progress.add_task("reading", total=None)
        rows = sum(1 for _ in progress.track(source.questions(), task_id=shown))
        progress.update(shown, description="loading the model", completed=0, total=rows)
        with closing(found.load()) as model, written_at_once(out) as stream:
            progress.update(shown, description="predicting")
            for fields in answered(source.questions(), model):
                stream.write(json.dumps(fields, ensure_ascii=False) + "\n")
                progress.advance(shown)
    return rows


def answered(questions: Iterable[Question], model: Loaded) -> Iterator[dict[str, Any]]:
    """Each question's fields with its answer, in the order of the questions."""
    for buffer in _buffers(questions):
        given = ask_all(model, [question.texts for question in buffer])
        yield from map(with_answer, (question.fields for question in buffer), map(model.plain, given))


def with_answer(fields: Mapping[str, Any], answer: Mapping[str, Any]) -> dict[str, Any]:
    """
    >>> with_answer({"text": "fine", "label": "bad"}, {"label": "good"})
    {'text': 'fine', 'given_label': 'bad', 'label': 'good'}
    """

    def free(name: str) -> str:
        return free(f"given_{name}") if name in fields or name in answer else name

    kept = {free(f"given_{name}") if name in answer else name: value for name, value in fields.items()}
    return {**kept, **answer}


def _buffers(questions: Iterable[Question]) -> Iterator[list[Question]]:
    buffer: list[Question] = []
    size = 0
    for question in questions:
        buffer.append(question)
        size += size_of(question.texts)
        if len(buffer) == _BUFFER_ROWS or size > _BUFFER_CHARS:
            yield buffer
            buffer, size = [], 0
    if buffer:
        yield buffer


@dataclass(frozen=True)
class Source:
    """A file to ask about, and where each text stands in it."""

    path: str
    format: str
    columns: Mapping[str, str | Sequence[str]]
    """Name of a text in the model's signature -> column or key in the file; or columns of the choices."""

    @classmethod
    def of(cls, path: str, found: Found, format: str | None) -> Source:
        format = format or {"documents": "lines"}.get(name := format_by_ending(path) or "", name)
        keys = found.text_keys
        if format not in FORMATS:
            raise BertlineError(f"{path}: unknown file ending; give --format {'|'.join(FORMATS)}.")
        if format == "lines":
            if len(keys) > 1:
                raise BertlineError(
                    f"{path}: a plain line is one text, and the model reads {' and '.join(keys)}; give JSONL."
                )
            return cls(path, format, {keys[0]: keys[0]})
        with readable(path):
            known = (jsonl if format == "jsonl" else delimited).columns(path, cls(path, format, {}).data)
        return cls(path, format, {key: _columns(path, key, found.columns.get(key), known) for key in keys})

    @cached_property
    def texts(self) -> dict[str, str]:
        """Of `columns`, those that hold one text each."""
        return {key: str(column) for key, column in self.columns.items() if key != CHOICES}

    @cached_property
    def data(self) -> DataConfig:
        """What the readers of ingestion are told of the file."""
        text, choices = next(iter(self.texts.values()), "text"), self.columns.get(CHOICES, ())
        given = {"path": self.path, "format": self.format, "label": None, "text": text, CHOICES: choices}
        return DataConfig.model_validate(given)

    def questions(self) -> Iterator[Question]:
        with readable(self.path):
            yield from {"jsonl": self._of_objects, "lines": self._of_lines}.get(self.format, self._of_records)()

    def _of_objects(self) -> Iterator[Question]:
        lists = self.data.choice_columns
        for number, line, fields in jsonl.objects(self.path, self.data):
            if isinstance(fields, BadRow):
                raise _bad(fields)
            row = make_row(self.path, number, fields, [*self.texts.values(), *lists], line, lists)
            if isinstance(row, BadRow):
                raise _bad(row)
            for column in self.texts.values():
                if fields.get(column) is None:
                    raise BertlineError(f"{row.place}: {column!r} is missing; every line needs it.")
            yield self._question(row, fields)

    def _of_records(self) -> Iterator[Question]:
        for row in delimited.read(self.path, self.data):
            if isinstance(row, BadRow):
                raise _bad(row)
            yield self._question(row, {name: value or "" for name, value in row.values.items()})

    def _of_lines(self) -> Iterator[Question]:
        (key,) = self.columns
        with open_text(self.path, "utf-8", newline="\n") as stream:
            for number, line in numbered_lines(stream):
                if bad := check_line(self.path, "utf-8", number, line):
                    raise _bad(bad)
                if len(line) > MAX_RECORD_CHARS:
                    raise BertlineError(f"{self.path}:{number}: line longer than {MAX_RECORD_CHARS:,} characters.")
                text = line.rstrip("\r\n")
                yield self._question(Row(self.path, number, {key: text}), {key: text})

    def _question(self, row: Row, fields: Mapping[str, Any]) -> Question:
        texts: dict[str, bytes | list[bytes]] = {
            key: (row.values[column] or "").encode() for key, column in self.texts.items()
        }
        if CHOICES in self.columns:
            choices = choices_of(row, self.data)
            if isinstance(choices, BadRow):
                raise _bad(choices)
            if not choices:
                raise BertlineError(f"{row.place}: no choices; every line needs them.")
            texts[CHOICES] = [choice.encode() for choice in choices]
        return Question(fields, texts)


def _columns(path: str, key: str, trained: str | list[str] | None, known: Sequence[str]) -> str | list[str]:
    """By the signature's name, or else by the names that they had in the training files."""
    named = [trained] if isinstance(trained, str) else trained or []
    if key in known:
        return key
    if trained and set(named) <= set(known):
        return trained
    also = f", nor {', '.join(map(repr, named))} as in the training files" if named and named != [key] else ""
    hint = nearest(named[0] if named else key, known) or "; rename the one that holds it."
    raise BertlineError(f"{path}: there is no column {key!r}{also}{hint} Columns: {', '.join(known)}.")


def _bad(row: BadRow) -> BertlineError:
    return BertlineError(f"{row.place}: {row.reason}. Nothing was written.")


def _check_paths(path: str, out: str) -> None:
    if not Path(path).is_file():
        there = Path(path).exists()
        remedy = "is not a regular file, and it is read twice; save it as one" if there else "no such file; check the path"
        raise BertlineError(f"{path}: {remedy}.")
    if out == STDOUT:
        return
    if Path(out).exists() and os.path.samefile(path, out):
        raise BertlineError(f"{out}: --out is the input file; name another.")
    if Path(out).is_dir() or not Path(out).absolute().parent.is_dir():
        what = "is a folder" if Path(out).is_dir() else f"there is no folder {Path(out).absolute().parent}"
        raise BertlineError(f"{out}: {what}; name a file by --out.")


@contextmanager
def written_at_once(out: str) -> Iterator[IO[str]]:
    """A stream whose text stands in the file `out` only after the last line of it: never half an answer."""
    target = Path(out).resolve()
    if out == STDOUT or target.exists() and not target.is_file():  # a pipe or a device has no half
        with click.open_file(out, "w", encoding="utf-8") as stream:
            yield stream
        return
    incoming = target.with_name(f".{target.name}.{os.getpid()}.part")
    opener: Callable[..., Any] = gzip.open if target.suffix == ".gz" else open
    try:
        with opener(incoming, "wt", encoding="utf-8") as stream:
            yield stream
        incoming.replace(target)
    except OSError as error:
        raise BertlineError(f"{out}: cannot be written: {error.strerror or error}.") from None
    finally:
        incoming.unlink(missing_ok=True)


def _progress(screen: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=screen,
        transient=True,
        disable=not screen.is_terminal,
        redirect_stdout=False,
        redirect_stderr=False,
    )
