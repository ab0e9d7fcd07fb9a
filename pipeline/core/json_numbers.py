"""Numbers that may be undefined, in JSON: NaN here is null there, where there is no NaN."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def without_nan(value: Any) -> Any:
    """
    >>> without_nan({"f1": math.nan, "slices": [0.5, math.nan]})
    {'f1': None, 'slices': [0.5, None]}
    """
    if isinstance(value, Mapping):
        return {key: without_nan(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(each) for each in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def defined(values: Mapping[str, float]) -> dict[str, float]:
    """Those that are numbers, for MLflow, which would draw the others."""
    return {name: value for name, value in values.items() if not math.isnan(value)}


def with_nan(values: Mapping[str, float | None]) -> dict[str, float]:
    return {name: math.nan if value is None else value for name, value in values.items()}
