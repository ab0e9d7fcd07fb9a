"""Models and their versions: loaded, swapped and unloaded while requests go on.

One thread looks at the disk each second. A version is loaded beside the one that answers, warmed up, and only then takes
its place; the old one goes when the last request that uses it is answered (`unloading.py`). What cannot be loaded changes
nothing else.

Over 300 lines in one module: whatever changes the models does so under one lock, and is to be read together.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tensorflow_serving.apis import model_pb2
from tensorflow_serving.config import model_server_config_pb2

from bertline.serving.embedded.errors import RequestError
from bertline.serving.embedded.lifecycle.known import Lease, Model, State, Version
from bertline.serving.embedded.lifecycle.servable import Servable, as_request_error
from bertline.serving.embedded.lifecycle.unloading import Unloading
from bertline.serving.embedded.lifecycle.versions import on_disk, wanted
from bertline.serving.embedded.monitoring import Monitoring
from bertline.serving.launch.config_files import is_model_name
from bertline.serving.lean_tensorflow import errors
from bertline.serving.settings import ServerSettings

_GLANCE_SECONDS = 0.1
_log = logging.getLogger(__name__)


class Manager:
    """All models of a server."""

    def __init__(
        self,
        settings: ServerSettings,
        monitoring: Monitoring,
        warm_up: Callable[[str, int, Servable, Path], None] = lambda model, version, servable, folder: None,
    ) -> None:
        """
        Args:
          warm_up: (model, version, servable, folder) -> asks a version the first time, before it takes requests.
        """
        self._settings, self._monitoring, self._warm_up = settings, monitoring, warm_up
        self._watchers: list[Callable[[bool], None]] = []
        self._models: dict[str, Model] = {}
        self._former: dict[str, Model] = {}  # no longer served; their states are told on, as TensorFlow Serving does
        self._changed = threading.Condition()
        self._unloading = Unloading(self._changed)
        self._working = threading.RLock()  # one at a time loads and reloads
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="versions", daemon=True)
        check_models(settings.models)

    def start(self) -> None:
        """Loads what there is, and goes on looking."""
        self._unloading.start()
        self._configure(self._settings.models)
        if self._settings.poll_seconds > 0:
            self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        with self._working:
            for model in self._models.values():
                self._unload_all(model)
        self._unloading.stop()

    def reload(self, config: model_server_config_pb2.ModelServerConfig) -> None:
        """Serves other models, or these by other policies and labels; nothing changes where it is refused."""
        check_models(config)
        with self._working:
            for model in config.model_config_list.config:
                self._check_path(model)
            self._configure(config)

    @contextlib.contextmanager
    def lease(self, spec: model_pb2.ModelSpec) -> Iterator[Lease]:
        with self._changed:
            version = self._find(spec)
            version.leases += 1
        try:
            assert version.servable is not None
            yield Lease(spec.name, version.number, version.servable, version.folder)
        finally:
            with self._changed:
                version.leases -= 1
                if not version.leases and version.state == State.UNLOADING:
                    self._changed.notify_all()

    def statuses(self, spec: model_pb2.ModelSpec) -> list[tuple[int, int, RequestError | None]]:
        """(version, state, why it failed) of the one that is asked for, or of all."""
        with self._changed:
            model = self._models.get(spec.name) or self._former.get(spec.name)
            known = sorted(model.versions.values(), key=lambda version: -version.number) if model else []
            if spec.HasField("version"):
                known = [version for version in known if version.number == spec.version.value]
                if not known:
                    number = spec.version.value
                    raise RequestError("NOT_FOUND", f"Could not find version {number} of model {spec.name}")
            if not known:
                raise RequestError("NOT_FOUND", f"Could not find any versions of model {spec.name}")
            return [(version.number, version.state, version.error) for version in known]

    def all_available(self) -> bool:
        """Whether every model has a version that answers."""
        with self._changed:
            return bool(self._models) and all(model.available() for model in self._models.values())

    def watch(self, watcher: Callable[[bool], None]) -> None:
        """Is told with each change whether every model answers."""
        self._watchers.append(watcher)

    def names(self) -> list[str]:
        with self._changed:
            return list(self._models)

    def _find(self, spec: model_pb2.ModelSpec) -> Version:
        if not spec.name:
            raise RequestError("INVALID_ARGUMENT", "ModelSpec has no name specified.")
        model = self._models.get(spec.name)
        choice = spec.WhichOneof("version_choice")
        if choice == "version_label":
            if model is None or spec.version_label not in model.labels:
                raise RequestError("INVALID_ARGUMENT", f"Unrecognized servable version label: {spec.version_label}")
            number: int | None = model.labels[spec.version_label]
        else:
            number = spec.version.value if choice == "version" else None
        request = f"Latest({spec.name})" if number is None else f"Specific({spec.name}, {number})"
        candidates = [version for version in model.available() if number in (None, version.number)] if model else []
        if not candidates:
            raise RequestError("NOT_FOUND", f"Servable not found for request: {request}")
        return max(candidates, key=lambda version: version.number)

    def _configure(self, config: model_server_config_pb2.ModelServerConfig) -> None:
        with self._working:
            configs = {model.name: model for model in config.model_config_list.config}
            # On copies, so that labels which are refused leave the models as they were.
            before = {name: model.config for name, model in self._models.items()}
            with self._changed:
                for name, model_config in configs.items():
                    known = self._former.get(name) or Model(model_config)
                    self._models.setdefault(name, known).config = model_config
            for name in configs:
                self._refresh(self._models[name])
            try:
                labels = {name: self._labels(self._models[name]) for name in configs}
            except RequestError:
                self._restore(before)
                raise
            with self._changed:
                for name, of_model in labels.items():
                    self._models[name].labels = of_model
                    self._former.pop(name, None)
                gone = {name: self._models.pop(name) for name in list(self._models) if name not in configs}
                self._former |= gone
            for model in gone.values():
                self._unload_all(model)
            self._tell()

    def _restore(self, before: Mapping[str, model_server_config_pb2.ModelConfig]) -> None:
        with self._changed:
            added = [self._models.pop(name) for name in list(self._models) if name not in before]
            for name, config in before.items():
                self._models[name].config = config
        for model in added:
            self._unload_all(model)
        self._tell()

    def _labels(self, model: Model) -> dict[str, int]:
        available = {version.number for version in model.available()}
        for number in model.config.version_labels.values():
            if number not in available:
                raise RequestError(
                    "FAILED_PRECONDITION",
                    f"Request to assign label to version {number} of model {model.config.name}, which is not currently"
                    " available for inference",
                )
        return dict(model.config.version_labels)

    def _check_path(self, config: model_server_config_pb2.ModelConfig) -> None:
        known = self._models.get(config.name)
        if known and known.config.base_path == config.base_path:
            return
        root = self._settings.root
        if root is None:
            raise RequestError(
                "PERMISSION_DENIED",
                f"Model {config.name}: a reload may not name new paths, for the server was started without --root",
            )
        if not is_under(Path(config.base_path), root):
            raise RequestError(
                "PERMISSION_DENIED", f"Model {config.name}: its base_path is not under the root of this server"
            )

    def _poll(self) -> None:
        """Each `poll_seconds`, and soon where a folder of versions has changed: its time is all that is asked for."""
        period, looked, before = self._settings.poll_seconds, time.monotonic(), self._times()
        while not self._stop.wait(min(_GLANCE_SECONDS, period)):
            times = self._times()
            if times == before and time.monotonic() - looked < period:
                continue
            before, looked = times, time.monotonic()
            with self._working:
                for model in list(self._models.values()):
                    try:
                        self._refresh(model)
                    except Exception:  # the next look may fare better, and requests go on
                        _log.exception("could not look for versions of %s", model.config.name)

    def _times(self) -> dict[str, int]:
        """When something was last put into the folder of each model, or taken away from it."""
        times = {}
        for model in list(self._models.values()):
            with contextlib.suppress(OSError):
                times[model.config.base_path] = Path(model.config.base_path).stat().st_mtime_ns
        return times

    def _refresh(self, model: Model) -> None:
        """Loads what is wanted and not there, then lets go of what is no longer wanted."""
        found = on_disk(Path(model.config.base_path))
        numbers = wanted(found, model.config.model_version_policy)
        for number in numbers:
            with self._changed:
                version = model.versions.get(number)
                if version is None or version.is_past:
                    version = model.versions[number] = Version(number, found[number])
            version.folder = found[number]
            if self._is_due(version):
                self._load(model, version)
        # The one that answers stays until another one does; also where its folder was taken away.
        if any(model.versions[number].is_available for number in numbers):
            for version in list(model.versions.values()):
                if version.number not in numbers and not version.is_past:
                    self._unload(model, version)

    def _is_due(self, version: Version) -> bool:
        if version.is_available:
            return False
        if not version.attempts:
            return True
        if self._look(version) != version.tried_on:  # it was being copied, perhaps
            version.attempts = 1
            return True
        later = time.monotonic() - version.tried >= self._settings.load_retry_seconds
        return version.attempts <= self._settings.load_retries and later

    def _leads_out(self, version: Version) -> bool:
        root = self._settings.root
        return root is not None and not is_under(version.folder, root)

    def _look(self, version: Version) -> object:
        """What a folder is now; one that leads out of the root is not even looked into."""
        return None if self._leads_out(version) else fingerprint(version.folder)

    def _load(self, model: Model, version: Version) -> None:
        name, began = model.config.name, time.monotonic()
        version.attempts, version.tried, version.tried_on = version.attempts + 1, began, self._look(version)
        self._set(version, State.LOADING)
        servable = None
        try:
            if self._leads_out(version):
                raise RequestError("PERMISSION_DENIED", f"{version.folder.name} leads out of the root of this server")
            settings = self._settings
            servable = Servable(
                version.folder, intra_op_threads=settings.intra_op_threads, inter_op_threads=settings.inter_op_threads
            )
            if settings.warm_up:
                self._warm_up(name, version.number, servable, version.folder)
        except Exception as error:
            if servable:
                servable.close()
            failure = _as_failure(error)
            _log.warning("version %d of %s was not loaded: %s", version.number, name, failure.message)
            self._monitoring.loaded(name, version.number, time.monotonic() - began, ok=False)
            self._set(version, State.END, failure)
            return
        version.servable = servable
        self._monitoring.loaded(name, version.number, time.monotonic() - began, ok=True)
        self._set(version, State.AVAILABLE)
        _log.info("version %d of %s answers", version.number, name)

    def _unload(self, model: Model, version: Version) -> None:
        """Lets no new requests to the version. What was served stays known, at last as END; what failed is forgotten."""
        with self._changed:
            if version.is_available:
                self._unloading.add(model.config.name, version)
            elif version.error:
                model.versions.pop(version.number, None)

    def _unload_all(self, model: Model) -> None:
        for version in list(model.versions.values()):
            self._unload(model, version)

    def _set(self, version: Version, state: int, error: RequestError | None = None) -> None:
        with self._changed:
            version.state, version.error = state, error
        self._tell()

    def _tell(self) -> None:
        for watcher in self._watchers:
            watcher(self.all_available())


def check_models(config: model_server_config_pb2.ModelServerConfig) -> None:
    """Refuses a list of models as TensorFlow Serving does."""
    names: set[str] = set()
    for model in config.model_config_list.config:
        if model.name in names:
            raise RequestError("INVALID_ARGUMENT", f"Illegal to list model {model.name} multiple times in config list")
        names.add(model.name)
        if not is_model_name(model.name):
            raise RequestError("INVALID_ARGUMENT", f"Model name {model.name!r} is not made of A-Z a-z 0-9 _ . -")
        if not Path(model.base_path).is_absolute():
            raise RequestError(
                "INVALID_ARGUMENT",
                f"Expected model {model.name} to have an absolute path or URI; got base_path()={model.base_path}",
            )
        if model.model_platform not in ("", "tensorflow"):
            raise RequestError(
                "INVALID_ARGUMENT", f"Model {model.name} requests unsupported platform {model.model_platform}"
            )


def is_under(path: Path, root: Path) -> bool:
    """Whether a path leads into a folder, links followed."""
    return path.resolve().is_relative_to(root.resolve())


def fingerprint(folder: Path) -> object:
    """What changes while a version is being copied."""
    try:
        files = sorted(folder.rglob("*"))
        return [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    except OSError:
        return None


def _as_failure(error: Exception) -> RequestError:
    if isinstance(error, RequestError):
        return error
    if isinstance(error, errors.OpError):
        return as_request_error(error)
    return RequestError("UNKNOWN" if not isinstance(error, OSError) else "NOT_FOUND", str(error) or type(error).__name__)
