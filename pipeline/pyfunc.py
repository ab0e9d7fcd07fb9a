"""A registered model as MLflow loads it: `mlflow.pyfunc.load_model("models:/NAME@champion")` answers raw text.

The registry holds a pointer to the pushed folder, and this module is what its `MLmodel` names as the loader. The answers
are those of `bertline predict --json`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bertline.pipeline.core.storage import at
from bertline.serving.contract import WITHDRAWN


class TextModel:
    """Answers a table of texts, its columns named as the model's inputs, by a table of answers."""

    def __init__(self, folder: str) -> None:
        from bertline.pipeline.inference.predictor import find

        found = find(folder, "")
        self._keys, self._loaded = list(found.text_keys), found.load()

    def predict(self, model_input: Any, params: Mapping[str, Any] | None = None) -> Any:
        import pandas as pd

        from bertline.pipeline.config import CHOICES
        from bertline.pipeline.inference.predictor import BATCH

        table = model_input if isinstance(model_input, pd.DataFrame) else pd.DataFrame(model_input)
        if set(table.columns) != set(self._keys) and len(table.columns) == len(self._keys):
            table.columns = self._keys  # texts without names, in their order
        texts = [key for key in self._keys if key != CHOICES]
        rows = [{key: _encoded(row[key]) for key in self._keys} for row in table.explode(texts).to_dict("records")]
        batches = [rows[begin : begin + BATCH] for begin in range(0, len(rows), BATCH)]
        answers = [self._loaded.plain(answer) for batch in batches for answer in self._loaded.ask(batch)]
        return pd.DataFrame(answers)


def _encoded(value: Any) -> Any:
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else [_encoded(item) for item in value]


def _load_pyfunc(path: str, model_config: Mapping[str, Any] | None = None) -> TextModel:
    """MLflow calls this with the path of the pointer."""
    folder = at(json.loads(Path(path).read_text())["path"])
    withdrawn = folder.with_name(f"{WITHDRAWN}{folder.name}")
    if not folder.is_dir() and withdrawn.is_dir():
        folder = withdrawn
    if not folder.is_dir():
        raise FileNotFoundError(
            f"{folder}, where the registry says that this model is, is not on this machine; load it where it was pushed,"
            " or run the pipeline again."
        )
    return TextModel(str(folder))
