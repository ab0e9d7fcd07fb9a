"""What `bertline prune` has found, in plain values."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bertline.components.pruning.side_by_side import SideBySide

CAUTION = (
    "The heads were selected on the same examples that measure the result, so it is biased upwards; measure on other"
    " examples (--data) for an unbiased result."
)


@dataclass(kw_only=True)
class PruneReport:
    """What `--json` prints, and what is recorded."""

    name: str
    task: str
    model: str
    digest: str
    """Of the model as the pipeline has made it."""
    metric: str
    better: str
    rows: int
    importance: dict[str, list[list[float | None]]] = field(default_factory=dict)
    """By how it was measured: a list for each layer; None for a head that was gone already."""
    curve: list[dict[str, Any]] = field(default_factory=list)
    """`keep`, `heads` and `value`: the metric with smaller and larger shares of the heads, the others masked."""
    heads_before: int = 0
    heads_after: int | None = None
    lost: dict[str, list[int]] = field(default_factory=dict)
    """Layer -> the heads that it has lost."""
    compared: dict[str, Any] = field(default_factory=dict)
    """Of `parameters`, `bytes`, `rows_per_second` and each of `metrics`: `original` and `pruned`."""
    folder: str | None = None
    pushed_version: int | None = None
    pushed_path: str | None = None
    refused: list[str] = field(default_factory=list)
    """Why it was not pushed, though that was asked for."""
    caution: str = CAUTION
    mlflow_run_id: str | None = None
    mlflow_uri: str | None = None
    tracking_problem: str | None = None
    seconds: float = 0.0
    log: str | None = None

    def keeps_within(self, drop: float) -> bool:
        """Whether the metric has not become worse by more."""
        measured = self.compared["metrics"][self.metric]
        if measured["difference"] is None:
            return False
        return (measured["difference"] if self.better == "higher" else -measured["difference"]) >= -drop


def compared(both: SideBySide) -> dict[str, Any]:
    """The original beside the pruned one."""

    def pair(values: tuple[Any, Any]) -> dict[str, Any]:
        return dict(zip(("original", "pruned"), values, strict=True))

    metrics = {}
    for name, spread in both.metrics.items():
        assert spread.other is not None and spread.difference is not None
        change = spread.difference
        numbers = {"difference": change.value, "low": change.low, "high": change.high}
        numbers |= pair((spread.one.value, spread.other.value))
        metrics[name] = {key: value if math.isfinite(value) else None for key, value in numbers.items()}
    return {
        "parameters": pair(both.parameters),
        "bytes": pair(both.bytes),
        "rows_per_second": pair(tuple(round(speed, 1) for speed in both.rows_per_second)),  # type: ignore[arg-type]
        "speed": round(both.speed, 3),
        "metrics": metrics,
    }
