"""What runs the Beam steps: Ingest, StatisticsGen, Vocabulary, SentencePairs, Transform and Evaluator."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from bertline.pipeline.config.base import Frozen


class BeamConfig(Frozen):
    runner: Literal["direct", "flink", "spark", "portable", "dataflow"] = "direct"
    """Where they run: `direct`, in this process or on this machine's cores; on Flink or Spark; on whatever stands behind a
    job endpoint of Beam (`portable`); or on Google's Dataflow."""
    workers: int | None = Field(default=None, ge=1, le=10_000)
    """How many. By default `direct` uses one for small data, and one a core above 256 MB of raw files; other runners
    decide for themselves."""
    endpoint: str | None = None
    """HOST:PORT of Flink's job manager or of a job endpoint, or spark://HOST:PORT."""
    image: str | None = None
    """Container image of workers elsewhere, with this package and its lock; `cluster.image` by default."""
    args: tuple[str, ...] = ()
    """Further arguments of every Beam step, as Beam's documentation has them; they override the settings above."""

    @model_validator(mode="after")
    def _endpoint_is_named(self) -> BeamConfig:
        if self.runner in ("flink", "spark", "portable") and not self.endpoint:
            raise ValueError(f"beam.endpoint: required for runner={self.runner}, as HOST:PORT")
        if self.runner == "dataflow":
            missing = [name for name in ("project", "region", "temp_location") if not self.names(name)]
            if missing:
                wanted = ", ".join(f"--{name}=…" for name in missing)
                raise ValueError(f"beam.args: Dataflow requires {wanted}")
        return self

    def names(self, option: str) -> bool:
        """Whether the user's own arguments say something of it."""
        return any(argument.split("=")[0] == f"--{option}" for argument in self.args)
