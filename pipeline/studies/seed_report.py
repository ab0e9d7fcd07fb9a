"""What several seeds got, side by side: for the summary, for MLflow and for the table at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from bertline.pipeline.studies.statistics import Spread, spread_of


@dataclass(kw_only=True)
class SeedRun:
    """What one seed got."""

    seed: int
    metrics: dict[str, float] = field(default_factory=dict)
    """None where the training broke off."""
    blessed: bool = False
    reasons: list[str] = field(default_factory=list)
    """Why it was refused."""
    collapsed: list[str] = field(default_factory=list)
    """Why it counts as a run that learned nothing; empty for a sound one."""
    pushed: bool = False
    run_id: str | None = None
    """TFX's, by which the MLflow run is tagged."""
    mlflow_run_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class SeedReport:
    """All seeds together."""

    metric: str
    """What the best one is chosen by: the first that has a bound."""
    runs: list[SeedRun]
    spread: Spread
    """Over all that came to an end."""
    without_collapsed: Spread | None
    """Only where some have collapsed, and some have not."""

    @property
    def collapsed(self) -> list[int]:
        return [run.seed for run in self.runs if run.collapsed]


def make_report(metric: str, runs: list[SeedRun]) -> SeedReport:
    sound = [run.metrics for run in runs if not run.collapsed]
    return SeedReport(
        metric=metric,
        runs=runs,
        spread=spread_of([run.metrics for run in runs if run.metrics]),
        without_collapsed=spread_of(sound) if 0 < len(sound) < len(runs) else None,
    )


def best_of(runs: Sequence[SeedRun], metric: str, better: str) -> SeedRun | None:
    """The best by a metric among those that are blessed or, where none is, among all that came to an end."""
    ended = [run for run in runs if run.metrics]
    candidates = [run for run in ended if run.blessed] or ended
    sign = 1 if better == "higher" else -1
    return max(candidates, key=lambda run: sign * run.metrics[metric], default=None)
