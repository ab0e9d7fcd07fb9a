"""What the pipeline tells those who watch it: the terminal, the tracker, a test.

A step of the pipeline says what happens by `emit`; it knows none of its listeners, and a listener that fails is dropped,
never the step.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class StepStarted:
    name: str


@dataclass(frozen=True)
class StepFinished:
    name: str
    seconds: float
    cached: bool
    reasons: tuple[str, ...] = ()
    """Why the step ran and was not taken from the cache."""
    execution: int | None = None
    """Its number in ML Metadata."""
    artifacts: Mapping[str, int] = field(default_factory=dict)
    """The numbers of what it made, by name."""


@dataclass(frozen=True)
class Training:
    """A `StepRecord` or `EpochRecord` of the training loop."""

    record: Any


@dataclass(frozen=True)
class Progress:
    """How much of a step is done, where that can be counted."""

    done: int
    of: int


@dataclass(frozen=True)
class Note:
    """One sentence that a person should see."""

    text: str


Event = StepStarted | StepFinished | Training | Progress | Note
_listeners: list[Callable[[Event], None]] = []


@contextmanager
def listening(listener: Callable[[Event], None]) -> Iterator[None]:
    _listeners.append(listener)
    try:
        yield
    finally:
        if listener in _listeners:
            _listeners.remove(listener)


def emit(event: Event) -> None:
    for listener in list(_listeners):
        try:
            listener(event)
        except Exception:
            logging.exception("a listener failed and is left out from here on")
            _listeners.remove(listener)


@contextmanager
def step(name: str) -> Iterator[None]:
    """Tells of a step that runs here, and not by TFX."""
    emit(StepStarted(name))
    began = time.perf_counter()
    yield
    emit(StepFinished(name, time.perf_counter() - began, cached=False))


def progress(done: int, of: int) -> None:
    emit(Progress(done, of))
