"""Files that say themselves what is learned from them: tagged words, questions about texts, documents."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from bertline.components.ingest.files import InputFile, numbered_lines, open_text, readable
from bertline.components.ingest.readers.documents import split_sentences
from bertline.components.ingest.readers.records import ENCODING, BadRow, Row
from bertline.components.ingest.readers.registry import reader_of
from bertline.components.ingest.rows import split_of
from bertline.models.data import tag_schemes
from bertline.pipeline.config import DataConfig
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.new.guess import NEEDS_CHECKPOINT, Guess, Setting, Source, one_line, room_for
from bertline.pipeline.new.tables.table import LOOKED_AT, sample, seen_rows, with_encoding

_NUMBERED = re.compile(r".+\d")
_TITLE = re.compile(r"\s*= [^=].* =\s*")
_WORD = re.compile(r"\w+|[^\w\s]")
_LEARNED_WORDS = 8000
"""About as many as a learned vocabulary has tokens."""
_ANSWERED_AT_RANDOM = 0.2
"""More F1 than some words of the text come to, taken at random."""


def guess_tags(source: Source, file: InputFile, data: DataConfig) -> Guess:
    """A CoNLL file."""
    data = with_encoding(file, data)
    data, rows, bad = rows_in(file, data)
    words = [word for row in rows for word in str(row.values["text"]).split(" ")]
    names = [str(row.values["label"]).split(" ") for row in rows]
    types = Counter(entity.type for sentence in names for entity in tag_schemes.entities(sentence)).most_common()
    if not types:
        raise BertlineError(f"{file.path}: every tag of {len(rows):,} sentences is O; name a file that has entities.")
    letters = sorted({tag[0] for sentence in names for tag in sentence} - {tag_schemes.OUTSIDE})
    shown = ", ".join(f"{name} ({count:,})" for name, count in types[:5])
    more = f", {len(types) - 5} more" if len(types) > 5 else ""
    numbered = all(map(_NUMBERED.fullmatch, words))
    return Guess(
        task="tagging",
        why=f"each word has a tag; entities: {shown}{more}",
        seen=seen_in(rows, bad, "sentences", source),
        data=(
            *source.settings,
            Setting("format", "conll"),
            encoding_setting(data),
            Setting("tag_scheme", "any", f"the letters are {', '.join(letters)}; or name a scheme, as IOB2, to be held to"),
            Setting("segment_numbers", numbered or None, "every word ends with a number, as in Weibo NER; it is dropped"),
        ),
        seq_len=room_for(str(row.values["text"]) for row in rows),
        thresholds={"f1": 0.3},
        why_thresholds="of entities; always O finds none, and has 0",
        model=NEEDS_CHECKPOINT,
    )


def guess_answers(source: Source, file: InputFile, data: DataConfig) -> Guess:
    """A file of SQuAD's JSON."""
    data, rows, bad = rows_in(file, data)
    articles, texts = (len({row.values[name] for row in rows}) for name in ("title", "context"))
    unanswered = sum(not row.lists["answers"] for row in rows) / len(rows)
    # By article, unless all of them would be on one side.
    group = "title"
    if source.evaluation is None:
        group = next((name for name in ("title", "context") if has_both_sides(rows, data, name)), "")
    if not group:
        raise too_few(file, f"questions about {texts} text{'s' * (texts > 1)}")
    return Guess(
        task="answering",
        why="questions about texts, whose answers are parts of them",
        seen=f"{seen_in(rows, bad, 'questions', source)}, about {texts:,} texts of {articles:,} articles",
        data=(
            *source.settings,
            encoding_setting(data),
            Setting(
                "split", {"group": group} if group != "title" else None, "too few articles to keep some for evaluation"
            ),
        ),
        thresholds={"f1": round(unanswered + _ANSWERED_AT_RANDOM * (1 - unanswered), 2)},
        why_thresholds=f"{unanswered:.0%} of the questions have no answer: never answering reaches {unanswered:.2f}"
        if unanswered
        else "every question has an answer; words at random reach less",
        model=NEEDS_CHECKPOINT,
        texts=tuple(str(row.values["context"]) for row in rows[:: max(1, len(rows) // 100)]),
    )


def guess_documents(source: Source, file: InputFile, data: DataConfig) -> Guess:
    """A file of plain text."""
    data = with_encoding(file, data)
    with readable(file.path), open_text(file.path, data.encoding, newline="\n") as stream:
        lines = [line for _, line in itertools.islice(numbered_lines(stream), LOOKED_AT) if line.strip()]
    headings = sum(bool(_TITLE.fullmatch(line)) for line in lines)
    sentences = sum(len(split_sentences(line)) for line in lines) / max(1, len(lines))
    data = data.model_copy(
        update={
            "documents": "headings" if headings > 1 else "empty lines",
            "sentences": "split" if sentences > 1.5 else "lines",
        }
    )
    data, rows, bad = rows_in(file, data)
    if source.evaluation is None and not has_both_sides(rows, data):
        found = f"plain text of {len(rows)} document{'s' * (len(rows) > 1)}"
        raise too_few(file, found, "put an empty line between documents; if it is a table, name its --format; or ")
    perplexity = _perplexity_of_words(str(row.values["text"]) for row in rows)
    return Guess(
        task="pretraining",
        why="plain text, without labels",
        seen=seen_in(rows, bad, "documents", source),
        data=(
            *source.settings,
            Setting("format", "documents"),
            encoding_setting(data),
            Setting("documents", data.documents, f"{headings:,} lines are ` = Title = `" if headings > 1 else "part them"),
            Setting("sentences", data.sentences, f"a line has {sentences:.1f} of them"),
        ),
        thresholds={"perplexity": math.ceil(0.8 * perplexity)},
        why_thresholds=f"at most; predicting by word frequency has about {perplexity:.0f}",
    )


def rows_in(file: InputFile, data: DataConfig) -> tuple[DataConfig, list[Row], list[BadRow]]:
    """The first rows, and the settings with the first encoding under which few of them are bad."""
    reader_of(file.format).columns(file.path, data)  # what is wrong with the whole file is told as it is
    found = []
    for encoding in (data.encoding, "cp1252", "latin-1"):
        tried = data.model_copy(update={"encoding": encoding})
        rows, bad = sample(file, tried)
        found.append((tried, rows, bad))
        if rows and sum(row.kind == ENCODING for row in bad) <= data.max_bad_fraction * len(rows):
            return tried, rows, bad
    data, rows, bad = found[0]
    if not rows:
        reason = one_line(bad[0].reason) if bad else "it is empty"
        raise BertlineError(f"{file.path}: nothing of the file can be read: {reason.rstrip('.')}.")
    return data, rows, bad


def seen_in(rows: Sequence[Row], bad: Sequence[BadRow], what: str, source: Source) -> str:
    return seen_rows(len(rows), what, source.path) + (f", {len(bad):,} unreadable" if bad else "")


def encoding_setting(data: DataConfig) -> Setting:
    return Setting("encoding", data.encoding if data.encoding != "utf-8" else None, "detected, as the file is not UTF-8")


def has_both_sides(rows: Sequence[Row], data: DataConfig, group: str | None = None) -> bool:
    """Whether the hash that parts the rows puts some on either side."""
    parted = data.model_copy(update={"split": data.split.model_copy(update={"group": group})})
    return {split_of(row, parted) for row in rows} == {"train", "eval"}


def too_few(file: InputFile, found: str, remedy: str = "") -> BertlineError:
    return BertlineError(
        f"{file.path}: {found}, too few to split; {remedy}name a folder with one file to train on and one to hold"
        " out, as train.txt and dev.txt."
    )


def _perplexity_of_words(texts: Iterable[str]) -> float:
    """Of a guess that knows how frequent each word is, and nothing of what stands around it."""
    counts = Counter(word for text in texts for word in _WORD.findall(text.lower()))
    known = [count for _, count in counts.most_common(_LEARNED_WORDS)]
    rest = sum(counts.values()) - sum(known)
    fractions = [count / sum(counts.values()) for count in (*known, rest) if count]
    return math.exp(-sum(fraction * math.log(fraction) for fraction in fractions))
