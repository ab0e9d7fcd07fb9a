"""Mean and standard deviation of metrics over several runs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Spread:
    """Of each metric that every one of `runs` runs has."""

    runs: int = 0
    mean: dict[str, float] = field(default_factory=dict)
    std: dict[str, float | None] = field(default_factory=dict)
    """That of a sample, divided by n - 1; none of a single run, which says nothing about others."""

    def shown(self, metric: str) -> str:
        """
        >>> spread_of([{"f1": 0.5}, {"f1": 0.7}]).shown("f1")
        '0.6000 ± 0.1414'
        """
        std = self.std.get(metric)
        return f"{self.mean[metric]:.4f} ± " + ("?" if std is None else f"{std:.4f}") if metric in self.mean else ""


def spread_of(runs: Sequence[Mapping[str, float]]) -> Spread:
    """Over the metrics of each run. One that is not a number somewhere has neither mean nor deviation."""
    names = [name for name in (runs[0] if runs else ()) if all(math.isfinite(run.get(name, math.nan)) for run in runs)]
    columns = {name: [run[name] for run in runs] for name in names}
    return Spread(
        len(runs),
        {name: statistics.fmean(values) for name, values in columns.items()},
        {name: statistics.stdev(values) if len(values) > 1 else None for name, values in columns.items()},
    )
