"""Rows of texts as the inputs of a request, and how many of them go into one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bertline.models.responses.base import ResponseSpec
from bertline.models.responses.translation import SAMPLED, TRANSLATED, Sampling, Translated
from bertline.serving.client.recognition import CHOICES
from bertline.serving.client.wire import as_array, encoded

Text = str | bytes
Texts = Text | Sequence[Text]
Row = Mapping[str, Text | Sequence[Text] | np.generic]
"""The texts of a row by their names in the model's signature; the choices are a list of texts. What is no text is a number
of numpy's, for a signature takes no other type than its own."""


def as_texts(texts: Texts) -> list[bytes]:
    """Of one text too: a string is a text, and not the row of its letters."""
    return [encoded(text) for text in ([texts] if isinstance(texts, str | bytes) else texts)]


def paired(texts: Texts, second: Texts | None) -> list[Row]:
    first = as_texts(texts)
    if second is None:
        return [{"text": text} for text in first]
    others = as_texts(second)
    if len(others) != len(first):
        raise ValueError(f"each text has its second one. Received: {len(first)} texts and {len(others)} second ones")
    return [{"text": text, "text_2": other} for text, other in zip(first, others, strict=True)]


def of_choices(text: Text, choices: Sequence[Text], second: Text | None) -> Row:
    if isinstance(choices, str | bytes) or not choices:
        raise ValueError(f"choices are one text or more, in a list. Received: {choices!r}")
    return {"text": text, **({} if second is None else {"text_2": second}), CHOICES: list(choices)}


def to_translate(texts: Texts, sample: Sampling | None) -> tuple[ResponseSpec[Translated], list[Row]]:
    """How texts are asked, and their rows: for the best translations, or for some that are drawn."""
    rows = paired(texts, None)
    return (TRANSLATED, rows) if sample is None else (SAMPLED, [{**row, **sample.numbers()} for row in rows])


def columns_of(rows: Sequence[Row]) -> dict[str, np.ndarray]:
    """The inputs of a request. A row that has fewer choices than another gets empty texts after its last."""
    keys = set(rows[0])
    if any(set(row) != keys for row in rows):
        raise ValueError(f"all examples need the same texts. Received: some with {sorted(keys)} and some with others")
    columns: dict[str, Any] = {key: [row[key] for row in rows] for key in rows[0]}
    if CHOICES in columns:
        columns[CHOICES] = list(zip(*itertools.zip_longest(*columns[CHOICES], fillvalue=b""), strict=True))
    return {
        key: np.asarray(column) if isinstance(column[0], np.generic) else as_array(column)
        for key, column in columns.items()
    }


def parts(sizes: Sequence[int], max_rows: int, max_bytes: int) -> list[slice]:
    """Rows that go into one request, one after the other; a row that is larger than the bound goes alone.

    >>> parts([1, 1, 1, 9, 1], max_rows=2, max_bytes=5)
    [slice(0, 2, None), slice(2, 3, None), slice(3, 4, None), slice(4, 5, None)]
    """
    found: list[slice] = []
    begin = held = 0
    for number, size in enumerate(sizes):
        if number > begin and (number - begin == max_rows or held + size > max_bytes):
            found.append(slice(begin, number))
            begin, held = number, 0
        held += size
    return [*found, slice(begin, len(sizes))]


def row_sizes(inputs: Mapping[str, np.ndarray]) -> list[int] | None:
    """Bytes of each row on the wire, and no fewer; None where the inputs have not all the same number of rows."""
    counts = {value.shape[:1] for value in inputs.values()}
    if len(counts) != 1 or counts == {()}:
        return None
    ((rows,),) = counts
    sizes = np.zeros(rows, np.int64)
    for value in inputs.values():
        flat = value.reshape(rows, math.prod(value.shape[1:]))
        if value.dtype.kind == "O":
            sizes += np.fromiter((sum(len(text) + 10 for text in row) for row in flat), np.int64, rows)
        else:
            sizes += flat.shape[1] * value.itemsize
    return sizes.tolist()


def joined(found: Sequence[np.ndarray]) -> np.ndarray:
    """The rows of several replies. As in a batch, a row is filled up with zeros or empty strings to the longest of all."""
    widest = [max(sizes) for sizes in zip(*(array.shape[1:] for array in found), strict=True)]
    filled = []
    for array in found:
        missing = [(0, 0), *((0, most - size) for most, size in zip(widest, array.shape[1:], strict=True))]
        empty = b"" if array.dtype.kind == "O" else array.dtype.type(0)
        filled.append(np.pad(array, missing, constant_values=empty) if any(map(any, missing)) else array)
    return np.concatenate(filled)
