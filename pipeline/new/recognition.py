"""Which tasks recognise data of a kind: what each of them declares, in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from bertline.models.tasks.base.task import Recognition, get_task
from bertline.pipeline.config import task_names
from bertline.pipeline.new.guess import Guess
from bertline.pipeline.new.tables.table import Table


class TableTask(NamedTuple):
    """A table whose rows are examples of a task."""

    task: str
    guess: Callable[[Table], Guess | None]
    """None where the table does not hold such rows."""
    only_asked: bool
    """It fits rows of another kind as well, and is taken only where it is named."""


def kinds() -> list[TableTask]:
    """The first that fits is taken."""
    found = sorted((given.precedence, name, given) for name, given in _declared() if given.has("table"))
    return [TableTask(name, given.table, given.only_asked) for _, name, given in found if given.table]


def formats() -> Mapping[str, Callable[..., Guess]]:
    """Formats that only one task is learned from."""
    return {format: guess for _, given in _declared() for format, guess in given.formats.items()}


def _declared() -> Iterator[tuple[str, Recognition]]:
    for name in task_names():
        if given := get_task(name).config.recognition:
            yield name, given
