"""Whether a file of test examples can be measured by: those that a competition gives out often lack the labels."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

from bertline.components.ingest.readers.records import Row
from bertline.components.ingest.readers.registry import check_inputs, needed_columns, read
from bertline.pipeline.config import DataConfig
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.new.guess import Guess, Setting

_LOOKED_AT = 100


def with_test(guess: Guess, path: str | None) -> Guess:
    """The guess with the test file, if its examples have the columns and the labels that the others have."""
    if path is None or not _has_labels(guess, path):
        return guess
    at = max(number for number, setting in enumerate(guess.data, 1) if setting.key in ("path", "eval"))
    setting = Setting("test", path, "chooses nothing: only the model that is left is measured on it")
    return replace(guess, data=(*guess.data[:at], setting, *guess.data[at:]))


def _has_labels(guess: Guess, path: str) -> bool:
    settings = {setting.key: setting.value for setting in guess.data if setting.value is not None}
    data = DataConfig.model_validate({**settings, "path": path, "train": None, "eval": None, "split": {}})
    try:
        files = check_inputs(data)
    except BertlineError:
        return False
    rows = [row for row in islice(read(files[0], data, list(needed_columns(data))), _LOOKED_AT) if isinstance(row, Row)]
    return any(row.values.get(data.label or "") for row in rows)
