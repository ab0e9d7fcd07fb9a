"""A sample of requests with their answers, as TFRecords of PredictionLog: what TensorFlow Serving's own log holds, and what
its warm-up reads."""

from __future__ import annotations

import logging
import queue
import random
import threading
import time
from pathlib import Path

from google.protobuf.message import Message
from tensorflow_serving.apis import (
    classification_pb2,
    inference_pb2,
    predict_pb2,
    prediction_log_pb2,
    regression_pb2,
)

from bertline.serving.lean_tensorflow import TFRecordWriter, errors

_KINDS = {
    predict_pb2.PredictRequest: "predict_log",
    classification_pb2.ClassificationRequest: "classify_log",
    regression_pb2.RegressionRequest: "regress_log",
    inference_pb2.MultiInferenceRequest: "multi_inference_log",
}
_log = logging.getLogger(__name__)


class RequestLog:
    """Writes in a thread of its own: an answer never waits for the disk, and what the disk cannot take is dropped."""

    def __init__(self, folder: Path, rate: float, waiting: int = 1000, seed: int | None = None) -> None:
        """
        Args:
          rate: share of the requests that are kept.
          waiting: so many may wait for the disk.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"requests-{time.strftime('%Y%m%d-%H%M%S')}-{time.time_ns() % 1_000_000:06d}.tfrecord"
        self._rate, self._random = rate, random.Random(seed)
        self._waiting: queue.Queue[prediction_log_pb2.PredictionLog | None] = queue.Queue(waiting)
        self.dropped = 0
        self._thread = threading.Thread(target=self._write, name="request-log", daemon=True)
        self._thread.start()

    def keep(self, request: Message, response: Message) -> None:
        if self._random.random() >= self._rate:
            return
        kind = _KINDS[type(request)]
        entry = prediction_log_pb2.PredictionLog()
        entry.log_metadata.sampling_config.sampling_rate = self._rate
        entry.log_metadata.timestamp_secs = int(time.time())
        getattr(entry, kind).request.CopyFrom(request)
        getattr(entry, kind).response.CopyFrom(response)
        try:
            self._waiting.put_nowait(entry)
        except queue.Full:
            self.dropped += 1

    def close(self) -> None:
        self._waiting.put(None)
        self._thread.join()

    def _write(self) -> None:
        broken = False
        with TFRecordWriter(str(self.path)) as writer:
            while (entry := self._waiting.get()) is not None:
                try:
                    writer.write(entry.SerializeToString())
                    if self._waiting.empty():
                        writer.flush()
                except errors.OpError:
                    self.dropped += 1
                    if not broken:  # said once: the disk may stay full for long
                        broken = True
                        _log.exception("requests cannot be logged to %s", self.path)
