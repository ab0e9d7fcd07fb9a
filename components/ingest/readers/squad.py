"""SQuAD's JSON, versions 1.1 and 2.0: articles of paragraphs, each with questions about it. A question is a row.

Articles are read one at a time. A row's number is that of its question in the file, for such a file is often one line; what
is wrong with a question is told with its id.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from bertline.components.ingest.files import open_text
from bertline.components.ingest.readers.json_items import ItemReader
from bertline.components.ingest.readers.records import (
    MAX_RECORD_CHARS,
    UNUSABLE,
    BadRow,
    Row,
    Values,
    as_raw,
    bad_row,
    find_unusable,
)
from bertline.pipeline.config import DataConfig

MISFIT = "answer does not fit its text"
MISSING = "missing field"

_TEXTS = ("id", "title", "question", "context", "is_impossible")
_LISTS = ("answers", "answer_starts")


def columns(path: str, data: DataConfig) -> list[str]:
    return [*_TEXTS, *_LISTS]


def read(path: str, data: DataConfig, columns: Collection[str] | None = None) -> Iterator[Row | BadRow]:
    """A row a question: `title`, `context`, `question`, `id`, `is_impossible`, and the lists `answers` (texts) and
    `answer_starts` (in characters), both empty for a question that its context does not answer."""
    number = 0
    with open_text(path, data.encoding, newline="") as stream:
        for article in ItemReader(path, stream, "data", MAX_RECORD_CHARS):
            for found in _questions(article.value):
                number += 1
                yield _row(path, number, found, columns)


class _Unusable(Exception):
    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


def _questions(article: Any) -> Iterator[dict[str, Any] | _Unusable]:
    """What is known of each question of an article, its context and title included."""
    try:
        paragraphs = _field(article, "paragraphs", list, "an article")
    except _Unusable as problem:
        yield problem
        return
    title = article.get("title")
    for paragraph in paragraphs:
        try:
            context = _field(paragraph, "context", str, "a paragraph")
            asked = _field(paragraph, "qas", list, "a paragraph")
        except _Unusable as problem:
            yield problem
            continue
        # Without a title, all questions about one text stay on one side of a split all the same.
        of_all = {"title": title if isinstance(title, str) and title.strip() else context, "context": context}
        yield from ({**of_all, "asked": question} for question in asked)


def _row(path: str, number: int, found: dict[str, Any] | _Unusable, columns: Collection[str] | None) -> Row | BadRow:
    if isinstance(found, _Unusable):
        return bad_row(path, number, found.kind, str(found), "")
    try:
        values, lists = _question(found["asked"], found["context"])
    except _Unusable as problem:
        raw = found["asked"] if isinstance(found["asked"], dict) else {"question": found["asked"]}
        return bad_row(path, number, problem.kind, str(problem), as_raw(raw))
    values |= {"title": found["title"], "context": found["context"]}
    for name in ("question", "context", "title"):
        if unusable := find_unusable(values[name] or ""):
            what = "a NUL character" if unusable[0] == "\0" else "bytes that cannot be decoded, or a lone surrogate"
            reason = f"question {values['id']!r}: {name} holds {what} at character {unusable.start()}"
            return bad_row(path, number, UNUSABLE, reason, as_raw(found["asked"]))

    def wanted(name: str) -> bool:
        return columns is None or name in columns

    return Row(
        path,
        number,
        {name: value for name, value in values.items() if wanted(name)},
        {name: value for name, value in lists.items() if wanted(name)},
    )


def _question(asked: Any, context: str) -> tuple[dict[str, str | None], dict[str, Values]]:
    where = f"question {asked['id']!r}" if isinstance(asked, dict) and isinstance(asked.get("id"), str) else "a question"
    question_id, question = (_field(asked, name, str, where) for name in ("id", "question"))
    is_impossible = asked.get("is_impossible", False)
    if not isinstance(is_impossible, bool):
        raise _Unusable(MISFIT, f"{where}: is_impossible is {is_impossible!r}; it should be true or false")
    # An impossible question may leave its answers out.
    left_out = is_impossible and asked.get("answers") is None
    answers = [] if left_out else _field(asked, "answers", list, where)
    if is_impossible and answers:
        raise _Unusable(MISFIT, f"{where}: it is marked impossible, and has {len(answers)} answers")
    if not is_impossible and not answers:
        raise _Unusable(MISFIT, f"{where}: it has no answer, and is not marked impossible")
    texts = tuple(_field(answer, "text", str, f"an answer to {where}") for answer in answers)
    starts = tuple(_field(answer, "answer_start", int, f"an answer to {where}") for answer in answers)
    for text, start in zip(texts, starts, strict=True):
        if not text.strip():
            raise _Unusable(MISFIT, f"{where}: an answer is empty")
        if start < 0 or context[start : start + len(text)] != text:
            stands = context[max(start, 0) : max(start, 0) + len(text)]
            raise _Unusable(
                MISFIT, f"{where}: its answer {_short(text)} is not at character {start}, where {_short(stands)} stands"
            )
    values = {"id": question_id, "question": question, "is_impossible": "true" if is_impossible else "false"}
    return dict(values), {"answers": texts, "answer_starts": starts}


def _field(value: Any, name: str, kind: type, where: str) -> Any:
    """The field of an object, if it is there and of the right kind."""
    if not isinstance(value, Mapping):
        raise _Unusable(MISSING, f"{where} is no object")
    found = value.get(name)
    if not isinstance(found, kind) or isinstance(found, bool):
        kinds = {str: "a text", int: "a whole number", list: "a list"}
        raise _Unusable(MISSING, f"{where}: {name} is {'missing' if found is None else f'not {kinds[kind]}'}")
    return found


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:40]}…")
