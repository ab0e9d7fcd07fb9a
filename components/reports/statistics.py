"""TFDV's statistics of a feature as plain values: what a person wants to know of it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal

from bertline.pipeline.config import Frozen

_MAX_VALUES = 10
_MAX_CHARACTERS = 200
_QUANTILES = 1  # of Histogram.HistogramType


class Bucket(Frozen):
    """How many values lie between two bounds."""

    low: float
    high: float
    count: float


class Numbers(Frozen):
    """Of a feature that is a number."""

    mean: float
    deviation: float
    zeros: int
    least: float
    median: float
    most: float
    buckets: tuple[Bucket, ...]
    """Between quantiles, so that each has about as many values."""


class Feature(Frozen):
    """One feature of the rows of one split."""

    name: str
    kind: Literal["text", "whole number", "number"]
    present: int
    """Rows that have it."""
    missing: int
    most_values: int
    """That a row has of it: 1 but for lists."""
    mean_values: float
    different: int | None = None
    """Of texts: how many differ from all others."""
    most_frequent: tuple[tuple[str, int], ...] = ()
    """Of texts: values with how often they are there."""
    numbers: Numbers | None = None


def features_of(split: Any, *, columns: Collection[str], texts: bool) -> tuple[Feature, ...]:
    """Args:
    split: TFDV's `DatasetFeatureStatistics`.
    columns: features whose values are names, as of classes, and always shown; any other is a text of the user's.
    texts: whether texts that stand in more than one row are among the values.
    """
    return tuple(_feature(feature, split.num_examples, columns, texts) for feature in split.features)


def _feature(feature: Any, rows: int, columns: Collection[str], texts: bool) -> Feature:
    name = ".".join(feature.path.step) or feature.name
    is_text = feature.HasField("string_stats")
    found = feature.string_stats if is_text else feature.num_stats
    common = found.common_stats
    shown = _most_frequent(found, name in columns, texts) if is_text else ()
    return Feature(
        name=name,
        kind="text" if is_text else "number" if feature.type == feature.FLOAT else "whole number",
        present=common.num_non_missing,
        missing=max(0, rows - common.num_non_missing),
        most_values=common.max_num_values,
        mean_values=common.avg_num_values,
        different=found.unique if is_text else None,
        most_frequent=shown,
        numbers=None if is_text or not common.num_non_missing else _numbers(found),
    )


def _most_frequent(found: Any, is_name: bool, texts: bool) -> tuple[tuple[str, int], ...]:
    """Names, or texts that occur more than once: of others the most frequent are any of them."""
    values = [
        (value.value, int(value.frequency)) for value in found.top_values if is_name or (texts and value.frequency > 1)
    ]
    return tuple((value[:_MAX_CHARACTERS], count) for value, count in values[:_MAX_VALUES])


def _numbers(found: Any) -> Numbers:
    quantiles = next((histogram for histogram in found.histograms if histogram.type == _QUANTILES), None)
    buckets = quantiles.buckets if quantiles else ()
    return Numbers(
        mean=found.mean,
        deviation=found.std_dev,
        zeros=found.num_zeros,
        least=found.min,
        median=found.median,
        most=found.max,
        buckets=tuple(
            Bucket(low=bucket.low_value, high=bucket.high_value, count=bucket.sample_count) for bucket in buckets
        ),
    )
