"""Names of modules that are imported when they are used, so that a task can be declared without TensorFlow."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any, TypeVar


def later(*modules: str, counts: bool = True) -> Any:
    """Stand for modules, as `import` would bind them: one, or as many as there are names.

    Whatever is taken of them is a `Deferred`, which a `Part` resolves when its field is read.

    Args:
      counts: whether the code of the modules counts for the cache keys of steps that import this one
        (`pipeline/orchestration/source_code.py` reads it here). What one step alone does by it, as its baselines, does
        not; it is in the step's key by `Part.modules`.
    """
    found = tuple(map(_Module, modules))
    return found if len(found) > 1 else found[0]


@dataclass(frozen=True)
class Deferred:
    """A name of a module that is not imported yet."""

    module: str
    name: str

    def resolve(self) -> Any:
        return getattr(importlib.import_module(self.module), self.name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.resolve()(*args, **kwargs)


class Part:
    """A dataclass whose fields may be given as `Deferred`; who reads a field gets what is meant by it."""

    def __getattribute__(self, name: str) -> Any:
        value = object.__getattribute__(self, name)
        return value.resolve() if isinstance(value, Deferred) else value

    def has(self, name: str) -> bool:
        """Whether a field is given, without importing what it names."""
        return vars(self)[name] is not None

    def modules(self) -> list[str]:
        """Those that its fields are in which are named for later."""
        values = vars(self).values()
        own = {value.module for value in values if isinstance(value, Deferred)}
        return sorted(own.union(*(value.modules() for value in values if isinstance(value, Part))))


P = TypeVar("P", bound=Part)


def changed(part: P, **fields: Any) -> P:
    """A part with some other fields, as `dataclasses.replace` makes it, without importing what the others name."""
    return type(part)(**{**vars(part), **fields})


class _Module:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Deferred:
        if name.startswith("__"):
            raise AttributeError(name)
        return Deferred(self._name, name)
