"""What the steps of a pipeline are told of where they run: on this machine, or on an engine that it is compiled for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bertline.pipeline.config import Config


@dataclass(frozen=True)
class RunLocation:
    root: str
    """Folder of the artifacts."""
    destination: str
    """Folder of the pushed versions."""
    accepted_statistics: str
    """Folder of what the last accepted data was like."""
    checkpoints: str = ""
    """Folder for what outlives a killed training; beside the model that is being made, by default."""
    quarantine: str = ""
    """Second copy of the bad rows, where a failed step's own is removed."""
    sees_data: bool = False
    """Whether the raw files can be looked at before the pipeline runs."""
    given_at_run: Mapping[str, Any] = field(default_factory=dict)
    """TFX's RuntimeParameters, by the settings that GIVEN_AT_RUN of Ingest and of the Trainer name."""


def here(config: Config) -> RunLocation:
    return RunLocation(
        root=str(config.artifact_root),
        destination=str(config.push_path),
        accepted_statistics=str(config.home / "accepted-statistics"),
        checkpoints=str(config.home / "checkpoints"),
        quarantine=str(config.home / "quarantine.jsonl"),
        sees_data=True,
    )
