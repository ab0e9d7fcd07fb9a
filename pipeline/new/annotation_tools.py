"""Exports of annotation tools: which of their columns people have annotated, and what can be learned from it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import islice

from bertline.components.ingest.files import InputFile, readable
from bertline.components.ingest.readers.annotations import doccano, label_studio, prodigy
from bertline.components.ingest.readers.annotations import examples as annotated
from bertline.components.ingest.readers.records import OneOrMore, Row, list_of
from bertline.pipeline.config import DataConfig
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.new.guess import Guess, Setting, Source, one_line
from bertline.pipeline.new.recognition import kinds
from bertline.pipeline.new.tables import columns
from bertline.pipeline.new.tables.table import LOOKED_AT, Table, lists_in, sample

TOOLS: dict[str, annotated.Examples] = {
    "label-studio": label_studio.examples,
    "doccano": doccano.examples,
    "prodigy": prodigy.examples,
}
_LABELS = ("label", "labels", "cats", "accept", "entities", "spans")
"""What doccano and Prodigy call their labels; Label Studio has the user name them."""


def guess_annotated(source: Source, file: InputFile, data: DataConfig, task: str | None) -> Guess:
    """What was annotated most often is the label, and a column of texts the text."""
    found = _annotated(file, data)
    if not found:
        raise BertlineError(
            f"{file.path}: no example of the file is annotated, or all were rejected or skipped; export annotated ones."
        )
    for label, _ in found.most_common():
        table, decided = _table(source, file, data, label) or (None, "")
        wanted = [kind for kind in kinds() if (not kind.only_asked if task is None else kind.task == task)]
        guess = next((guess for kind in wanted if table and (guess := kind.guess(table))), None)
        if guess:
            others = [name for name in found if name != label]
            also = f"; also annotated: {', '.join(others)}" if others else ""
            settings = (*guess.data, *_empty(file, data, label))
            return replace(guess, why=f"{guess.why}{also}", seen=f"{guess.seen}{decided}", data=settings)
    shown = one_line(", ".join(found))
    fitting = f" as {task} learns it" if task else " beside a text"
    raise BertlineError(f"{file.path}: the annotations ({shown}) cannot be learned{fitting}. Write the config by hand.")


def _annotated(file: InputFile, data: DataConfig) -> Counter[str]:
    """Column -> how many examples were annotated in it."""
    found: Counter[str] = Counter()
    with readable(file.path):
        for example in islice(TOOLS[file.format](file.path, data), LOOKED_AT):
            if not isinstance(example, annotated.Example) or example.left_out:
                continue
            for name, value in example.fields.items():
                kind = annotated.kind_of(value)
                if kind in ("spans", "classes") or kind == "plain" and _may_be_label(file.format, name, value):
                    found[name] += 1
    return found


def _may_be_label(format: str, name: str, value: object) -> bool:
    """Of plain values only those with the name of a label: data of the user's stands beside them."""
    return name in _LABELS if format != "label-studio" else isinstance(value, int | float) or name in columns.LABEL_NAMES


def _table(source: Source, file: InputFile, data: DataConfig, label: str) -> tuple[Table, str] | None:
    """The rows with one label, and what had to be decided about them. Words and their tags are lists, as classes are where
    a row has several."""
    known = annotated.columns_of(TOOLS[file.format], file.path, data.model_copy(update={"label": label}))
    others = [name for name in known if name != label]
    plain, _ = sample(file, data.model_copy(update={"label": None}))
    values = {name: [row.values.get(name) for row in plain if not row.left_out] for name in others}
    text = next(iter(sorted(others, key=lambda name: -_letters(values[name]))), None)
    if text is None or not _letters(values[text]):
        return None
    named = data.model_copy(update={"text": text, "label": label})
    rows, bad = sample(file, named)
    kept = [row for row in rows if not row.left_out]
    single = all(_is_single(row, label) for row in kept)
    for row in kept if single else ():
        if value := row.values.get(label):
            row.values[label] = next(iter(list_of(value) or ()), None)
    names = (text, label) if any(isinstance(row.values.get(text), str) for row in kept) else (label,)
    table = Table(
        source=source,
        data=named,
        columns=names,
        rows=[row.values for row in kept],
        bad=len(bad),
        left_out=len(rows) - len(kept),
        lists=lists_in(names, [row.values for row in kept]),
    )
    remarks = Counter(remark.kind for row in kept for remark in row.remarks)
    return table, "".join(f"; {count:,} {kind.replace(';', ',')}" for kind, count in remarks.items())


def _letters(values: list[str | None]) -> int:
    return sum(map(len, filter(None, values)))


def _is_single(row: Row, label: str) -> bool:
    value = row.values.get(label)
    return value is None or isinstance(value, OneOrMore) and len(list_of(value) or []) <= 1


def _empty(file: InputFile, data: DataConfig, label: str) -> list[Setting]:
    """That examples without labels are left out has to be seen by whoever has looked at them."""
    if file.format != "doccano":
        return []
    labelled = data.model_copy(update={"label": label})
    empty = sum(
        isinstance(example, annotated.Example) and example.left_out == doccano.EMPTY
        for example in islice(doccano.examples(file.path, labelled), LOOKED_AT)
    )
    why = f"or keep, if somebody has looked at the {empty:,} examples without {label}"
    return [Setting("empty_annotations", "leave out", why)] if empty else []
