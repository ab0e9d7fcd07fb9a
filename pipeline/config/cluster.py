"""Where the pipeline runs when this machine only compiles it."""

from __future__ import annotations

from pydantic import Field, model_validator

from bertline.pipeline.config.base import Frozen


class ResourcesConfig(Frozen):
    """What one step asks a cluster for."""

    cpu: float | None = Field(default=None, gt=0, le=1024)
    """Cores."""
    memory: float | None = Field(default=None, gt=0, le=65536)
    """Gigabytes."""
    gpus: int = Field(default=0, ge=0, le=64)
    gpu_type: str | None = None
    """As the engine names it: nvidia.com/gpu on Kubernetes, NVIDIA_TESLA_T4 and the like on Vertex."""

    @model_validator(mode="after")
    def _type_goes_with_a_number(self) -> ResourcesConfig:
        if self.gpu_type and not self.gpus:
            raise ValueError("gpu_type needs gpus, the number of GPUs, as well")
        return self


class ClusterConfig(Frozen):
    """Of `bertline compile` and `bertline submit`."""

    image: str = "bertline:0.1.0"
    """Container image that every step runs in; the Dockerfile makes it."""
    root: str | None = None
    """Folder of everything that steps write, which all of them see: gs://BUCKET/FOLDER, say."""
    resources: dict[str, ResourcesConfig] = Field(default_factory=dict)
    """What each step asks for, by its name, and `default` for all others: {Trainer: {cpu: 8, memory: 32, gpus: 1}}. Memory
    is in gigabytes."""
    retries: int = Field(default=2, ge=0, le=100)
    """How often a step that fails is tried again."""
    workers: int = Field(default=2, ge=2, le=1024)
    """Processes of a training by a TFJob, the chief included."""

    def resources_of(self, step: str) -> ResourcesConfig | None:
        return self.resources.get(step, self.resources.get("default"))
