"""Whether a server that was started answers for all of its models."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Callable, Iterator

import grpc

from bertline.pipeline.core.errors import BertlineError
from bertline.serving.client.wire import MESSAGES
from bertline.serving.settings import ServerSettings

_AVAILABLE, _END = 30, 50  # states of a version, in get_model_status.proto
_STATUS_METHOD = "/tensorflow.serving.ModelService/GetModelStatus"
_SECONDS = 5.0
_OPTIONS = [("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1)]


@contextlib.contextmanager
def asking(settings: ServerSettings) -> Iterator[Callable[[], bool]]:
    """A function that tells whether every model is AVAILABLE by now."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)
    if settings.tls is not None:
        # Whom the certificate is for, and whether a client must show one, is not ours to know; and the server opens its
        # port when all models are available (server.cc). So the first half of a handshake is as good an answer.
        yield lambda: _shakes_hands(host, settings.port)
        return
    target = f"[{host}]:{settings.port}" if ":" in host else f"{host}:{settings.port}"
    yield lambda: all(_available(target, model.name) for model in settings.models.model_config_list.config)


def _available(target: str, name: str) -> bool:
    request = MESSAGES["GetModelStatusRequest"]()
    request.model_spec.name = name
    try:
        # A channel for each question: one that has failed to connect waits up to 20 s before it tries again.
        with grpc.insecure_channel(target, options=_OPTIONS) as channel:
            ask = channel.unary_unary(
                _STATUS_METHOD,
                request_serializer=lambda request: request.SerializeToString(),
                response_deserializer=MESSAGES["GetModelStatusResponse"].FromString,
            )
            versions = ask(request, timeout=_SECONDS).model_version_status
    except grpc.RpcError:
        return False
    failed = [version for version in versions if version.state == _END and version.status.error_code]
    if failed and len(failed) == len(versions):
        told = "; ".join(f"version {version.version}: {version.status.error_message}" for version in failed)
        raise BertlineError(f"the model {name} cannot be loaded: {told}.")
    return any(version.state == _AVAILABLE for version in versions)


def _shakes_hands(host: str, port: int) -> bool:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # nothing is sent, and nothing believed
    context.set_alpn_protocols(["h2"])
    try:
        with socket.create_connection((host, port), timeout=_SECONDS) as plain, context.wrap_socket(plain):
            return True
    except OSError:
        return False
