"""One version of a model, loaded: a TensorFlow session on its graph, as TensorFlow Serving has it.

A session, and not `tf.saved_model.load`: it restores variables by name and runs the graph's own ops with the very errors of
the real server, so a model that loads here loads there; and closing it frees what it held.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tensorflow.core.protobuf import config_pb2

from bertline.serving.embedded.errors import RequestError
from bertline.serving.lean_tensorflow import Graph, SavedModelLoader, Session, callable_of, errors

SERVE_TAG = "serve"
Feeds = tuple[str, ...]
Fetches = tuple[str, ...]


class Servable:
    """A graph that can be run by the names of its tensors."""

    def __init__(self, folder: Path, *, intra_op_threads: int = 0, inter_op_threads: int = 0) -> None:
        config = config_pb2.ConfigProto(
            intra_op_parallelism_threads=intra_op_threads, inter_op_parallelism_threads=inter_op_threads
        )
        self._session = Session(graph=Graph(), config=config)
        try:
            with self._session.graph.as_default():
                meta = SavedModelLoader(str(folder)).load(self._session, [SERVE_TAG])
        except BaseException:
            self._session.close()
            raise
        self.signatures = dict(meta.signature_def)
        self._callables: dict[tuple[Feeds, Fetches], Any] = {}
        self._making = threading.Lock()

    def run(self, feeds: Feeds, fetches: Fetches, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        try:
            return self._callable(feeds, fetches)(*arrays)
        except errors.OpError as error:
            raise as_request_error(error) from None

    def close(self) -> None:
        self._callables.clear()  # each holds the session
        self._session.close()

    def _callable(self, feeds: Feeds, fetches: Fetches) -> Any:
        made = self._callables.get((feeds, fetches))
        if made is None:
            with self._making:
                made = self._callables.get((feeds, fetches))
                if made is None:
                    made = self._callables[feeds, fetches] = callable_of(self._session, feeds, fetches)
        return made


def as_request_error(error: Any) -> RequestError:
    """TensorFlow's error under its own code, without the lines that name the graph's functions one by one."""
    code = {number: name for name, number in _CODES.items()}.get(error.error_code, "UNKNOWN")
    return RequestError(code, str(error.message).strip())  # type: ignore[arg-type]


_CODES = {
    name: number for name, number in vars(errors).items() if name.isupper() and isinstance(number, int) and name != "OK"
}
