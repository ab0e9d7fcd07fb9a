"""How asking a server fails: what is tried again and when, and how the rest is told."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass

from bertline.pipeline.core.errors import BertlineError

RETRIED = "UNAVAILABLE"
"""The one code that says that nothing was done, and that the same request may do later."""
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 2.0

_NOT_CONNECTED = ("failed to connect", "dns resolution", "connection refused", "name resolution", "no route to host")
_TLS = ("handshake", "ssl", "certificate", "tls")


class ServingError(BertlineError):
    """A server did not answer, or refused: `code` is gRPC's, as NOT_FOUND; the message says where and what to do."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


@dataclass(frozen=True)
class Deadline:
    """When a whole call must be over, with all its parts and repetitions."""

    seconds: float
    at: float
    """In the seconds of `time.monotonic`."""

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        if not seconds > 0:
            raise ValueError(f"timeout must be more than 0 seconds. Received: {seconds!r}")
        return cls(seconds, time.monotonic() + seconds)

    @property
    def left(self) -> float:
        """Never less than nothing: gRPC then fails the call by itself, in its own words."""
        return max(0.0, self.at - time.monotonic())


def pause_before(attempt: int, retries: int, left: float, chance: float) -> float | None:
    """Seconds to wait before trying again for the `attempt`-th time; None: not at all.

    The pause doubles each time. Half of it is left to chance, so that callers that failed together do not come back
    together.

    >>> [pause_before(attempt, 3, left=10.0, chance=1.0) for attempt in (1, 2, 3, 4)]
    [0.05, 0.1, 0.2, None]
    >>> pause_before(3, 3, left=0.15, chance=1.0)  # there would be no time left to ask
    """
    pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (attempt - 1)) * (1 + chance) / 2
    return pause if attempt <= retries and pause < left else None


@dataclass(frozen=True)
class ModelAddress:
    """Which model is asked, and where."""

    address: str
    model: str
    version: int | None = None
    label: str | None = None

    def __str__(self) -> str:
        which = f" version {self.version}" if self.version is not None else f" label {self.label}" if self.label else ""
        return f"{self.address}, model {self.model}{which}"


def explained(code: str, details: str, place: ModelAddress, seconds: float, versions: Sequence[int] = ()) -> ServingError:
    """What went wrong as a sentence that says what to do.

    Args:
      code, details: gRPC's.
      seconds: what the call was given.
      versions: those that the model has, if a version was asked for that it has not.
    """
    details = " ".join(details.split()).rstrip(".")
    told, remedy = _told(code, details, place, seconds, versions)
    said = f" ({code}: {details})" if details else f" ({code})"
    return ServingError(code, f"{place}: {told}{said}; {remedy}.")


def _told(code: str, details: str, place: ModelAddress, seconds: float, versions: Sequence[int]) -> tuple[str, str]:
    said = details.lower()
    largest = re.search(r"larger than maximum input batch size (\d+)", said)
    if code == "UNAVAILABLE":
        if any(word in said for word in _TLS):
            return "no secure connection", "check the certificates, and whether the server uses TLS at all"
        if "http1" in said:
            return "not a gRPC port", "REST has another port; give the one for gRPC"
        if any(word in said for word in _NOT_CONNECTED):
            return "no server responds", "start the server, or check host and gRPC port"
        if "queue" in said:
            return "the server is overloaded", "try again later, or send fewer requests at once"
        return "the server is unavailable", "try again later, and see its log"
    if code == "DEADLINE_EXCEEDED":
        return f"no response within {seconds:g} s", "allow more time, or check whether the server is overloaded"
    if code == "NOT_FOUND":
        if versions:
            listed = ", ".join(map(str, versions))
            return "no such version", f"it has {listed}"
        return "the server has no such model", f"check the name {place.model!r} against the server's models.config"
    if code == "UNIMPLEMENTED":
        return "not a TensorFlow Serving server", "check host and port"
    if code == "INVALID_ARGUMENT" and "version label" in said:
        return f"no version label {place.label}", "the server's models.config gives a version its label"
    if largest:
        return f"the server accepts batches of {largest[1]}", f"set max_batch to {largest[1]} or less"
    if code == "RESOURCE_EXHAUSTED" and "larger than max" in said:
        return "a message is too large", "send fewer examples at once (max_batch), or raise max_message_bytes"
    if code in ("UNAUTHENTICATED", "PERMISSION_DENIED"):
        return "the server denied access", "give the certificate and key that it accepts"
    return "the server refused", "`Client.metadata` says what the model takes"
