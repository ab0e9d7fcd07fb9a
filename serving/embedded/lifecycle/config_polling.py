"""The file of models, read again each so many seconds: TensorFlow Serving's --model_config_file_poll_wait_seconds.

What it says is applied as a reload over gRPC is, each time: the file has the last word, and is bound to the same root.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path

from tensorflow_serving.config import model_server_config_pb2

from bertline.pipeline.core.errors import BertlineError
from bertline.serving.embedded.errors import RequestError
from bertline.serving.launch.config_files import read_models

_log = logging.getLogger(__name__)


class ConfigPolling:
    """Reads the file until it is stopped. What cannot be read or applied is logged, and the models stay as they are."""

    def __init__(
        self, path: Path, seconds: float, reload: Callable[[model_server_config_pb2.ModelServerConfig], None]
    ) -> None:
        self._path, self._seconds, self._reload = path, seconds, reload
        self._told = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="model-config", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns when nothing is being reloaded any more."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _poll(self) -> None:
        while not self._stop.wait(self._seconds):
            wrong = ""
            try:
                self._reload(read_models(self._path))
            except BertlineError as error:
                wrong = str(error)
            except RequestError as error:
                wrong = f"{self._path}: {error.message}."
            except Exception:  # the next look may fare better, and requests go on
                _log.exception("%s could not be applied", self._path)
            if wrong and wrong != self._told:  # once, not each second
                _log.error("The models stay as they are: %s", wrong)
            self._told = wrong
