"""Modules that our dependencies import and hardly anybody uses: loaded when something is first asked of them.

TensorFlow wants Google's client libraries for one cluster resolver, Keras IPython and matplotlib for galleries of images,
Beam BigQuery, TensorFlow Model Analysis NLTK for one metric, and `tfx.components` imports every stock component: a fifth of
the seconds that a run of the pipeline takes to load. Whoever does use one of them gets it as ever, a little later.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import sys
import threading
import types
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

LAZY = frozenset(
    (
        "IPython",
        "google.cloud.bigquery",
        "google.cloud.pubsub",
        "googleapiclient",
        "googleapiclient.discovery",
        "googleapiclient.http",
        "matplotlib",
        "matplotlib.patches",
        "matplotlib.pyplot",
        "nltk",
        "nltk.stem",
        "nltk.stem.porter",
        "tqdm.notebook",
        "tensorflow_model_analysis.notebook.visualization",
        "tfx.components",
    )
)


class _Lazy(types.ModuleType):
    """Runs its code as soon as something is missed in it. Its submodules can be imported before that."""

    def __getattr__(self, name: str) -> Any:
        # What the import system and others look for in any module, whether it is there or not.
        if name.startswith("__") and name != "__all__":
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        if (submodule := f"{self.__name__}.{name}") in LAZY:
            return importlib.import_module(submodule)
        _run(self)
        return object.__getattribute__(self, name)


class _Later(importlib.abc.Loader):
    def __init__(self, loader: importlib.abc.Loader) -> None:
        self._loader, self._lock, self._has_run = loader, threading.RLock(), False

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        return _Lazy(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing yet."""

    def run(self, module: types.ModuleType) -> None:
        with self._lock:
            if not self._has_run:
                self._has_run = True  # its own code may ask for what it has not defined yet
                try:
                    self._loader.exec_module(module)
                except BaseException:
                    self._has_run = False  # the next who asks is told the cause as well
                    raise

    def __getattr__(self, name: str) -> Any:  # of resources and sources
        return getattr(self._loader, name)


def _run(module: types.ModuleType) -> None:
    """The packages around it first, as where all is imported at once: their modules import each other in that order."""
    around = sys.modules.get(module.__name__.rpartition(".")[0])
    if isinstance(around, _Lazy):
        _run(around)
    loader = object.__getattribute__(module, "__spec__").loader
    loader.run(module)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name in LAZY else None
        if spec is None or spec.loader is None:
            return None
        spec.loader = _Later(spec.loader)
        return spec


def install() -> None:
    """From now on, in this process."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
