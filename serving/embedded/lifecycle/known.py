"""What a server knows of its models: the versions of each, their states, and how many requests use them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tensorflow_serving.apis import get_model_status_pb2
from tensorflow_serving.config import model_server_config_pb2

from bertline.serving.embedded.errors import RequestError
from bertline.serving.embedded.lifecycle.servable import Servable

State = get_model_status_pb2.ModelVersionStatus.State


@dataclass(eq=False)
class Version:
    """One version of a model, from the moment it is wanted until it is forgotten."""

    number: int
    folder: Path
    state: int = State.START
    error: RequestError | None = None
    servable: Servable | None = None
    leases: int = 0
    """Requests that use it now."""
    attempts: int = 0
    tried: float = 0.0
    tried_on: object = None
    """What the folder was when it was tried last."""

    @property
    def is_available(self) -> bool:
        return self.state == State.AVAILABLE

    @property
    def is_past(self) -> bool:
        """Whether it was served, and is on its way out or gone."""
        return self.state in (State.UNLOADING, State.END) and self.error is None


@dataclass(eq=False)
class Model:
    """A name, where its versions are, and those that are known."""

    config: model_server_config_pb2.ModelConfig
    versions: dict[int, Version] = field(default_factory=dict)
    labels: Mapping[str, int] = field(default_factory=dict)

    def available(self) -> list[Version]:
        return [version for version in self.versions.values() if version.is_available]


@dataclass(frozen=True)
class Lease:
    """A version that stays loaded as long as the request runs."""

    model: str
    version: int
    servable: Servable
    folder: Path | None = None
    """Where it was loaded from."""
