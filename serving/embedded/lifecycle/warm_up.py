"""A version's first requests: those that it brings along, asked before anybody waits for an answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError
from tensorflow_serving.apis import prediction_log_pb2

from bertline.serving.contract import WARM_UP
from bertline.serving.embedded.errors import RequestError
from bertline.serving.lean_tensorflow import RecordIterator, errors

MAX_RECORDS = 1000


def records(folder: Path) -> Iterator[prediction_log_pb2.PredictionLog]:
    """The logs in a version's `assets.extra`, as TensorFlow Serving reads them."""
    path = folder / WARM_UP
    if not path.is_file():
        return
    try:
        for number, record in enumerate(RecordIterator(str(path), "")):
            if number >= MAX_RECORDS:
                raise RequestError(
                    "INVALID_ARGUMENT", f"Number of warmup records exceeds the maximum ({MAX_RECORDS}) at {path.name}"
                )
            yield prediction_log_pb2.PredictionLog.FromString(record)
    except errors.DataLossError as error:
        raise RequestError("DATA_LOSS", f"{error.message}. Please verify your warmup data is in TFRecord format.") from None
    except DecodeError:
        raise RequestError("INVALID_ARGUMENT", f"Failed to parse warmup record from {path.name}") from None


def replay(folder: Path, asked: Mapping[str, Callable[[Any], Any]]) -> int:
    """Asks each; returns how many there were.

    Args:
      asked: what takes a request, by the kind of the log that holds it, as `predict_log`.
    """
    count = 0
    for count, record in enumerate(records(folder), 1):  # noqa: B007
        kind = record.WhichOneof("log_type")
        if kind not in asked:
            raise RequestError("UNIMPLEMENTED", f"Unsupported log_type for warmup: {kind}")
        asked[kind](getattr(record, kind).request)
    return count
