"""Bertline: raw text in, an evaluated, tracked and served BERT out.

This is the public Python API; what is not named here may change without notice. Importing it takes milliseconds: TensorFlow
and TFX are loaded by the first call that needs them.

Example:
  >>> import bertline
  >>> bertline.run("tickets.yaml").pushed_path
  >>> bertline.load("tickets").predict("My metadata was charged twice.")[0].label
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bertline.api import Predictor, compare, explain, load, run
    from bertline.pipeline.console.summary import Summary
    from bertline.pipeline.core.errors import BertlineError
    from bertline.serving.client.aio import AsyncClient
    from bertline.serving.client.retry import ServingError
    from bertline.serving.client.sync import Client

    __version__: str

__all__ = [
    "AsyncClient",
    "BertlineError",
    "Client",
    "Predictor",
    "ServingError",
    "Summary",
    "__version__",
    "compare",
    "explain",
    "load",
    "run",
]

_MODULES = {
    "AsyncClient": "serving.client.aio",
    "BertlineError": "pipeline.core.errors",
    "Client": "serving.client.sync",
    "Predictor": "api",
    "ServingError": "serving.client.retry",
    "Summary": "pipeline.console.summary",
    "compare": "api",
    "explain": "api",
    "load": "api",
    "run": "api",
}

_ARTIFACT_TYPES = ("IngestReport", "Vocabulary")
"""A compiled pipeline names them NAMESPACE.TYPE, of two parts, and Kubeflow's steps import them by that."""

if not TYPE_CHECKING:  # or else no misspelt name would be found

    def __getattr__(name: str) -> object:
        if name == "__version__":
            from importlib.metadata import (
                version,
            )  # when it is asked for: to read it takes longer than to import this package

            found = version("bertline")
        elif name in _ARTIFACT_TYPES:
            found = getattr(importlib.import_module("bertline.components.artifacts"), name)
        elif name in _MODULES:
            found = getattr(importlib.import_module(f"bertline.{_MODULES[name]}"), name)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
