"""The one exception a user is meant to read."""

from __future__ import annotations

from typing import Any, TypeVar


class BertlineError(Exception):
    """Something the user can mend: the message says what was wrong, where, and what to do.

    The command line prints it as one sentence without a stack trace; everything else that escapes is a fault of
    ours and keeps its trace in the log file.
    """


class TrainingDivergedError(BertlineError):
    """The loss is no longer finite. Of several trainings it is the end of this one, and not of the others."""


class AnomaliesError(BertlineError):
    """The data is not what it should be, and nothing is learned from it.

    Args:
      judgement: what was found, in plain values, as the data gate writes it down for data that passes.
    """

    def __init__(self, message: str, judgement: dict[str, Any]) -> None:
        super().__init__(message)
        self.judgement = judgement


Kind = TypeVar("Kind", bound=BertlineError)


def cause_of(error: BaseException, kind: type[Kind]) -> Kind | None:
    """The first exception of a kind behind another one: what a step raises comes out of TFX wrapped."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, kind):
        cause = cause.__cause__ or cause.__context__
    return cause
