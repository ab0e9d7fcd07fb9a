"""Every evaluation example with the model's answer, as the Evaluator leaves it beside its verdict.

The file says itself what its columns mean and which metrics follow from them: whoever reads it needs neither the model, nor
TensorFlow, nor the task's module, which imports it. What follows from the rows is in `scores.py` and `outcomes.py`,
so that a change there is no reason to evaluate anew.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from bertline.models.decisions.decision import LIKELIEST, Decision
from bertline.models.tasks.base.task import Metric, Output, Raw, Task
from bertline.pipeline.core.arrow import open_parquet, pa, pq
from bertline.pipeline.core.errors import BertlineError

FILE_NAME = "rows.parquet"
ROWS_IN_GROUP = 10_000
"""Rows that are written, and can be read, at once."""
ID = "id"
SLICES = "slices"
"""The names of the slices that a row is in, as the verdict has them."""
_KEY = b"bertline"
_ID_DIGITS = 16
_NUMBERS = {"int64": "<i8", "float32": "<f4"}

Texts = dict[str, str | list[str]]
"""The texts of a row by their keys; of choices a list."""


@dataclass(frozen=True)
class Description:
    """What the columns of the file are."""

    task: str
    labels: tuple[str, ...]
    text_keys: tuple[str, ...]
    """The columns with texts; none where the model has read no raw texts."""
    outputs: Mapping[str, Output]
    metrics: Mapping[str, Metric]
    """Those that are measured with these labels."""
    decision: Decision = LIKELIEST
    """How the model decides by the probabilities that are kept."""

    @classmethod
    def of(cls, task: Task, labels: Sequence[str], text_keys: Sequence[str], decision: Decision = LIKELIEST) -> Description:
        measured = {name: metric for name, metric in task.evaluation.metrics.items() if metric.is_measured(len(labels))}
        texts = () if task.preprocessing.number_keys else tuple(text_keys)
        return cls(task.name, tuple(labels), texts, dict(task.evaluation.outputs), measured, decision)

    def to_json(self) -> str:
        metrics = {name: {**asdict(metric), "function": _name(metric)} for name, metric in self.metrics.items()}
        outputs = {name: output._asdict() for name, output in self.outputs.items()}
        plain = {"task": self.task, "labels": self.labels, "text_keys": self.text_keys}
        return json.dumps({**plain, "outputs": outputs, "metrics": metrics, "decision": asdict(self.decision)})

    @classmethod
    def from_json(cls, text: str | bytes) -> Description:
        plain = json.loads(text)
        metrics = {
            name: Metric(**{**fields, "function": getattr(math, fields["function"]) if fields["function"] else None})
            for name, fields in plain["metrics"].items()
        }
        outputs = {name: Output(**fields) for name, fields in plain["outputs"].items()}
        decision = Decision(**plain.get("decision", {}))
        return cls(plain["task"], tuple(plain["labels"]), tuple(plain["text_keys"]), outputs, metrics, decision)

    def on(self, schema: pa.Schema) -> pa.Schema:
        """The schema of a file that carries this description."""
        return schema.with_metadata({_KEY: self.to_json().encode()})


def _name(metric: Metric) -> str:
    if metric.function is None:
        return ""
    name = metric.function.__name__
    if getattr(math, name, None) is not metric.function:
        raise TypeError(f"a metric that follows from another does so by a function of `math`. Received: {name}")
    return name


def column_name(output: str, what: str) -> str:
    """
    >>> column_name("", "label"), column_name("follows", "label")
    ('label', 'follows.label')
    """
    return f"{output}.{what}" if output else what


def as_column(array: np.ndarray) -> pa.Array:
    """Of each row a value, or a list of several."""
    flat = array.reshape(-1)
    values = pa.array([as_text(value) for value in flat], pa.string()) if array.dtype == object else pa.array(flat)
    if array.ndim == 1:
        return values
    width = int(np.prod(array.shape[1:]))
    return pa.ListArray.from_arrays(pa.array(np.arange(len(array) + 1) * width, pa.int32()), values)


def as_text(value: bytes) -> str:
    return value.decode("utf-8", errors="replace")


def row_ids(values: Mapping[str, Sequence[Any]], raw: Mapping[str, Raw], count: int) -> list[str]:
    """Digests of what the rows are, whatever the order and the batches in which they come.

    Args:
      values: of each raw feature, the values of each row.
      raw: what each of these features is.
    """
    ids = []
    for row in range(count):
        digest = hashlib.sha256()
        for name in sorted(raw):
            found = values[name][row]
            digest.update(f"{name} {len(found)}:".encode())
            if raw[name].dtype in _NUMBERS:
                digest.update(np.asarray(found, _NUMBERS[raw[name].dtype]).tobytes())
                continue
            for value in found:
                digest.update(b"%d:" % len(value) + value)
        ids.append(digest.hexdigest()[:_ID_DIGITS])
    return ids


@dataclass(frozen=True)
class EvaluationPredictions:
    """The rows, sorted by their ids. Two runs over the same evaluation examples share the ids."""

    table: pa.Table
    description: Description

    @classmethod
    def read(cls, path: str | Path) -> EvaluationPredictions:
        """Args: path: of the file, or of the folder of the evaluation that it is in."""
        path = Path(path)
        path = path / FILE_NAME if path.is_dir() else path
        if not path.is_file():
            raise BertlineError(
                f"{path}: no such file; an older version kept no evaluation examples. Run the pipeline again to have them."
            )
        table = open_parquet(str(path), path).read()
        if _KEY not in (table.schema.metadata or {}):
            raise BertlineError(f"{path}: this Parquet file was not written by an Evaluator.")
        return cls(table, Description.from_json(table.schema.metadata[_KEY]))

    def write(self, path: str | Path) -> None:
        table = self.table.cast(self.description.on(self.table.schema))
        pq.write_table(table, path, row_group_size=ROWS_IN_GROUP, compression="zstd")

    def __len__(self) -> int:
        return self.table.num_rows

    @cached_property
    def ids(self) -> list[str]:
        return self.table[ID].to_pylist()

    @cached_property
    def texts(self) -> list[Texts]:
        """Each row's texts, cut to the length that is kept."""
        keys = self.description.text_keys
        return self.table.select(keys).to_pylist() if keys else [{} for _ in range(len(self))]

    @cached_property
    def slices(self) -> dict[str, list[int]]:
        """Slice -> the places of its rows; none where the file is of an older version."""
        found: dict[str, list[int]] = {}
        kept = self.table[SLICES].to_pylist() if SLICES in self.table.column_names else []
        for place, names in enumerate(kept):
            for name in names:
                found.setdefault(name, []).append(place)
        return found

    def label(self, output: str = "") -> Any:
        return self._values(output, "label")

    def prediction(self, output: str = "") -> Any:
        return self._values(output, "prediction")

    def weight(self, output: str = "") -> np.ndarray:
        return self._values(output, "weight")

    def _values(self, output: str, what: str) -> Any:
        """[rows], or [rows, values] where a row has several; a list of arrays where rows have not equally many."""
        column = self.table[column_name(output, what)].combine_chunks()
        if not pa.types.is_list(column.type):
            return column.to_numpy(zero_copy_only=False)
        flat, lengths = column.flatten().to_numpy(zero_copy_only=False), column.value_lengths().to_numpy()
        if len(lengths) and (lengths == lengths[0]).all():
            return flat.reshape(len(lengths), lengths[0])
        return np.split(flat, np.cumsum(lengths)[:-1]) if len(lengths) else []

    def first(self, count: int) -> EvaluationPredictions:
        """Some rows, in no order that means anything; without the arrays of Arrow that import pandas."""
        return EvaluationPredictions(self.table.slice(0, count), self.description)

    def deciding(self, decision: Decision) -> EvaluationPredictions:
        """The same probabilities, decided in another way."""
        return EvaluationPredictions(self.table, replace(self.description, decision=decision))

    def take(self, rows: Sequence[int] | np.ndarray) -> EvaluationPredictions:
        """Some rows, by their places."""
        return EvaluationPredictions(self.table.take(pa.array(rows, pa.int64())), self.description)


def shared(one: EvaluationPredictions, other: EvaluationPredictions) -> tuple[EvaluationPredictions, EvaluationPredictions]:
    """Both, restricted to the rows that both have, in one order."""
    if one.ids == other.ids:
        return one, other
    _, of_one, of_other = np.intersect1d(np.asarray(one.ids, str), np.asarray(other.ids, str), return_indices=True)
    return one.take(of_one), other.take(of_other)
