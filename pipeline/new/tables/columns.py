"""What the columns of a table seem to be, by their values first and by their names where values do not tell."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence

from bertline.components.ingest.choices import as_index
from bertline.components.ingest.rows import as_number
from bertline.pipeline.config import SplitConfig
from bertline.pipeline.new.guess import CJK
from bertline.pipeline.new.tables.table import Table

MAX_CLASSES = 200
_FILLED = 0.9
_NEARLY_ALL = 0.99
LABEL_NAMES = (
    "label", "category", "class", "target", "sentiment", "score", "similarity", "rating", "answer", "answerkey", "gold",
)  # fmt: skip
_TRAIN_LIKE = {"train", "training"}
_EVAL_LIKE = {"eval", "evaluation", "dev", "val", "valid", "validation", "test", "testing"}
# Columns that are two texts of one row, if both hold text: names that differ in their last mark, or go together.
_FIRST_MARKS, _SECOND_MARKS = ("1", "a", "one"), ("2", "b", "two")
_NAMED_PAIRS = (
    ("premise", "hypothesis"), ("question", "sentence"), ("question", "answer"), ("question", "context"),
    ("question", "passage"), ("query", "document"), ("query", "passage"), ("#1 string", "#2 string"), ("first", "second"),
)  # fmt: skip
_CHOICE_STEMS = {
    "", "ending", "choice", "option", "opt", "op", "answer", "alternative", "candidate", "solution", "sol",
}  # fmt: skip
_MARKED = re.compile(r"(.*?)[ _-]?(\d+|[a-z])")


def texts(table: Table, among: Sequence[str] | None = None) -> list[str]:
    """Columns of text: most values have several words, or letters of a script that does not part words by spaces."""
    columns = [name for name in (table.columns if among is None else among) if name not in table.lists]
    return [name for name in columns if _is_text(table.values(name))]


def main_texts(table: Table, among: Sequence[str] | None = None) -> tuple[str, ...]:
    """The text of a row, or its two texts; none if no column holds text."""
    found = texts(table, among)
    filled = [name for name in found if len(table.values(name)) >= _FILLED * len(table.rows)]
    longest = max(found, key=lambda name: _mean_length(table.values(name)), default=None)
    return pair(filled) or ((longest,) if longest is not None else ())


def pair(columns: Sequence[str]) -> tuple[str, str] | None:
    """The two of the columns whose names say that they belong together."""
    for first, second in itertools.permutations(columns, 2):
        a, b = first.lower(), second.lower()
        marks = zip(_FIRST_MARKS, _SECOND_MARKS, strict=True)
        numbered = any(a.endswith(x) and b.endswith(y) and a[: -len(x)] == b[: -len(y)] for x, y in marks)
        if numbered or (a, b) in _NAMED_PAIRS:
            return first, second
    return None


def split_config(table: Table) -> SplitConfig:
    """How a column parts the rows, if its values are like train and dev or test; else the default, hashing."""
    if table.source.evaluation is not None:
        return SplitConfig()
    for column in table.columns:
        values = set(table.values(column))
        train = sorted(value for value in values if value.lower() in _TRAIN_LIKE)
        evaluation = sorted(value for value in values if value.lower() in _EVAL_LIKE)
        if train and evaluation and len(train) + len(evaluation) == len(values):
            default = SplitConfig(column=column)
            if set(train) <= set(default.train) and set(evaluation) <= set(default.eval):
                return default
            return SplitConfig(column=column, train=tuple(train), eval=tuple(evaluation))
    return SplitConfig()


def labels(table: Table, apart_from: Iterable[str]) -> list[str]:
    """Columns that could be the label, the likeliest first: few values that repeat, or decimals."""
    taken = {*apart_from, *table.lists, split_config(table).column}
    distinct = {name: set(table.values(name)) for name in table.columns if name not in taken}
    found = [
        name
        for name, values in distinct.items()
        if 2 <= len(values) <= min(MAX_CLASSES, len(table.values(name)) / 2) or are_decimals(values)
    ]
    return sorted(found, key=lambda name: (_label_rank(name), len(distinct[name])))


def are_decimals(values: Iterable[str]) -> bool:
    """Numbers with something after the point: what is measured or rated, and no number of a class or a row."""
    numbers = [as_number(value) for value in values]
    return None not in numbers and any(number % 1 for number in numbers if number is not None)


def choice_columns(columns: Sequence[str]) -> list[tuple[str, ...]]:
    """Series of columns, as ending0 to ending3, A to D: the texts that one is chosen from.

    >>> choice_columns(["id", "ending0", "ending1", "label", "sentence1", "sentence2"])
    [('ending0', 'ending1')]
    """
    series: dict[str, dict[str, str]] = {}
    for column in columns:
        if found := _MARKED.fullmatch(column.lower()):
            series.setdefault(found[1], {})[found[2]] = column
    return [
        tuple(marked.values())
        for stem, marked in series.items()
        if _count_up(list(marked))
        and len(marked) >= (2 if stem in _CHOICE_STEMS else 3)
        and (stem or "a" in marked)  # columns without names are numbered as well
    ]


def first_choice(label_values: Sequence[str], columns: Sequence[str], counts: Sequence[int]) -> int | None:
    """What the labels call the first of a row's choices, 0 or 1; None if they do not name choices.

    >>> first_choice(["1", "2"], (), [2, 2]), first_choice(["0", "1"], (), [2, 2]), first_choice(["yes"], (), [2])
    (1, 0, None)
    """
    for first in (0, 1) if "0" in label_values or not any(map(str.isdecimal, label_values)) else (1, 0):
        cells = zip(label_values, counts, strict=True)
        fitting = sum(as_index(label, columns, count, first) is not None for label, count in cells)
        if fitting and fitting >= _NEARLY_ALL * len(label_values):
            return first
    return None


def looks_headerless(table: Table) -> bool:
    """The first line is a row: a column is named by one of its few values, or by a sentence."""
    if table.data.columns:
        return False
    for column in table.columns:
        values = set(table.values(column))
        is_label = len(values) <= MAX_CLASSES or are_decimals(values)
        if column in values and is_label or len(column.split()) > 5:
            return True
    return False


def names_for(table: Table) -> tuple[str, ...]:
    """Names for the columns of a file without a header line, by what they seem to be."""
    found = texts(table)
    names = dict(zip(found, ("text1", "text2"), strict=True)) if len(found) == 2 else {}
    candidates = labels(table, found)
    # Names tell nothing here; of two texts a score says more than a class that stands beside it.
    scores = [name for name in candidates if len(found) == 2 and are_decimals(table.values(name))]
    label = next(iter([*scores, *candidates]), None)
    if len(found) > 2 and (index := _index_of_choices(table, found)):
        label = index
        names = {found[0]: "text"} | {name: f"choice{at}" for at, name in enumerate(found[1:], 1)}
    elif len(found) != 2 and (main := main_texts(table)):
        names = {main[0]: "text"}
    names |= {name: role for name, role in ((split_config(table).column, "split"), (label, "label")) if name is not None}
    return tuple(names.get(name, f"column{at}") for at, name in enumerate(table.columns, 1))


def _index_of_choices(table: Table, found: Sequence[str]) -> str | None:
    """The column that names one of the texts after the first, by values that name each of them."""
    count = len(found) - 1
    for name in labels(table, found):
        values = sorted(set(table.values(name)))
        if len(values) == count and first_choice(values, (), [count] * count) is not None:
            return name
    return None


def _is_text(values: list[str]) -> bool:
    return sum(" " in value.strip() or bool(CJK.search(value)) for value in values) > len(values) / 2


def _mean_length(values: list[str]) -> float:
    return sum(map(len, values)) / len(values)


def _label_rank(name: str) -> int:
    """Lower for what is named as labels are; next for what has such a word in its name, as star_rating."""
    lowered = name.lower()
    if lowered in LABEL_NAMES:
        return LABEL_NAMES.index(lowered)
    words = re.split(r"[^a-z]+", lowered)
    return min((len(LABEL_NAMES) + at for at, known in enumerate(LABEL_NAMES) if known in words), default=10**6)


def _count_up(marks: Sequence[str]) -> bool:
    """0 1 2, 1 2 3 or a b c."""
    if not all(map(str.isdecimal, marks)):
        return list(marks) == [chr(ord("a") + at) for at in range(len(marks))]
    numbers = list(map(int, marks))
    return numbers[0] in (0, 1) and numbers == list(range(numbers[0], numbers[0] + len(numbers)))
