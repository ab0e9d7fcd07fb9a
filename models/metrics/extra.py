"""Metrics that other packages register (`bertline.metrics`), measured like those of the task itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from bertline.pipeline.core import plugins


@dataclass(frozen=True)
class ExtraMetric:
    """One more metric of every task that has another one of the same family.

    A package registers one of these under its name: `mean_error = "my_package:MEAN_ERROR"`.
    """

    family: Literal["confusion", "values", "ranks"]
    """What it follows from: `confusion` of a matrix [true class, answered class], of a task that answers one of several
    classes; `values` of the predicted numbers and the true ones; `ranks` of the place at which each text's own was found,
    counted from 1."""
    score: Callable[..., float]
    """Of the matrix; of (predicted, true); of the places. NaN where it is undefined."""
    better: Literal["higher", "lower"] = "higher"

    def of_whole(self, found: Any) -> float:
        """The score of what the family has added up."""
        return float(self.score(*found) if self.family == "values" else self.score(found))


def names() -> list[str]:
    return plugins.registered(plugins.METRICS)


def get(name: str) -> ExtraMetric:
    found: ExtraMetric = plugins.load(plugins.METRICS, name, ExtraMetric)
    return found
