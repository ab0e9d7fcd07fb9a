"""Beam without what it does again and again: it builds, pickles and reads back hundreds of transforms for 30 examples.

A small run spent a third of its Evaluator, and of each other step that goes through Beam, on the four things below. Each is
Beam's own private side, and nothing else of ours touches it. A version that has it no longer is simply not made leaner;
`tests/integration/pipeline/test_private_runner.py` holds that Beam 2.65 is, and says what an upgrade has changed.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from types import CodeType, MethodType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from apache_beam.internal.cloudpickle import cloudpickle
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import worker_handlers
from apache_beam.transforms import userstate


def install() -> None:
    """From now on, in this process. Once or several times."""
    _replace(userstate, "get_dofn_specs", _once_a_class)
    _replace(PipelineOptions, "view_as", _parsed_once)
    _replace(cloudpickle, "_find_imported_submodules", lambda find: wraps(find)(_imported_submodules))
    _replace(worker_handlers.EmbeddedWorkerHandler, "__init__", _without_state_cache)


def _replace(owner: Any, name: str, made: Callable[[Any], Any]) -> None:
    before = getattr(owner, name, None)
    if before is not None and not hasattr(before, "__wrapped__"):
        setattr(owner, name, made(before))


def _once_a_class(look: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Which states and timers a DoFn has is a matter of its class, unless an instance brings a method. A small pipeline
    asks 3,600 times, and each time the signatures of thirty methods are inspected."""
    seen: WeakKeyDictionary[type, Any] = WeakKeyDictionary()

    @wraps(look)
    def looked_at(dofn: Any) -> Any:
        if any(isinstance(value, MethodType) for value in vars(dofn).values()):
            return look(dofn)
        if type(dofn) not in seen:
            seen[type(dofn)] = look(dofn)
        return seen[type(dofn)]

    return looked_at


def _parsed_once(view_as: Callable[..., Any]) -> Callable[..., Any]:
    """The same flags are parsed hundreds of times for the same kind of options: what came of it is copied."""
    seen: dict[Any, Any] = {}

    @wraps(view_as)
    def viewed(self: PipelineOptions, kind: type[PipelineOptions]) -> Any:
        flags = vars(self).get("_flags")
        if flags is None:  # then they are those of the command line
            return view_as(self, kind)
        key = (kind, tuple(flags))
        if key not in seen:
            seen[key] = kind(list(flags))
        known = vars(seen[key])
        view = object.__new__(kind)
        parsed = copy.deepcopy(known["_visible_options"])
        # Values that are set already, perhaps to something else, stay: all views of options share them.
        values = vars(self)["_all_options"]
        for name in seen[key]._visible_option_list():
            values.setdefault(name, getattr(parsed, name))
        vars(view).update(known | {"_flags": flags, "_visible_options": parsed, "_all_options": values})
        return view

    return viewed


def _without_state_cache(init: Callable[..., None]) -> Callable[..., None]:
    """A worker in this process has all states in its own memory. It need not measure what a copy of them would take, for
    which it looks through the globals of every module that is loaded."""

    @wraps(init)
    def made(self: Any, *arguments: Any, **named: Any) -> None:
        megabytes, worker_handlers.STATE_CACHE_SIZE_MB = worker_handlers.STATE_CACHE_SIZE_MB, 0
        try:
            init(self, *arguments, **named)
        finally:
            worker_handlers.STATE_CACHE_SIZE_MB = megabytes

    return made


def _imported_submodules(code: CodeType, dependencies: Iterable[Any]) -> list[ModuleType]:
    """Modules that a function reaches by the packages that it names. Beam looks through all that are loaded, eight
    thousand, for each package; here only for those whose names the function has."""

    def below(package: str) -> Iterator[ModuleType]:
        for name in code.co_names:
            found = sys.modules.get(f"{package}.{name}")
            if found is not None:
                yield found
                yield from below(f"{package}.{name}")

    packages = (each for each in dependencies if isinstance(each, ModuleType) and getattr(each, "__package__", None))
    return [found for package in packages for found in below(package.__name__)]
