"""A client of any TensorFlow Serving: `Client`, and `AsyncClient` with the same calls to await.

    with Client("localhost:8500", model="reviews") as client:
        print(client.classify(["A film to remember."])[0].label)

Each call has a deadline for all that it does, and the server is told of it. What fails because the server cannot answer now
is tried again until then. Many rows are asked in several requests at once and are one answer again, of one version.
It imports no TensorFlow.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any

import grpc

from bertline.models.responses.base import A, ResponseSpec
from bertline.models.responses.translation import ALIGNED, Aligned, Sampling, Translated
from bertline.models.responses.types import (
    CHOSEN,
    CLASSIFIED,
    EMBEDDED,
    FILLED,
    MULTI_CLASSIFIED,
    NUMBER,
    SIMILAR,
    SPAN_ANSWER,
    TAGGED,
    Chosen,
    Classified,
    Embedded,
    Filled,
    MultiClassified,
    Number,
    Similar,
    SpanAnswer,
    Tagged,
)
from bertline.serving.client.aio import AsyncClient
from bertline.serving.client.connection import ROUNDS, Connection, stubs
from bertline.serving.client.requests import (
    Answers,
    ClientTls,
    Metadata,
    RowPrediction,
    VersionStatus,
    available,
    metadata_of,
    statuses,
)
from bertline.serving.client.retry import Deadline, ServingError
from bertline.serving.client.rows import Row, Text, Texts, columns_of, of_choices, paired, to_translate
from bertline.serving.contract import DEFAULT_SIGNATURE

__all__ = [
    "Answers",
    "AsyncClient",
    "Client",
    "ClientTls",
    "Metadata",
    "RowPrediction",
    "Sampling",
    "ServingError",
    "VersionStatus",
]


class _Running:
    """The requests of one call that are under way in several threads, to be given up together."""

    def __init__(self) -> None:
        self.given_up = threading.Event()
        self._calls: set[Any] = set()
        self._lock = threading.Lock()

    def result(self, start: Callable[[], Any]) -> Any:
        with self._lock:
            if self.given_up.is_set():
                raise ServingError("CANCELLED", "the call was given up.")
            call = start()
            self._calls.add(call)
        try:
            return call.result()
        except grpc.FutureCancelledError:
            raise ServingError("CANCELLED", "the call was given up.") from None
        finally:
            call.cancel()  # of no effect on one that is over; an interruption leaves none behind
            with self._lock:
                self._calls.discard(call)

    def give_up(self) -> None:
        with self._lock:
            self.given_up.set()
            calls = list(self._calls)
        for call in calls:
            call.cancel()


class Client(Connection):
    """Asks one model of a server. It may be shared by threads."""

    def _open(self) -> None:
        self._channel = self._new_channel(grpc)
        self._stubs = stubs(self._channel)

    def close(self) -> None:
        self._channel.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def predict(
        self,
        inputs: Mapping[str, Any],
        *,
        signature: str = DEFAULT_SIGNATURE,
        output_filter: Sequence[str] = (),
        timeout: float | None = None,
    ) -> Answers:
        """Any signature of any model.

        Args:
          inputs: name -> an array, or lists of numbers, str or bytes. Where all have the same number of rows, they are
            asked in parts of `max_batch`.
          output_filter: the outputs that are wanted; all of them by default.
        """
        deadline, asked = self._deadline(timeout), self._asking.predict(inputs, signature, output_filter)
        for _ in range(ROUNDS):
            found = self._asking.answers(asked, self._each("Predict", asked.requests, deadline))
            if found is not None:
                return found
        raise self._asking.changing_versions()

    def ask(
        self, rows: Sequence[Row], *, signature: str = DEFAULT_SIGNATURE, timeout: float | None = None
    ) -> list[RowPrediction]:
        """Rows of texts by their names, answered one by one."""
        if not rows:
            return []
        answers = self.predict(columns_of(rows), signature=signature, timeout=timeout)
        return self._asking.rows(answers, len(rows))

    def status(self, *, timeout: float | None = None) -> list[VersionStatus]:
        """The versions of the model, and the state of each."""
        return statuses(self._call("GetModelStatus", self._asking.status(), self._deadline(timeout)))

    def metadata(self, *, timeout: float | None = None) -> Metadata:
        """What the model takes and gives."""
        return metadata_of(self._call("GetModelMetadata", self._asking.metadata(), self._deadline(timeout)))

    def classify(self, texts: Texts, second: Texts | None = None, *, timeout: float | None = None) -> list[Classified]:
        """The class of each text, or of each pair of texts, by a model of the task classification."""
        return self._read(CLASSIFIED, paired(texts, second), timeout)

    def classes(self, texts: Texts, second: Texts | None = None, *, timeout: float | None = None) -> list[MultiClassified]:
        """All classes of each text or pair, by a model of the task multilabel."""
        return self._read(MULTI_CLASSIFIED, paired(texts, second), timeout)

    def regress(self, texts: Texts, second: Texts | None = None, *, timeout: float | None = None) -> list[Number]:
        """The number of each text or pair, by a model of the task regression."""
        return self._read(NUMBER, paired(texts, second), timeout)

    def similarity(self, texts: Texts, second: Texts, *, timeout: float | None = None) -> list[Similar]:
        """How alike each text is to its second one, by a model of the task similarity or matching."""
        return self._read(SIMILAR, paired(texts, second), timeout)

    def choose(
        self, text: Text, choices: Sequence[Text], second: Text | None = None, *, timeout: float | None = None
    ) -> Chosen:
        """Which of the choices goes on after the text, by a model of the task choice."""
        return self._read(CHOSEN, [of_choices(text, choices, second)], timeout)[0]

    def tag(self, texts: Texts, *, timeout: float | None = None) -> list[Tagged]:
        """The entities of each text, by a model of the task tagging."""
        return self._read(TAGGED, paired(texts, None), timeout)

    def answer(self, question: Text, context: Text, *, timeout: float | None = None) -> SpanAnswer:
        """What a text says to a question, by a model of the task answering."""
        return self._read(SPAN_ANSWER, [{"question": question, "context": context}], timeout)[0]

    def fill_mask(self, texts: Texts, *, timeout: float | None = None) -> list[Filled]:
        """What may stand for each [MASK] of each text, by a model of the task pretraining."""
        return self._read(FILLED, paired(texts, None), timeout)

    def embed(self, texts: Texts, *, timeout: float | None = None) -> list[Embedded]:
        """The vector of each text, by a model of the task similarity or matching."""
        return self._read(EMBEDDED, paired(texts, None), timeout)

    def translate(self, texts: Texts, *, sample: Sampling | None = None, timeout: float | None = None) -> list[Translated]:
        """The translation of each text, by a model of the task translation.

        Args:
          sample: how to draw one by chance, in place of the best.
        """
        return self._read(*to_translate(texts, sample), timeout)

    def align(self, texts: Texts, *, timeout: float | None = None) -> list[Aligned]:
        """The translation of each text, and what each of its tokens looked at, by a model of the task translation."""
        return self._read(ALIGNED, paired(texts, None), timeout)

    def _read(self, kind: ResponseSpec[A], rows: Sequence[Row], timeout: float | None) -> list[A]:
        signature = kind.signature or DEFAULT_SIGNATURE
        return self._asking.read(self.ask(rows, signature=signature, timeout=timeout), kind)

    def _each(self, method: str, requests: Sequence[Any], deadline: Deadline) -> list[Any]:
        """The replies, in the order of the requests; the first that fails stops the others."""
        if len(requests) == 1:
            return [self._call(method, requests[0], deadline)]
        running = _Running()
        with ThreadPoolExecutor(min(self._at_once, len(requests)), "bertline-client") as pool:
            replies = [pool.submit(self._call, method, request, deadline, running) for request in requests]
            try:
                wait(replies, return_when=FIRST_EXCEPTION)
                failed = [reply.exception() for reply in replies if reply.done()]
                for error in failed:
                    if error is not None:
                        raise error
                return [reply.result() for reply in replies]
            except BaseException:
                running.give_up()
                raise
            finally:
                pool.shutdown(cancel_futures=True)

    def _call(self, method: str, request: Any, deadline: Deadline, running: _Running | None = None) -> Any:
        running, stub = running or _Running(), self._stubs[method].future
        for attempt in itertools.count(1):
            try:
                return running.result(lambda: stub(request, timeout=deadline.left, wait_for_ready=self._wait))
            except grpc.RpcError as error:
                pause = self._pause(error, attempt, deadline)
                if pause is None:
                    raise self._failed(error, deadline, self._versions(error, deadline)) from None
                running.given_up.wait(pause)

    def _versions(self, error: grpc.RpcError, deadline: Deadline) -> list[int]:
        """Those that there are, where one was asked for that there is not."""
        if not self._wants_version(error):
            return []
        try:
            found = self._stubs["GetModelStatus"](self._asking.status(any_version=True), timeout=deadline.left)
        except grpc.RpcError:
            return []
        return available(statuses(found))
