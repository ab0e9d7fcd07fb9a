"""What an answer of a served model is, and what tells the signature that gives it. It imports no TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np

Given = Mapping[str, Any]
"""The outputs of a signature for one row, under their names, as numpy's values."""


def plain(value: Any) -> Any:
    """Numpy's values as JSON has them."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, np.ndarray | list):
        return [plain(item) for item in value]
    return text_of(value) if isinstance(value, bytes) else value.item()


def text_of(value: bytes) -> str:
    return value.decode("utf-8", errors="replace")


def on_one_line(text: str) -> str:
    return " ".join(text.split())


@dataclass(frozen=True)
class Answer:
    """What every answer has."""

    version: int | None = field(default=None, kw_only=True)
    """The version of the model that answered; None where no server says it."""


A = TypeVar("A", bound=Answer)


@dataclass(frozen=True, kw_only=True)
class ResponseSpec(Generic[A]):
    """Answers of one form, and the signature that gives them."""

    call: str
    """The client's call for it."""
    signature: str | None = None
    """Of a model; None: its default one."""
    inputs: tuple[str, ...] = ("text", "text_2")
    """The texts that a row may have, in their order."""
    optional: tuple[str, ...] = ("text_2",)
    """Those that not every model of the kind reads."""
    numbers: Mapping[str, str] = field(default_factory=dict, hash=False)
    """What a row has beside its texts: numbers by their names, and the type of each."""
    outputs: tuple[str, ...]
    read: Callable[[Given], A]
    show: Callable[[A], str] = str
    """An answer for a person."""
    plain: Callable[[Given], dict[str, Any]] = plain
    """As JSON has it: the tensors under their names, where nothing is to be left out of them."""

    def readable(self, given: Given) -> str:
        return self.show(self.read(given))
