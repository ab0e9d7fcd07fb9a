"""The gRPC door: TensorFlow Serving's two services, and the standard health service."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from tensorflow_serving.apis import model_service_pb2_grpc, prediction_service_pb2_grpc

from bertline.pipeline.core.errors import BertlineError
from bertline.serving.embedded.errors import Call, RequestError
from bertline.serving.embedded.service import Service
from bertline.serving.settings import ServerSettings

_log = logging.getLogger(__name__)
SERVICES = ("tensorflow.serving.PredictionService", "tensorflow.serving.ModelService")
"""What the health service is asked about; the empty name is the server as a whole."""


class _Prediction(prediction_service_pb2_grpc.PredictionServiceServicer):
    def __init__(self, service: Service) -> None:
        self.Predict = _handler(service.predict)
        self.Classify = _handler(service.classify)
        self.Regress = _handler(service.regress)
        self.MultiInference = _handler(service.multi_inference)
        self.GetModelMetadata = _handler(service.get_model_metadata)


class _Models(model_service_pb2_grpc.ModelServiceServicer):
    def __init__(self, service: Service) -> None:
        self.GetModelStatus = _handler(service.get_model_status)
        self.HandleReloadConfigRequest = _handler(service.reload)


class GrpcServer:
    """gRPC on a port."""

    def __init__(self, service: Service, settings: ServerSettings) -> None:
        limits = settings.limits
        self._settings = settings
        self._server = grpc.server(
            ThreadPoolExecutor(limits.concurrent_requests, thread_name_prefix="grpc"),
            maximum_concurrent_rpcs=limits.concurrent_requests,
            options=[
                ("grpc.max_receive_message_length", limits.message_bytes),
                ("grpc.max_send_message_length", -1),
                ("grpc.so_reuseport", 0),  # a port that is taken is refused, and not shared
            ],
        )
        prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(_Prediction(service), self._server)
        model_service_pb2_grpc.add_ModelServiceServicer_to_server(_Models(service), self._server)
        self._health = health.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        self.set_healthy(False)
        self.port = settings.port

    def start(self) -> None:
        host = f"[{self._settings.host}]" if ":" in self._settings.host else self._settings.host
        address = f"{host}:{self._settings.port}"
        try:
            if self._settings.tls:
                tls = self._settings.tls
                credentials = grpc.ssl_server_credentials(
                    [(tls.server_key, tls.server_cert)], tls.custom_ca or None, tls.client_verify
                )
                self.port = self._server.add_secure_port(address, credentials)
            else:
                self.port = self._server.add_insecure_port(address)
        except RuntimeError as error:
            raise BertlineError(f"{address} is taken, or not an address of this machine; give another --port.") from error
        self._server.start()

    def set_healthy(self, is_healthy: bool) -> None:
        status = health_pb2.HealthCheckResponse.SERVING if is_healthy else health_pb2.HealthCheckResponse.NOT_SERVING
        for name in ("", *SERVICES):
            self._health.set(name, status)

    def stop(self, grace_seconds: float) -> None:
        """No new requests; those under way have `grace_seconds`."""
        self._health.enter_graceful_shutdown()
        self._server.stop(grace_seconds).wait()


def _handler(method: Callable[[Any, Call], Any]) -> Callable[[Any, grpc.ServicerContext], Any]:
    def handle(request: Any, context: grpc.ServicerContext) -> Any:
        remaining = context.time_remaining()
        deadline = {} if remaining is None else {"deadline": time.monotonic() + remaining}
        call = Call(entrypoint="GRPC", is_cancelled=lambda: not context.is_active(), **deadline)
        try:
            return method(request, call)
        except RequestError as error:
            context.abort(grpc.StatusCode[error.code], shortened(error.message))
        except Exception:  # a fault of ours: the caller gets no trace of it, the log does
            _log.exception("a request failed")
            context.abort(grpc.StatusCode.INTERNAL, "Internal error")

    return handle


MAX_MESSAGE = 4000
"""Bytes of an error as it travels: in headers of HTTP/2, which are small."""


def shortened(message: str) -> str:
    """As much of a message as fits; what is not plain ASCII takes three bytes for each byte there."""
    size = 0
    for position, character in enumerate(message):
        is_plain = " " <= character <= "~" and character != "%"
        size += 1 if is_plain else 3 * len(character.encode(errors="replace"))
        if size > MAX_MESSAGE:
            return message[:position]
    return message
