"""The settings of a search for settings."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from bertline.pipeline.config.base import Frozen


class RangeConfig(Frozen):
    """Values between two limits, both included."""

    min: float
    max: float
    scale: Literal["linear", "log"] = "linear"
    """`log` samples each power of ten equally often, as suits learning rates."""

    @model_validator(mode="after")
    def _rises(self) -> RangeConfig:
        if not self.min < self.max:
            raise ValueError(f"min={self.min:g} must be below max={self.max:g}")
        if self.scale == "log" and self.min <= 0:
            raise ValueError(f"on a log scale min={self.min:g} must be above 0")
        return self


# Told apart by their form, so that a mistake is told of the one that was meant. What begins with `function-` is no part of
# a setting's name where mistakes are told.
Values = Annotated[
    Annotated[RangeConfig, Tag("function-range")] | Annotated[tuple[Any, ...], Tag("function-list")],
    Discriminator(lambda given: "function-list" if isinstance(given, list | tuple) else "function-range"),
]


class SearchConfig(Frozen):
    """What `bertline search` tries; `bertline run` ignores it."""

    space: dict[str, Values] = Field(default_factory=dict)
    """Setting -> the values that it may take, as a list, or as {min: 1.0e-5, max: 2.0e-4, scale: log}; scale is linear by
    default."""
    trials: int = Field(default=10, ge=1, le=10_000)
    """Number of trials."""
    method: Literal["bayesian", "random"] = "bayesian"
    """`bayesian` learns from the trials before, once there are three for each setting of `space`; `random` does not."""
    metric: str | None = None
    """What the trials are compared by; the first metric of `evaluation.thresholds` by default."""

    @field_validator("space", mode="before")
    @classmethod
    def _ranges_or_lists(cls, value: Any) -> Any:
        for name, values in value.items() if isinstance(value, dict) else ():
            is_range = isinstance(values, dict) and {"min", "max"} <= values.keys() <= RangeConfig.model_fields.keys()
            is_list = isinstance(values, list | tuple) and values
            if not (is_range or is_list or isinstance(values, RangeConfig)):
                raise ValueError(f"{name}: give a list of values, or a range as {{min: 1, max: 4}}, with scale: log or not")
        return value
