"""`AsyncClient`: the calls of `bertline.serving.client.sync.Client`, to be awaited."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import grpc
import grpc.aio

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
from bertline.serving.client.connection import ROUNDS, Connection, stubs
from bertline.serving.client.requests import (
    Answers,
    Metadata,
    RowPrediction,
    VersionStatus,
    available,
    metadata_of,
    statuses,
)
from bertline.serving.client.retry import Deadline
from bertline.serving.client.rows import Row, Text, Texts, columns_of, of_choices, paired, to_translate
from bertline.serving.contract import DEFAULT_SIGNATURE


class AsyncClient(Connection):
    """The calls of `Client`, to be awaited. It belongs to the event loop that it is first used in."""

    def _open(self) -> None:
        self._channel: Any = None

    def _stub(self, method: str) -> Any:
        if self._channel is None:  # not earlier: gRPC would take another loop than the one that runs
            self._channel = self._new_channel(grpc.aio)
            self._stubs = stubs(self._channel)
        return self._stubs[method]

    async def close(self) -> None:
        if self._channel is not None:
            await self._channel.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.close()

    async def predict(
        self,
        inputs: Mapping[str, Any],
        *,
        signature: str = DEFAULT_SIGNATURE,
        output_filter: Sequence[str] = (),
        timeout: float | None = None,
    ) -> Answers:
        deadline, asked = self._deadline(timeout), self._asking.predict(inputs, signature, output_filter)
        for _ in range(ROUNDS):
            found = self._asking.answers(asked, await self._each("Predict", asked.requests, deadline))
            if found is not None:
                return found
        raise self._asking.changing_versions()

    async def ask(
        self, rows: Sequence[Row], *, signature: str = DEFAULT_SIGNATURE, timeout: float | None = None
    ) -> list[RowPrediction]:
        if not rows:
            return []
        answers = await self.predict(columns_of(rows), signature=signature, timeout=timeout)
        return self._asking.rows(answers, len(rows))

    async def status(self, *, timeout: float | None = None) -> list[VersionStatus]:
        return statuses(await self._call("GetModelStatus", self._asking.status(), self._deadline(timeout)))

    async def metadata(self, *, timeout: float | None = None) -> Metadata:
        return metadata_of(await self._call("GetModelMetadata", self._asking.metadata(), self._deadline(timeout)))

    async def classify(
        self, texts: Texts, second: Texts | None = None, *, timeout: float | None = None
    ) -> list[Classified]:
        return await self._read(CLASSIFIED, paired(texts, second), timeout)

    async def classes(
        self, texts: Texts, second: Texts | None = None, *, timeout: float | None = None
    ) -> list[MultiClassified]:
        return await self._read(MULTI_CLASSIFIED, paired(texts, second), timeout)

    async def regress(self, texts: Texts, second: Texts | None = None, *, timeout: float | None = None) -> list[Number]:
        return await self._read(NUMBER, paired(texts, second), timeout)

    async def similarity(self, texts: Texts, second: Texts, *, timeout: float | None = None) -> list[Similar]:
        return await self._read(SIMILAR, paired(texts, second), timeout)

    async def choose(
        self, text: Text, choices: Sequence[Text], second: Text | None = None, *, timeout: float | None = None
    ) -> Chosen:
        return (await self._read(CHOSEN, [of_choices(text, choices, second)], timeout))[0]

    async def tag(self, texts: Texts, *, timeout: float | None = None) -> list[Tagged]:
        return await self._read(TAGGED, paired(texts, None), timeout)

    async def answer(self, question: Text, context: Text, *, timeout: float | None = None) -> SpanAnswer:
        return (await self._read(SPAN_ANSWER, [{"question": question, "context": context}], timeout))[0]

    async def fill_mask(self, texts: Texts, *, timeout: float | None = None) -> list[Filled]:
        return await self._read(FILLED, paired(texts, None), timeout)

    async def embed(self, texts: Texts, *, timeout: float | None = None) -> list[Embedded]:
        return await self._read(EMBEDDED, paired(texts, None), timeout)

    async def translate(
        self, texts: Texts, *, sample: Sampling | None = None, timeout: float | None = None
    ) -> list[Translated]:
        return await self._read(*to_translate(texts, sample), timeout)

    async def align(self, texts: Texts, *, timeout: float | None = None) -> list[Aligned]:
        return await self._read(ALIGNED, paired(texts, None), timeout)

    async def _read(self, kind: ResponseSpec[A], rows: Sequence[Row], timeout: float | None) -> list[A]:
        signature = kind.signature or DEFAULT_SIGNATURE
        return self._asking.read(await self.ask(rows, signature=signature, timeout=timeout), kind)

    async def _each(self, method: str, requests: Sequence[Any], deadline: Deadline) -> list[Any]:
        gate = asyncio.Semaphore(self._at_once)

        async def one(request: Any) -> Any:
            async with gate:
                return await self._call(method, request, deadline)

        tasks = [asyncio.ensure_future(one(request)) for request in requests]
        try:
            return await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

    async def _call(self, method: str, request: Any, deadline: Deadline) -> Any:
        for attempt in itertools.count(1):
            try:
                return await self._stub(method)(request, timeout=deadline.left, wait_for_ready=self._wait)
            except grpc.RpcError as error:
                pause = self._pause(error, attempt, deadline)
                if pause is None:
                    raise self._failed(error, deadline, await self._versions(error, deadline)) from None
                await asyncio.sleep(pause)

    async def _versions(self, error: grpc.RpcError, deadline: Deadline) -> list[int]:
        if not self._wants_version(error):
            return []
        try:
            found = await self._stub("GetModelStatus")(self._asking.status(any_version=True), timeout=deadline.left)
        except grpc.RpcError:
            return []
        return available(statuses(found))
