"""What a package needs that adds a task, a reader or a metric to Bertline.

Each is a value, and the package's `pyproject.toml` registers it:

    [project.entry-points."bertline.tasks"]
    quantity = "my_package.quantity:TASK"          # a Task of this name
    [project.entry-points."bertline.readers"]
    arrows = "my_package.quantity:ARROWS"          # a Reader, for data.format: arrows
    [project.entry-points."bertline.metrics"]
    mean_error = "my_package.quantity:MEAN_ERROR"  # an ExtraMetric, of every task with another metric of its family

Names are imported when they are asked for: a package with a reader alone loads no more than readers do.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bertline.components.evaluator.predictions.outcomes import Outcome
    from bertline.components.ingest.readers.records import BadRow, Row, bad_row
    from bertline.components.ingest.readers.registry import Reader
    from bertline.models.metrics.extra import ExtraMetric
    from bertline.models.responses.base import Answer, Given, ResponseSpec
    from bertline.models.tasks.base.task import (
        Configuration,
        Context,
        Evaluation,
        Fallback,
        Inspection,
        Metric,
        Model,
        Objective,
        Output,
        Preprocessing,
        Recognition,
        Serving,
        Signature,
        Task,
        Tensors,
    )
    from bertline.pipeline.config import DataConfig
    from bertline.pipeline.core.errors import BertlineError

_TASK, _RECORDS = "models.tasks.base.task", "components.ingest.readers.records"
_MODULES = {
    "Answer": "models.responses.base",
    "BadRow": _RECORDS,
    "BertlineError": "pipeline.core.errors",
    "Configuration": _TASK,
    "Context": _TASK,
    "DataConfig": "pipeline.config",
    "Evaluation": _TASK,
    "ExtraMetric": "models.metrics.extra",
    "Fallback": _TASK,
    "Given": "models.responses.base",
    "Inspection": _TASK,
    "ResponseSpec": "models.responses.base",
    "Metric": _TASK,
    "Model": _TASK,
    "Objective": _TASK,
    "Outcome": "components.evaluator.predictions.outcomes",
    "Output": _TASK,
    "Preprocessing": _TASK,
    "Reader": "components.ingest.readers.registry",
    "Recognition": _TASK,
    "Row": _RECORDS,
    "Serving": _TASK,
    "Signature": _TASK,
    "Task": _TASK,
    "Tensors": _TASK,
    "bad_row": _RECORDS,
}

__all__ = [
    "Answer", "BadRow", "BertlineError", "Configuration", "Context", "DataConfig", "Evaluation", "ExtraMetric", "Fallback",
    "Given", "Inspection", "ResponseSpec", "Metric", "Model", "Objective", "Outcome", "Output", "Preprocessing", "Reader",
    "Recognition", "Row", "Serving", "Signature", "Task", "Tensors", "bad_row",
]  # fmt: skip

if not TYPE_CHECKING:  # or else no misspelt name would be found

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"bertline.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
