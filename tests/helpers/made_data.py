"""What the data steps of a pipeline leave behind, made up: no TFDV is asked, so that it takes no time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tensorflow_metadata.proto.v0.statistics_pb2 import (
    DatasetFeatureStatisticsList,
    FeatureNameStatistics,
    Histogram,
)

Rows = Sequence[Mapping[str, Any]]


def reviews(count: int, seed: int = 0, texts: Mapping[int, str] | None = None) -> list[dict[str, Any]]:
    """Rows of a classification; some lack their source, and a few are longer than all others."""
    chance = np.random.default_rng(seed)
    words = np.where(chance.random(count) < 0.02, 400, chance.integers(3, 40, count))
    return [
        {
            "text": (texts or {}).get(row, f"text {seed} {row}"),
            "label": ("bad", "good")[row % 3 > 0],
            "words": int(words[row]),
            **({"source": ("web", "paper")[row % 2]} if row % 10 else {}),
        }
        for row in range(count)
    ]


def report_of(splits: Mapping[str, Rows], **changes: Any) -> dict[str, Any]:
    """The Ingest step's report."""
    kept = {split: len(rows) for split, rows in splits.items()}
    return {
        "files": ["reviews.csv"],
        "rows": sum(kept.values()) + 5,
        "kept": kept,
        "digests": {split: f"{at:032x}" for at, split in enumerate(splits)},
        "excluded": 3,
        "left_out": {"data.exclude": 3},
        "quarantined": 2,
        "reasons": {"empty text": 2},
        "labels": {split: dict(Counter(row["label"] for row in rows)) for split, rows in splits.items()},
        "incomplete": {},
        **changes,
    }


def statistics_of(rows: Rows) -> DatasetFeatureStatisticsList:
    """As TFDV writes them, of features that a row has one value of."""
    found = DatasetFeatureStatisticsList()
    split = found.datasets.add(num_examples=len(rows))
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row[name] for row in rows if name in row]
        feature = split.features.add()
        feature.path.step.append(name)
        is_text = isinstance(values[0], str)
        feature.type = FeatureNameStatistics.STRING if is_text else FeatureNameStatistics.INT
        stats = feature.string_stats if is_text else feature.num_stats
        common = stats.common_stats
        common.num_non_missing, common.max_num_values, common.avg_num_values = len(values), 1, 1.0
        if is_text:
            counted = Counter(values)
            stats.unique = len(counted)
            for value, count in counted.most_common(20):
                stats.top_values.add(value=value, frequency=count)
            continue
        stats.mean, stats.std_dev = float(np.mean(values)), float(np.std(values))
        stats.min, stats.median, stats.max = float(np.min(values)), float(np.median(values)), float(np.max(values))
        edges = np.quantile(values, np.linspace(0, 1, 11))
        histogram = stats.histograms.add(type=Histogram.QUANTILES)
        for low, high in zip(edges, edges[1:], strict=False):
            histogram.buckets.add(low_value=low, high_value=high, sample_count=len(values) / 10)
    return found
