"""How a request fails: one exception with TensorFlow Serving's code and message, whichever door it came through."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Code = Literal[
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
]
"""The canonical codes, in the order of their numbers from 1 on."""


class RequestError(Exception):
    """What the caller is told."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.message = code, message


@dataclass(frozen=True)
class Call:
    """What a request came with."""

    entrypoint: Literal["GRPC", "REST"] = "GRPC"
    deadline: float = math.inf
    """In the seconds of `time.monotonic`."""
    is_cancelled: Callable[[], bool] = lambda: False

    @property
    def remaining(self) -> float:
        return self.deadline - time.monotonic()

    def check(self) -> None:
        """Stops work that nobody waits for any more."""
        if self.is_cancelled():
            raise RequestError("CANCELLED", "The caller has cancelled the request")
        if self.remaining <= 0:
            raise RequestError("DEADLINE_EXCEEDED", "Deadline exceeded")
