"""What a journal holds of a run that goes on after it was killed."""

from __future__ import annotations

from dataclasses import dataclass, field

from bertline.components.tracking.backend.names import valid_name
from bertline.components.tracking.journal import Journal, Operation

_STEPWISE = ("train/", "eval_epoch/", "system/")
"""Metrics with a value a step: a training that goes on repeats the steps since its last checkpoint."""


@dataclass
class Recorded:
    """Steps, numbers and parts that need not be told again."""

    last_steps: dict[str, int] = field(default_factory=dict)
    steps: dict[str, Operation] = field(default_factory=dict)
    parts: dict[str, tuple[str, str | None]] = field(default_factory=dict)

    @classmethod
    def of(cls, journal: Journal) -> Recorded:
        found = cls()
        for operation, _ in journal.operations():
            if operation["do"] == "metrics":
                for name, _, _, step in operation["metrics"]:
                    if name.startswith(_STEPWISE):
                        found.last_steps[name] = max(step, found.last_steps.get(name, 0))
            elif operation["do"] == "step":
                found.steps[operation["name"]] = operation
            elif operation["do"] == "part":
                found.parts[operation["identity"]] = operation["key"], operation["mlflow_run_id"]
        return found

    def has(self, name: str, step: int) -> bool:
        return step <= self.last_steps.get(valid_name(name), -1)

    def next_step(self, prefix: str) -> int:
        return max((step + 1 for name, step in self.last_steps.items() if name.startswith(prefix)), default=0)
