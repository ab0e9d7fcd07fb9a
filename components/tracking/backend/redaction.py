"""Why a store does not take something, in words that may be shown: clear ones, and without its password or token."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any, TextIO

from bertline.pipeline.config import without_password

_SECRETS = ("MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN")
_WANTS_LOGIN = (401, 403)


def without_secrets(text: str) -> str:
    """A server may repeat in its answer what it was told."""
    for secret in filter(None, map(os.environ.get, _SECRETS)):
        text = text.replace(secret, "…")
    return without_password(text)


def reason(error: Exception, uri: str) -> str:
    """Why the store at `uri` failed, in a sentence without a full stop."""
    if status_of(error) in _WANTS_LOGIN:
        return (
            f"the MLflow store {without_password(uri)} denied access ({status_of(error)}): MLFLOW_TRACKING_TOKEN, or"
            " MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, must be set to the credentials that it accepts"
        )
    if cause := _connection_error(error):
        return f"the MLflow store {without_password(uri)} does not answer ({type(cause).__name__})"
    first_line = next(iter(str(error).splitlines()), "")
    return without_secrets(f"{type(error).__name__}: {first_line}")[:300]


def status_of(error: Exception) -> int | None:
    """The status of HTTP that a server has answered with."""
    from mlflow.exceptions import MlflowException
    from requests import HTTPError

    if isinstance(error, HTTPError):
        return error.response.status_code if error.response is not None else None
    return error.get_http_status_code() if isinstance(error, MlflowException) else None


def _connection_error(error: BaseException) -> BaseException | None:
    """MLflow wraps it in an error that quotes the whole address and every layer below."""
    from requests import ConnectionError, Timeout

    wrapped: BaseException | None = error
    while wrapped and not isinstance(wrapped, (ConnectionError, Timeout)):
        wrapped = wrapped.__cause__ or wrapped.__context__
    return wrapped


class Discreet:
    """A stream to which others may write as they like: MLflow's errors quote addresses with their passwords."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with suppress(OSError):  # a disk that is full must not end the sending
            self._stream.write(without_secrets(text))
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
