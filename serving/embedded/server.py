"""The embedded server: models, doors and signals put together."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tensorflow_serving.apis import model_pb2

from bertline.pipeline.core.errors import BertlineError
from bertline.serving.embedded import grpc_server
from bertline.serving.embedded.batching import Batcher, OneByOne, Runner
from bertline.serving.embedded.errors import Call, RequestError
from bertline.serving.embedded.lifecycle import warm_up
from bertline.serving.embedded.lifecycle.config_polling import ConfigPolling
from bertline.serving.embedded.lifecycle.known import Lease, State
from bertline.serving.embedded.lifecycle.manager import Manager
from bertline.serving.embedded.lifecycle.servable import Servable
from bertline.serving.embedded.monitoring import Monitoring
from bertline.serving.embedded.request_log import RequestLog
from bertline.serving.embedded.rest import server as rest
from bertline.serving.embedded.service import Service
from bertline.serving.embedded.try_page.routes import Routes
from bertline.serving.settings import ServerSettings


class Server:
    """A server that runs in threads of this process until it is stopped."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self.monitoring = Monitoring()
        self._runner: Runner = (
            Batcher(settings.batching, self.monitoring) if settings.batching else OneByOne(2 * (os.cpu_count() or 1))
        )
        self._log = RequestLog(settings.request_log, settings.request_log_rate) if settings.request_log else None
        self.manager = Manager(settings, self.monitoring, self._warm_up)
        self.service = Service(self.manager, self._runner, self.monitoring, settings.limits, self._log)
        self._polling: ConfigPolling | None = None
        if settings.model_config_file and settings.config_poll_seconds > 0:
            self._polling = ConfigPolling(settings.model_config_file, settings.config_poll_seconds, self.manager.reload)
        self._grpc = grpc_server.GrpcServer(self.service, settings)
        self._rest: rest.RestServer | None = None
        self._page: Routes | None = None
        if settings.rest_api_port is not None:
            # What the door refuses by itself never reaches the service, which counts the rest.
            refused = lambda model, code, api: self.monitoring.request(model, code, api, "REST", 0.0)  # noqa: E731
            self._page = Routes(self.manager, settings.page, settings.host) if settings.page else None
            self._rest = rest.RestServer(self.service, settings, self.monitoring.render, refused, self._page)

    @property
    def port(self) -> int:
        return self._grpc.port

    @property
    def rest_port(self) -> int | None:
        return self._rest.port if self._rest else None

    def start(self) -> None:
        """Returns when it listens and has tried to load every model.

        Raises:
          BertlineError: a port is taken, or the list of models is refused.
        """
        try:
            self._open()
        except RequestError as error:
            self.stop(0)
            raise BertlineError(f"the models cannot be served: {error.message}.") from None
        except BaseException:
            self.stop(0)
            raise
        self._grpc.set_healthy(self.manager.all_available())
        self.manager.watch(self._grpc.set_healthy)
        if self._polling:
            self._polling.start()

    def stop(self, grace_seconds: float | None = None) -> None:
        """Drains: no new requests are taken, those under way have `grace_seconds` to finish, then all is closed."""
        grace = self._settings.drain_seconds if grace_seconds is None else grace_seconds
        if self._polling:
            self._polling.stop()
        doors = [threading.Thread(target=self._grpc.stop, args=(grace,))]
        if self._rest:
            doors.append(threading.Thread(target=self._rest.stop, args=(grace,)))
        if self._page:
            self._page.stop()  # an explanation takes longer than others wait for
        for door in doors:
            door.start()
        for door in doors:
            door.join()
        self._runner.stop()
        self.manager.stop()
        if self._log:
            self._log.close()

    def _open(self) -> None:
        self._grpc.start()
        if self._rest:
            try:
                self._rest.start()
            except (ssl.SSLError, ValueError) as error:  # the former is an OSError
                raise BertlineError(f"--ssl_config_file: its keys cannot be used: {error}.") from error
            except OSError as error:
                address = f"{self._settings.host}:{self._settings.rest_api_port}"
                raise BertlineError(
                    f"{address} is taken, or not an address of this machine ({error.strerror}); give another"
                    " --rest_api_port."
                ) from error
        self.manager.start()

    def _warm_up(self, model: str, version: int, servable: Servable, folder: Path) -> None:
        """By the very code that answers requests, on a version that no request can reach yet."""
        service = Service(_Only(model, version, servable), self._runner, Monitoring(), self._settings.limits)  # type: ignore[arg-type]
        call = Call()
        warm_up.replay(
            folder,
            {
                "predict_log": lambda request: service.predict(request, call),
                "classify_log": lambda request: service.classify(request, call),
                "regress_log": lambda request: service.regress(request, call),
                "multi_inference_log": lambda request: service.multi_inference(request, call),
            },
        )


class _Only:
    """A manager of one version, whatever a request asks for."""

    def __init__(self, model: str, version: int, servable: Servable) -> None:
        self._lease = Lease(model, version, servable)

    def lease(self, spec: model_pb2.ModelSpec) -> Any:
        return contextlib.nullcontext(self._lease)


def serve(settings: ServerSettings, announce: Callable[[str], None]) -> None:
    """Serves until SIGTERM or SIGINT, then drains; a second signal ends it at once."""
    stop = threading.Event()

    def asked_to_stop(number: int, frame: Any) -> None:
        if stop.is_set():
            os._exit(130)
        stop.set()

    gc.freeze()  # what imports have made stays: no collection need go through it while a request waits
    before = {number: signal.signal(number, asked_to_stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        server = Server(settings)
        server.start()
        for line in _announcement(server, settings):
            announce(line)
        stop.wait()
        announce("stopping: requests under way are answered first")
        server.stop()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _announcement(server: Server, settings: ServerSettings) -> list[str]:
    lines = []
    for name in server.manager.names():
        for number, state, error in _statuses(server, name):
            lines.append(f"{name} version {number}: " + (error.message if error else state))
    secured = " with TLS" if settings.tls else ""
    lines.append(f"gRPC on {settings.host}:{server.port}{secured}")
    if server.rest_port is not None:
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        address = f"{'https' if settings.tls else 'http'}://{host}:{server.rest_port}"
        lines.append(f"REST on {address}/v1/models/NAME")
        if settings.page:
            lines.append(f"page to try the models on: {address}/")
    return lines


def _statuses(server: Server, name: str) -> list[tuple[int, str, RequestError | None]]:
    try:
        found = server.manager.statuses(model_pb2.ModelSpec(name=name))
    except RequestError:
        return []
    return [(number, State.Name(state).lower(), error) for number, state, error in found]
