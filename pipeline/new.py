"""`bertline new DATA`: looks at a data file and writes a config for it, to be read and corrected by a person."""

from __future__ import annotations

import itertools
import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from components.ingest.files import InputFile, find_files
from components.ingest.readers import READERS, read
from components.ingest.records import COLUMNS, ENCODING, QUOTES, BadRow
from components.ingest.rows import as_number
from pipeline.config import DataConfig, SplitConfig
from pipeline.errors import BertlineError

LOOKED_AT = 20_000
"""Rows that the guess rests on."""
MAX_CLASSES = 200
_LABEL_NAMES = ("label", "category", "class", "target", "sentiment", "score", "similarity", "rating")
_TRAIN_LIKE = {"train", "training"}
_EVAL_LIKE = {"eval", "evaluation", "dev", "val", "valid", "validation", "test", "testing"}
# Columns that are two texts of one row, if both hold text: names that differ in their last mark, or go together.
_FIRST_MARKS, _SECOND_MARKS = ("1", "a", "one"), ("2", "b", "two")
_NAMED_PAIRS = (
    ("premise", "hypothesis"), ("question", "sentence"), ("question", "answer"), ("query", "document"),
    ("query", "passage"), ("#1 string", "#2 string"),
)  # fmt: skip
_OTHER_DELIMITERS = (";", "\t", "|")
_CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff]")
_Rows = list[dict[str, str | None]]


@dataclass(frozen=True, kw_only=True)
class Guess:
    """What a file seems to hold."""

    name: str
    data: DataConfig
    columns: tuple[str, ...]
    rows: int
    task: str
    classes: dict[str, int]
    """Class, or number to learn -> rows, the most frequent first."""
    seq_len: int
    other_labels: tuple[str, ...]
    """Columns that could be the label as well."""
    incomplete: int
    """Rows without text or label."""
    bad: int
    """Rows that could not be read."""

    @property
    def threshold(self) -> tuple[dict[str, float], str]:
        """A bound that only learning reaches, and why."""
        if self.task == "regression":
            return {"pearson": 0.3}, "an answer that does not look at the text correlates with nothing"
        majority = max(self.classes.values()) / sum(self.classes.values())
        return {"accuracy": min(0.99, round(majority + 0.05, 2))}, f"always the most frequent class reaches {majority:.3f}"


def describe(path: str, *, format: str | None = None) -> Guess:
    """Looks at the first rows of a file and guesses what they mean.

    Args:
      path: a CSV, TSV, JSONL or Parquet file.
      format: how it is written, if the ending does not say it.
    """
    data = DataConfig.model_validate({"path": os.path.abspath(path), "format": format})
    file = find_files(data)[0]
    if file.format == "conll":
        raise BertlineError(
            f"{path}: a CoNLL file needs no guessing; write `task: tagging`, its path as data.path (or two, as data.train"
            " and data.eval) and a bound such as `evaluation: {thresholds: {f1: 0.5}}`."
        )
    data, rows, bad = _read_well(file, data)
    columns = READERS[file.format].columns(file.path, data)
    if not rows:
        reason = f": {bad[0].reason}" if bad else ""
        raise BertlineError(f"{path}: the file has no row that can be read{reason}.")
    found = _find_columns(path, columns, rows)
    if file.format in ("csv", "tsv") and _header_is_data(found, rows):
        # Name the columns by what they seem to be, and take the first line for the row that it is.
        known = {found.texts[0]: "text", found.labels[0]: "label", found.split.column: "split"}
        columns = [known.get(name, f"column{at}") for at, name in enumerate(columns, 1)]
        data = data.model_copy(update={"columns": tuple(columns)})
        rows, bad = _sample(file, data)
        found = _find_columns(path, columns, rows)
    texts, label = found.texts, found.labels[0]
    complete = [row for row in rows if all((row.get(column) or "").strip() for column in (*texts, label))]
    if not complete:
        named = " and ".join(map(repr, texts))
        raise BertlineError(f"{path}: no row has both a text (column {named}) and a label (column {label!r}).")
    return Guess(
        name=_name(path),
        data=data.model_copy(update={"text": texts if len(texts) > 1 else texts[0], "label": label, "split": found.split}),
        columns=tuple(columns),
        rows=len(rows),
        task="regression" if _are_decimals(str(row[label]) for row in complete) else "classification",
        classes=dict(Counter(str(row[label]) for row in complete).most_common()),
        seq_len=_seq_len([" ".join(str(row[column]) for column in texts) for row in complete]),
        other_labels=tuple(found.labels[1:]),
        incomplete=len(rows) - len(complete),
        bad=len(bad),
    )


def write_config(path: str, out: str, *, format: str | None = None) -> str:
    """Writes a commented config for a data file, and returns its text. Never overwrites a file."""
    target = Path(out)
    if target.exists():  # before the look at the data, which can take a while
        raise BertlineError(f"{out}: the file exists; remove it, or name another with --out.")
    text = as_yaml(describe(path, format=format), target.parent)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with open(target, "x", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        raise BertlineError(f"{out}: cannot be written: {error.strerror}.") from None
    return text


def as_yaml(guess: Guess, folder: Path) -> str:
    """The config's text; its data path is relative to the folder that the config is to stand in."""
    data = guess.data
    shown = [f"{label} {count:,}" for label, count in itertools.islice(guess.classes.items(), 5)]
    more = f", {len(guess.classes) - len(shown)} more" if len(guess.classes) > len(shown) else ""
    texts = list(data.text_columns.values())
    lacking = f"{guess.incomplete:,} rows have no text or no label"
    settings: list[tuple[str, Any, str]] = [
        ("path", os.path.relpath(str(data.path), folder.resolve()), ""),
        ("format", data.format, ""),
        ("encoding", data.encoding if data.encoding != "utf-8" else None, "guessed, as the file is not UTF-8"),
        ("delimiter", data.delimiter, ""),
        ("columns", list(data.columns) or None, "line 1 looks like a row, not like a header"),
        ("text", texts[0] if len(texts) == 1 else texts, f"of the columns {_one_line(', '.join(guess.columns))}"),
        ("label", data.label, _one_line(f"{', '.join(shown)}{more}{_also(guess.other_labels)}")),
        ("split", data.split.model_dump(mode="json", exclude_unset=True) or None, ""),
        ("incomplete", "stop" if guess.incomplete else None, f"or quarantine: {lacking}"),
    ]
    bounds, why = guess.threshold
    source = _one_line(os.path.basename(str(data.path)))
    skipped = f", {guess.bad:,} unreadable" if guess.bad else ""
    return "\n".join(
        [
            f"# Guessed from {guess.rows:,} rows of {source}{skipped}; correct what is wrong.",
            _setting("name", guess.name).strip(),
            *([_setting("task", guess.task, "the labels are numbers").strip()] if guess.task != "classification" else []),
            "data:",
            *(_setting(key, value, comment) for key, value, comment in settings if value is not None),
            "text:",
            _setting("seq_len", guess.seq_len, "tokens; 19 of 20 texts fit"),
            "model:",
            _setting("size", "tiny", "from scratch; or checkpoint: FOLDER of a Hugging Face BERT"),
            "evaluation:",
            _setting("thresholds", bounds, why),
            "",
        ]
    )


def _setting(key: str, value: Any, comment: str = "") -> str:
    flow = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=math.inf)
    line = f"  {key}: {flow.removesuffix(chr(10)).removesuffix('...').strip()}"
    return f"{line}   # {comment}" if comment else line


def _one_line(text: str) -> str:
    """Fit for a comment: a class or a column may be named anything."""
    text = "".join(char if char.isprintable() else " " for char in text)
    return text if len(text) <= 120 else f"{text[:119]}…"


def _also(labels: Sequence[str]) -> str:
    return f"; could also be {', '.join(labels)}" if labels else ""


def _sample(file: InputFile, data: DataConfig) -> tuple[_Rows, list[BadRow]]:
    rows: _Rows = []
    bad: list[BadRow] = []
    for row in itertools.islice(read(file, data), LOOKED_AT):
        if isinstance(row, BadRow):
            bad.append(row)
        else:
            rows.append(row.values)
    return rows, bad


def _read_well(file: InputFile, data: DataConfig) -> tuple[DataConfig, _Rows, list[BadRow]]:
    """Reads the file by the first settings under which few rows are bad; else by the default ones."""
    with open(file.path, "rb") as stream:
        if stream.read(2) in (b"\xff\xfe", b"\xfe\xff"):
            data = data.model_copy(update={"encoding": "utf-16"})
    rows, bad = _sample(file, data)
    tries: list[dict[str, str]] = []
    if rows and len(rows[0]) == 1 or _share(bad, rows, COLUMNS, QUOTES) > data.max_bad_share:
        tries = [{"delimiter": delimiter} for delimiter in _OTHER_DELIMITERS] if file.format == "csv" else []
    elif not rows or _share(bad, rows, ENCODING) > data.max_bad_share:
        tries = [{"encoding": encoding} for encoding in ("cp1252", "latin-1")]
    for update in tries:
        other = data.model_copy(update=update)
        other_rows, other_bad = _sample(file, other)
        if other_rows and len(other_rows[0]) > 1 and _share(other_bad, other_rows) <= data.max_bad_share:
            return other, other_rows, other_bad
    return data, rows, bad


def _share(bad: list[BadRow], rows: _Rows, *kinds: str) -> float:
    counted = sum(not kinds or row.kind in kinds for row in bad)
    return counted / max(1, len(bad) + len(rows))


class _Columns(NamedTuple):
    texts: tuple[str, ...]
    labels: list[str]
    """Columns that could be the label, the likeliest first."""
    split: SplitConfig


def _find_columns(path: str, columns: list[str], rows: _Rows) -> _Columns:
    values = {name: [value for row in rows if (value := row.get(name))] for name in columns}
    lengths = {name: sum(map(len, found)) / len(found) for name, found in values.items() if _is_text(found)}
    longest = max(lengths, key=lambda name: lengths[name], default=None)
    texts = _pair(list(lengths)) or (longest,)
    distinct = {name: set(found) for name, found in values.items() if name not in texts}
    splits = (_split_config(name, found) for name, found in distinct.items())
    split = next((split for split in splits if split.column), SplitConfig())
    labels = [
        name
        for name, found in distinct.items()
        if name != split.column and (2 <= len(found) <= min(MAX_CLASSES, len(values[name]) / 2) or _are_decimals(found))
    ]
    labels.sort(key=lambda name: (_label_rank(name), len(distinct[name])))
    if longest is None or not labels:
        missing = "text: a column of words" if longest is None else "a label: few values that repeat, or decimals"
        shown = _one_line(", ".join(columns))
        raise BertlineError(f"{path}: no column looks like {missing}. Columns: {shown}. Write the config by hand.")
    return _Columns(tuple(map(str, texts)), labels, split)


def _pair(columns: Sequence[str]) -> tuple[str, str] | None:
    """The two of the columns whose names say that they belong together."""
    for first, second in itertools.permutations(columns, 2):
        a, b = first.lower(), second.lower()
        marks = zip(_FIRST_MARKS, _SECOND_MARKS, strict=True)
        numbered = any(a.endswith(x) and b.endswith(y) and a[: -len(x)] == b[: -len(y)] for x, y in marks)
        if numbered or (a, b) in _NAMED_PAIRS:
            return first, second
    return None


def _split_config(column: str, values: set[str]) -> SplitConfig:
    """How the column parts the rows, if its values are like train and dev or test; else the default, hashing."""
    train = sorted(value for value in values if value.lower() in _TRAIN_LIKE)
    held_out = sorted(value for value in values if value.lower() in _EVAL_LIKE)
    if not train or not held_out or len(train) + len(held_out) < len(values):
        return SplitConfig()
    default = SplitConfig(column=column)
    if set(train) <= set(default.train) and set(held_out) <= set(default.eval):
        return default
    return SplitConfig(column=column, train=tuple(train), eval=tuple(held_out))


def _is_text(values: list[str]) -> bool:
    """Most values have several words, or letters of a script that does not part words by spaces."""
    return sum(" " in value.strip() or bool(_CJK.search(value)) for value in values) > len(values) / 2


def _are_decimals(values: Iterable[str]) -> bool:
    """Numbers with something after the point: what is measured or rated, and no number of a class or a row."""
    numbers = [as_number(value) for value in values]
    return None not in numbers and any(number % 1 for number in numbers if number is not None)


def _label_rank(name: str) -> int:
    lowered = name.lower()
    return _LABEL_NAMES.index(lowered) if lowered in _LABEL_NAMES else len(_LABEL_NAMES)


def _header_is_data(found: _Columns, rows: _Rows) -> bool:
    """The label column's name is one of its own values, or the text column's name is a sentence."""
    label = found.labels[0]
    return any(row.get(label) == label for row in rows) or len(found.texts[0].split()) > 5


def _seq_len(texts: list[str]) -> int:
    """Room for 19 of 20 texts: a word makes about 1.4 pieces, a Chinese or Japanese character one."""
    words = sorted(max(len(text.split()), len(_CJK.findall(text))) for text in texts)
    pieces = words[math.ceil(0.95 * len(words)) - 1] * 1.4 + 2
    return min(512, max(16, 8 * math.ceil(pieces / 8)))


def _name(path: str) -> str:
    stem = Path(path).name.split(".")[0].lower()
    return re.sub(r"[^a-z0-9]+", "-", stem).strip("-")[:63].rstrip("-") or "texts"
