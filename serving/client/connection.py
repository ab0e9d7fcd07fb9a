"""What both clients have: which model they ask, where, within which bounds, and what they do about failures."""

from __future__ import annotations

import abc
import random
from collections.abc import Sequence
from typing import Any

import grpc

from bertline.serving.client.requests import MEGABYTE, Asking, ClientTls, checked_address
from bertline.serving.client.retry import RETRIED, Deadline, ModelAddress, ServingError, explained, pause_before
from bertline.serving.client.wire import MESSAGES

ROUNDS = 3
"""So often all rows are asked anew where a new version has taken over amid them."""
_METHODS = {
    "Predict": "PredictionService",
    "GetModelMetadata": "PredictionService",
    "GetModelStatus": "ModelService",
}


class Connection(abc.ABC):
    """What both clients are made from."""

    def __init__(
        self,
        address: str,
        model: str,
        *,
        version: int | None = None,
        label: str | None = None,
        timeout: float = 10.0,
        retries: int = 5,
        wait_for_ready: bool = False,
        tls: ClientTls | None = None,
        max_batch: int = 64,
        at_once: int = 4,
        max_message_bytes: int = 32 * MEGABYTE,
    ) -> None:
        """Nothing is sent yet.

        Args:
          address: HOST:PORT of the server's gRPC.
          model: its name there.
          version, label: which one of it; otherwise the server's newest.
          timeout: seconds for a whole call, unless the call itself says otherwise.
          retries: how often a request is sent again that the server could not answer now.
          wait_for_ready: whether a server that is not there yet is waited for, until the deadline.
          tls: a secure connection, and what it is made with.
          max_batch: rows of one request. A server that batches refuses more than its own bound.
          at_once: so many requests of one call are under way together.
          max_message_bytes: of a request, and of a reply.
        """
        Deadline.after(timeout)  # refuses what is none
        self._asking = Asking(ModelAddress(checked_address(address), model, version, label), max_batch, max_message_bytes)
        self._timeout, self._retries, self._wait, self._tls = timeout, retries, wait_for_ready, tls
        self._at_once = max(1, at_once)
        self._open()

    @abc.abstractmethod
    def _open(self) -> None:
        """Makes the channel, or prepares for one that is made later."""

    def _deadline(self, timeout: float | None) -> Deadline:
        return Deadline.after(self._timeout if timeout is None else timeout)

    def _channel_options(self) -> list[tuple[str, int]]:
        limit = self._asking.max_message_bytes
        return [
            ("grpc.max_send_message_length", limit),
            ("grpc.max_receive_message_length", limit),
            # While gRPC itself waits to connect again, all requests fail: it must not wait longer than we do.
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 2000),
        ]

    def _new_channel(self, grpc: Any) -> Any:
        """Of the module `grpc`, or of `grpc.aio`."""
        where, options, credentials = self._asking.place.address, self._channel_options(), self._credentials()
        return grpc.secure_channel(where, credentials, options) if credentials else grpc.insecure_channel(where, options)

    def _credentials(self) -> grpc.ChannelCredentials | None:
        return grpc.ssl_channel_credentials(self._tls.ca, self._tls.key, self._tls.cert) if self._tls else None

    def _failed(self, error: grpc.RpcError, deadline: Deadline, versions: Sequence[int] = ()) -> ServingError:
        details = error.details() or ""
        return explained(error.code().name, details, self._asking.place, deadline.seconds, versions)

    def _pause(self, error: grpc.RpcError, attempt: int, deadline: Deadline) -> float | None:
        """Seconds until a request is sent again, for the `attempt`-th time; None: it has failed."""
        if error.code().name != RETRIED:
            return None
        return pause_before(attempt, self._retries, deadline.left, random.random())

    def _wants_version(self, error: grpc.RpcError) -> bool:
        return error.code() == grpc.StatusCode.NOT_FOUND and self._asking.place.version is not None


def stubs(channel: Any) -> dict[str, Any]:
    return {
        method: channel.unary_unary(
            f"/tensorflow.serving.{service}/{method}",
            request_serializer=MESSAGES[f"{method}Request"].SerializeToString,
            response_deserializer=MESSAGES[f"{method}Response"].FromString,
        )
        for method, service in _METHODS.items()
    }
