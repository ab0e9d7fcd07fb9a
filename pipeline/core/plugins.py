"""What other packages add: tasks, readers and metrics, each by an entry point.

A package says in its `pyproject.toml` what it has, as

    [project.entry-points."bertline.tasks"]
    sentence-length = "my_package.length:TASK"

and nothing of it is imported until a config names it.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Collection
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bertline.pipeline.core.errors import BertlineError

TASKS, READERS, METRICS = "bertline.tasks", "bertline.readers", "bertline.metrics"


def registered(group: str) -> list[str]:
    """The names that installed packages have registered, in alphabetical order."""
    return sorted({point.name for point in _found(tuple(sys.path)) if point.group == group})


def load(group: str, name: str, kind: type, built_in: Collection[str] = ()) -> Any:
    """What is registered under a name; it is imported now.

    Args:
      kind: what it must be.
      built_in: names that Bertline has itself.

    Raises a BertlineError that names the package, where it cannot be imported, is something else, or its name is taken.
    """
    point = point_of(group, name, built_in)
    what = f"{_noun(group)} {name!r} of the package {owner(point)}"
    try:
        found = point.load()
    except Exception as error:  # whatever a foreign module does when it is imported
        reason = f"{type(error).__name__}: {error}"
        raise BertlineError(
            f"{what} cannot be loaded from {point.value} ({reason}); update the package, or uninstall it."
        ) from error
    if not isinstance(found, kind):
        raise BertlineError(
            f"{what}: {point.value} is no {kind.__name__} but a {type(found).__name__}; correct the package."
        )
    return found


def point_of(group: str, name: str, built_in: Collection[str] = ()) -> EntryPoint:
    """The one entry point of a name."""
    points = [point for point in _found(tuple(sys.path)) if (point.group, point.name) == (group, name)]
    owners = [*(["Bertline itself"] if name in built_in else []), *sorted(map(owner, points))]
    if len(owners) > 1:
        raise BertlineError(
            f"{_noun(group)} {name!r} is registered more than once, by {' and by '.join(owners)}; uninstall one, or have"
            " it renamed."
        )
    if not points:
        raise BertlineError(f"no installed package registers {_noun(group)} {name!r}.")
    return points[0]


def owner(point: EntryPoint) -> str:
    """The package of an entry point, with its version."""
    return f"{point.dist.name} {point.dist.version}" if point.dist else "of an unknown name"


def sources(point: EntryPoint) -> list[Path]:
    """Every source file of the package that an entry point is in, or the one module that it is."""
    top, is_module = point.module.partition(".")[0], "." not in point.module
    spec = find_spec(top)
    if spec is None:
        return []
    if spec.submodule_search_locations and (spec.origin or is_module):
        return sorted(path for folder in spec.submodule_search_locations for path in Path(folder).rglob("*.py"))
    found = spec if is_module else find_spec(point.module)  # below a name that several packages share
    return [Path(found.origin)] if found and found.origin else []


def digests(point: EntryPoint) -> dict[str, str]:
    """`PACKAGE VERSION: FILE` -> digest of what it holds, for cache keys."""
    files = sources(point)
    root = files[0].parent if files else None
    return {
        f"{owner(point)}: {path.relative_to(root) if root and path.is_relative_to(root) else path.name}": hashlib.sha256(
            path.read_bytes()
        ).hexdigest()[:12]
        for path in files
    } or {owner(point): ""}


def _noun(group: str) -> str:
    return {TASKS: "the task", READERS: "the reader", METRICS: "the metric"}[group]


@lru_cache(maxsize=4)
def _found(search_path: tuple[str, ...]) -> list[EntryPoint]:
    """Args: search_path: what was found there is remembered."""
    every = entry_points()
    return [point for group in (TASKS, READERS, METRICS) for point in every.select(group=group)]
