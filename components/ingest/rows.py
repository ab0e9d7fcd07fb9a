"""What becomes of a row: left out on purpose, quarantined, or kept on one side of the split."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from bertline.components.ingest.choices import NOT_A_CHOICE, as_index, choices_of
from bertline.components.ingest.filters import EXCLUDE, LeftOut, count_words, left_out
from bertline.components.ingest.readers.records import (
    NESTED,
    BadRow,
    ListText,
    OneOrMore,
    Row,
    Values,
    as_raw,
    bad_row,
    list_of,
)
from bertline.models.data import tag_schemes
from bertline.pipeline.config import CHOICES

if TYPE_CHECKING:  # the Evaluator needs names from here, and nothing of how rows are read
    from bertline.pipeline.config import DataConfig, LabelKind, Scheme

EMPTY_TEXT = "empty text"
EMPTY_SECOND = "empty second text"
MISSING_LABEL = "missing label"
MISSING_TARGET = "missing target text"
FEW_CHOICES = "fewer than two choices"
LACKING = {"text": EMPTY_TEXT, "text_2": EMPTY_SECOND, CHOICES: FEW_CHOICES, "label": MISSING_LABEL}
"""Feature -> what a row without it is called; without a label that is a text, it is MISSING_TARGET."""
UNKNOWN_SPLIT = "unknown split"
NOT_A_NUMBER = "label is not a number"
WRONG_TAGS = "wrong tags"

Features = dict[str, str | int | float | Values]

Split = Literal["train", "eval"]
SPLITS: tuple[Split, ...] = ("train", "eval")
"""What the steps learn and choose from."""
TEST = "test"
"""The split of files that `data.test` names. It is no split of the Examples by TFX's own reckoning: a folder beside theirs,
so that no step reads it but the Evaluator."""
ALL_SPLITS = (*SPLITS, TEST)


class KeptExample(NamedTuple):
    split: str
    features: Features
    """`text` (and `text_2`, `choices`), `label`, `words`, the slice columns and lists; what is missing has no key. Where
    labels are texts, `label_words` counts their words."""
    missing: tuple[str, ...]
    """Of the values of LACKING, what makes the row incomplete."""
    writes: bool = False
    """Whether its label is a text that is to be written, and so no class."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes that it names, if labels are classes: one at most, any number, or one for each word."""
        label = None if self.writes else self.features.get("label")
        return tuple(map(str, label)) if isinstance(label, tuple) else (label,) if isinstance(label, str) else ()


def is_excluded(row: Row, data: DataConfig) -> bool:
    return any(row.values.get(column) in values for column, values in data.exclude.items())


def hash_of(key: str) -> int:
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big")


def hashed_split(key: str, eval_fraction: float) -> Split:
    """The same key is always on the same side, on every machine and however many rows there are; where a class has too few
    or too many evaluation examples by it, `strata.py` moves some."""
    return "eval" if hash_of(key) < eval_fraction * 2**64 else "train"


def split_key(row: Row, data: DataConfig) -> str:
    """What is hashed of a row: its group or, without one, its text."""
    key = row.values.get(data.split.group) if data.split.group is not None else None
    return key or "\0".join(row.values.get(column) or "" for column in data.text_columns.values())


def split_of(row: Row, data: DataConfig) -> Split | BadRow:
    """The side of a row whose file holds both sides."""
    split = data.split
    if split.column is None:
        return hashed_split(split_key(row, data), split.eval_fraction)
    value = row.values.get(split.column)
    if value is not None and value in split.train:
        return "train"
    if value is not None and value in split.eval:
        return "eval"
    known = f"data.split.train ({', '.join(split.train)}) nor data.split.eval ({', '.join(split.eval)})"
    reason = f"column {split.column!r} says {value!r}, which is neither in {known}"
    return bad_row(row.file, row.line, UNKNOWN_SPLIT, reason, as_raw(row.values))


def as_number(text: str) -> float | None:
    """
    >>> as_number(" 4.25"), as_number("4,25"), as_number("nan")
    (4.25, None, None)
    """
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def as_classes(text: str, delimiter: str) -> tuple[str, ...]:
    """
    >>> as_classes("funny; sad;funny;", ";"), as_classes('["a, b", "c"]', ",")
    (('funny', 'sad'), ('a, b', 'c'))
    """
    listed = list_of(text)
    names = text.split(delimiter) if listed is None else listed
    return tuple(dict.fromkeys(name.strip() for name in names if name.strip()))


def tagged_words(text: str | None, label: str | None, scheme: Scheme) -> Features | str:
    """The features of words and of their tags, both lists or written with spaces between; or what is wrong with them."""
    words, names = (_parted(value or "") for value in (text, label))
    for word in words:
        if not re.fullmatch(_WORD, word):
            return f"the word {word!r} is empty or has a space in it; make it two words, each with its tag"
    if text is not None and label is not None and len(words) != len(names):
        return f"{len(words)} words and {len(names)} tags; each word has one tag"
    if problem := tag_schemes.problem(names, scheme):
        return problem
    given: Features = {"text": " ".join(words), "label": tuple(names), "words": len(words)}
    missing = {"text": text is None, "label": label is None}
    return {name: value for name, value in given.items() if not missing.get(name)}


_WORD = r"[^ \t\r\n]+"
"""Not up to every white space of Unicode: a wide space may be a word of its own."""


def _parted(text: str) -> list[str]:
    return list_of(text) or [] if isinstance(text, ListText) else re.findall(_WORD, text)


def _is_empty(value: str | None) -> bool:
    """Nothing, or a list without values; of a plain text, [] is a text like any other."""
    return not value or not value.strip() or (isinstance(value, ListText) and not list_of(value))


def _single(value: str | None) -> str | None:
    """The one value of a source that writes it as a list."""
    values = list_of(value) if isinstance(value, OneOrMore) else None
    return values[0] if values and len(values) == 1 else None


def sort_example(
    row: Row, data: DataConfig, file_split: str | None, slices: Sequence[str], label: LabelKind = "class"
) -> KeptExample | BadRow | LeftOut:
    """What becomes of a row."""
    if row.left_out:
        return LeftOut(row.left_out)
    if is_excluded(row, data):
        return LeftOut(EXCLUDE)
    split = file_split or split_of(row, data)
    if isinstance(split, BadRow):
        return split
    columns = data.text_columns | ({"label": data.label} if data.label else {})
    given = {name: row.values.get(column) for name, column in columns.items()}
    present = {name: value for name, value in given.items() if value is not None and not _is_empty(value)}
    if label not in ("tags", "classes") and (value := _single(present.get("label"))):
        present["label"] = value
    for name, value in present.items():
        if isinstance(value, ListText) and not (label == "tags" or (label == "classes" and name == "label")):
            hint = "; the task multilabel learns from lists" if name == "label" and label == "class" else ""
            reason = f"column {columns[name]!r} holds a list where one value belongs{hint}"
            return bad_row(row.file, row.line, NESTED, reason, as_raw(row.values))
    # A row of which no class is named has none of them, where it may have several.
    needed = [name for name in columns if not (name == "label" and label == "classes")]
    absent = [name for name in needed if name not in present]
    choices = choices_of(row, data) if data.choices else []
    if isinstance(choices, BadRow):
        return choices
    if data.choices and len(choices) < 2:
        absent.append(CHOICES)
    lacking = LACKING | ({"label": MISSING_TARGET} if label == "text" else {})
    if absent and data.incomplete == "quarantine":
        what = lacking[absent[0]]
        where = columns.get(absent[0], ", ".join(data.choice_columns))
        return bad_row(row.file, row.line, what, f"{what} (column {where!r})", as_raw(row.values))
    texts = (*(present.get(name, "") for name in data.text_columns), *choices)
    words = sum(map(count_words, texts))
    features: Features = {**present, **row.lists, "words": words}
    if len(choices) >= 2:
        features[CHOICES] = tuple(choices)
    if label == "classes" and "label" in present:
        features["label"] = as_classes(present["label"], data.label_delimiter)
    if label == "number" and "label" in present:
        number = as_number(present["label"])
        if number is None:
            reason = f"column {data.label!r} says {present['label']!r}, which is not a number"
            return bad_row(row.file, row.line, NOT_A_NUMBER, reason, as_raw(row.values))
        features["label"] = number
    if label == "index" and "label" in present:
        index = as_index(present["label"], data.choice_columns, len(choices), data.first_choice)
        if index is None and CHOICES not in absent:
            reason = f"column {data.label!r} says {present['label']!r}, which is none of the {len(choices)} choices"
            remedy = f"they are numbered from {data.first_choice} (data.first_choice), or lettered from A"
            return bad_row(row.file, row.line, NOT_A_CHOICE, f"{reason}; {remedy}", as_raw(row.values))
        features["label"] = -1 if index is None else index
    if label == "tags":
        tagged = tagged_words(present.get("text"), present.get("label"), data.tag_scheme)
        if isinstance(tagged, str):
            return bad_row(row.file, row.line, WRONG_TAGS, tagged, as_raw(row.values))
        features |= tagged
        texts = (str(tagged.get("text", "")),)  # as words with spaces between, also where the row has a list
    target = present.get("label") if label == "text" else None
    if label == "text":
        features["label_words"] = count_words(target or "")
    # A row that lacks something is told of, however long it is.
    if split == "train" and not absent and (filtered := left_out(texts, target, data)):
        return filtered
    for name in slices:
        if (sliced := row.values.get(name)) is not None:
            features[name] = sliced
    return KeptExample(split, features, tuple(lacking[name] for name in absent), writes=label == "text")
