"""How the Evaluator keeps the evaluation examples: a branch of TFMA's own pipeline, so that no row is read or asked twice.

Batches are written to part files as they come, and put into one file, sorted by id, after the last: what is held in memory
does not grow with the number of rows.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
from tensorflow_model_analysis import constants
from tensorflow_model_analysis.evaluators.evaluator import Evaluator
from tensorflow_model_analysis.extractors.predictions_extractor import PREDICTIONS_EXTRACTOR_STAGE_NAME

from bertline.components.evaluator.predictions.parts import write_sorted
from bertline.components.evaluator.predictions.rows import (
    FILE_NAME,
    ID,
    SLICES,
    Description,
    as_column,
    as_text,
    column_name,
    row_ids,
)
from bertline.components.evaluator.verdict import slice_name
from bertline.models.decisions.decision import LIKELIEST, Decision
from bertline.models.tasks.base.task import Raw, Task, raw_features
from bertline.pipeline.config import CHOICES
from bertline.pipeline.core.arrow import pa

MAX_CHARACTERS = 2000
"""What is kept of a text: enough to see a mistake."""
_PARTS = "rows-parts"


def row_evaluator(
    task: Task,
    labels: Sequence[str],
    text_keys: Sequence[str],
    slice_columns: Sequence[str],
    output: str,
    model_name: str | None,
    decision: Decision = LIKELIEST,
) -> Evaluator:
    """An evaluator beside TFMA's, that writes the rows of one model into the folder `output`.

    Args:
      slice_columns: features whose values the rows are sliced by.
      model_name: which of the models' answers are kept; None where there is but one model.
      decision: how that model decides.
    """
    description = Description.of(task, labels, text_keys, decision)
    # Each run has a folder of its own: one that broke off leaves its parts behind.
    parts = os.path.join(output, f"{_PARTS}-{uuid.uuid4().hex[:8]}")
    write = _WriteParts(parts, description, raw_features(task, text_keys), slice_columns, model_name)

    @beam.ptransform_fn
    def keep(extracts: beam.PCollection) -> dict[str, beam.PCollection]:
        return {
            "rows": extracts
            | "WriteParts" >> beam.ParDo(write)
            # Only what a bundle that succeeded has written: one that is tried again leaves a part that nobody names.
            | "GatherParts" >> beam.combiners.ToList()
            | "SortParts" >> beam.Map(_finish, parts, os.path.join(output, FILE_NAME), description)
        }

    # Before TFMA takes the batches apart.
    return Evaluator("KeepRows", PREDICTIONS_EXTRACTOR_STAGE_NAME, keep())


class _WriteParts(beam.DoFn):
    """One file a bundle, named once it is complete."""

    def __init__(
        self,
        folder: str,
        description: Description,
        raw: Mapping[str, Raw],
        slice_columns: Sequence[str],
        model_name: str | None,
    ) -> None:
        self._folder, self._description, self._raw = folder, description, raw
        self._slice_columns, self._model_name = tuple(slice_columns), model_name
        self._writer: Any = None
        self._path = ""

    def start_bundle(self) -> None:
        self._writer, self._path = None, ""

    def process(self, extracts: Mapping[str, Any]) -> Iterable[str]:
        batch = record_batch(extracts, self._description, self._raw, self._model_name, self._slice_columns)
        if self._writer is None:
            os.makedirs(self._folder, exist_ok=True)
            self._path = os.path.join(self._folder, f"{uuid.uuid4().hex}.arrow")
            self._writer = pa.ipc.new_file(self._path, batch.schema)
        self._writer.write_batch(batch)
        return ()

    def finish_bundle(self) -> Iterator[Any]:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
            yield beam.utils.windowed_value.WindowedValue(self._path, 0, [beam.transforms.window.GlobalWindow()])


def _finish(parts: list[str], folder: str, path: str, description: Description) -> int:
    rows = write_sorted(parts, path, description)
    shutil.rmtree(folder, ignore_errors=True)
    return rows


def record_batch(
    extracts: Mapping[str, Any],
    description: Description,
    raw: Mapping[str, Raw],
    model_name: str | None = None,
    slice_columns: Sequence[str] = (),
) -> pa.RecordBatch:
    """The rows of one batch of TFMA's extracts."""
    predictions, targets = extracts[constants.PREDICTIONS_KEY], extracts[constants.TRANSFORMED_FEATURES_KEY]
    if model_name is not None:
        predictions, targets = predictions[model_name], targets[model_name]
    features = extracts[constants.FEATURES_KEY]
    count = len(next(iter(targets.values())))
    values = {name: _lists(features.get(name), count) for name in raw}
    columns: dict[str, pa.Array] = {ID: pa.array(row_ids(values, raw, count), pa.string())}
    for key in description.text_keys:
        texts = [[as_text(value)[:MAX_CHARACTERS] for value in row] for row in values[key]]
        if key == CHOICES:
            columns[key] = pa.array(texts, pa.list_(pa.large_string()))
        else:
            columns[key] = pa.array(["".join(row[:1]) for row in texts], pa.large_string())
    for name, output in description.outputs.items():
        # TFMA unwraps what is the only output of a signature.
        prediction = predictions[output.prediction] if isinstance(predictions, dict) else predictions
        for what, array in (
            ("label", targets[output.label]),
            ("prediction", prediction),
            ("weight", targets[output.weight]),
        ):
            columns[column_name(name, what)] = as_column(np.asarray(array))
    sliced = {name: _lists(features.get(name), count) for name in slice_columns}
    names = [[slice_name(name, value) for name, values in sliced.items() for value in values[row]] for row in range(count)]
    columns[SLICES] = pa.array(names, pa.list_(pa.string()))
    return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))


def _lists(feature: Any, count: int) -> Any:
    """The values of each row. TFMA has a matrix where all rows have equally many, and nothing where none has any."""
    if feature is None:
        return [()] * count
    if isinstance(feature, np.ndarray):
        return feature.reshape(count, -1)
    lengths = np.bincount(feature.indices[:, 0], minlength=count)
    return np.split(feature.values, np.cumsum(lengths)[:-1])
