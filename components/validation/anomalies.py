"""What is wrong with the data, in words: TFDV finds the anomalies, and here they get numbers, places and remedies."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow_data_validation as tfdv
from tensorflow_metadata.proto.v0.anomalies_pb2 import Anomalies, AnomalyInfo, DriftSkewInfo
from tensorflow_metadata.proto.v0.schema_pb2 import Schema
from tensorflow_metadata.proto.v0.statistics_pb2 import DatasetFeatureStatisticsList, FeatureNameStatistics

from bertline.components.ingest.rows import LACKING, MISSING_TARGET

Statistics = Mapping[str, DatasetFeatureStatisticsList]
"""Split -> its statistics."""
Report = Mapping[str, Any]
"""The Ingest step's `report.json`."""

SMALL_SPLIT = 300
"""Two samples of fewer rows from one source may differ by more than the default bounds of drift."""
MAX_CLASSES = 10
"""Unknown classes that are named one by one."""

_ABSENT = {AnomalyInfo.FEATURE_TYPE_LOW_FRACTION_PRESENT, AnomalyInfo.SCHEMA_MISSING_COLUMN}
_IGNORED = {
    AnomalyInfo.ENUM_TYPE_UNEXPECTED_STRING_VALUES,  # told by `_unknown_classes`, which sees more
    AnomalyInfo.COMPARATOR_CONTROL_DATA_MISSING,  # a gap in the baseline is no fault of this data
}
_MEASURED = {  # feature -> what it is, its unit, and the setting that bounds its drift
    "label": ("labels", "", "label_drift"),
    "words": ("text lengths", " words", "length_drift"),
    "label_words": ("lengths of the target texts", " words", "length_drift"),
}

_MEASURES = {
    DriftSkewInfo.Measurement.L_INFTY: "largest change of a fraction",
    DriftSkewInfo.Measurement.JENSEN_SHANNON_DIVERGENCE: "Jensen-Shannon divergence",
}


@dataclass(frozen=True)
class Anomaly:
    """One thing that is wrong with one split of the data."""

    split: str
    feature: str
    what: str
    """What is wrong, with numbers and places."""
    remedy: str
    """What the user can do about it."""

    def __str__(self) -> str:
        return f"{self.split}: {self.what}. {self.remedy}"


def validate(statistics: Statistics, schema: Schema, baseline: Statistics) -> dict[str, Anomalies]:
    """TFDV's own findings for each split, with the drift against the same split of the baseline."""
    return {
        split: tfdv.validate_statistics(current, schema, previous_statistics=baseline.get(split))
        for split, current in statistics.items()
    }


def drifts(found: Mapping[str, Anomalies]) -> list[dict[str, Any]]:
    """How far each feature that is watched has moved since the baseline, whether that is too far or not."""
    return [
        {
            "split": split,
            "feature": drift.path.step[0],
            "measure": _MEASURES.get(measured.type, "distance"),
            "value": measured.value,
            "bound": measured.threshold,
        }
        for split, anomalies in found.items()
        for drift in anomalies.drift_skew_info
        for measured in drift.drift_measurements
    ]


def explain(
    found: Mapping[str, Anomalies], statistics: Statistics, schema: Schema, report: Report, baseline: Statistics
) -> list[Anomaly]:
    """TFDV's findings as sentences, with the counts, places and shares that its descriptions lack."""
    return [
        anomaly
        for split, anomalies in found.items()
        for anomaly in _explain_split(split, anomalies, statistics[split], schema, report, baseline.get(split))
    ]


def _explain_split(
    split: str,
    found: Anomalies,
    current: DatasetFeatureStatisticsList,
    schema: Schema,
    report: Report,
    previous: DatasetFeatureStatisticsList | None,
) -> Iterator[Anomaly]:
    if found.data_missing:
        yield Anomaly(split, "", "there are no examples", "Give files that have some, or change data.split.")
        return
    for feature in schema.feature:
        if feature.name == "label" and feature.HasField("string_domain"):  # a label that is a text is no class
            yield from _unknown_classes(split, feature.string_domain.value, current, report)
    measured = {drift.path.step[0]: drift.drift_measurements[0] for drift in found.drift_skew_info}
    for info in sorted(found.anomaly_info.values(), key=lambda info: info.path.step[0]):
        name = info.path.step[0]
        for reason in info.reason:
            if reason.type in _ABSENT:
                yield _absent(split, name, current, report)
            elif reason.type == AnomalyInfo.COMPARATOR_L_INFTY_HIGH and previous:
                yield _label_drift(split, measured[name], current, previous)
            elif reason.type == AnomalyInfo.COMPARATOR_JENSEN_SHANNON_DIVERGENCE_HIGH and previous:
                yield _number_drift(split, name, measured[name], current, previous)
            elif reason.type not in _IGNORED:
                yield Anomaly(split, name, f"column {name}: {reason.description.strip(' .')}", "Correct the column.")


def _unknown_classes(
    split: str, classes: Sequence[str], current: DatasetFeatureStatisticsList, report: Report
) -> Iterator[Anomaly]:
    # The report counts every label, TFDV's histogram only the 1000 most frequent: a typo is rare by nature.
    counts = {**_label_counts(current), **report["labels"].get(split, {})}
    unknown = sorted(counts.keys() - set(classes), key=lambda name: (-counts[name], name))
    labels, rows = sum(counts.values()), _rows(current)
    of_all = f"{rows:,} examples" if labels <= rows else f"{labels:,} labels"
    for name in unknown[:MAX_CLASSES]:
        close = difflib.get_close_matches(name, classes, n=1)
        known = f"the nearest is {close[0]!r}" if close else f"they are {_listed(classes)}"
        yield Anomaly(
            split,
            "label",
            f"class {name!r} in {counts[name]:,} of {of_all} is not a known class; {known}",
            "Correct the examples, or add the class to data.labels.",
        )
    if rest := unknown[MAX_CLASSES:]:
        what = f"{len(rest):,} further unknown classes in {sum(counts[name] for name in rest):,} {of_all.split()[1]}"
        yield Anomaly(split, "label", what, "So many suggest a wrong data.label or data.labels.")


def _absent(split: str, name: str, current: DatasetFeatureStatisticsList, report: Report) -> Anomaly:
    rows, feature = _rows(current), _feature(current, name)
    lacking = rows - (getattr(feature, feature.WhichOneof("stats")).common_stats.num_non_missing if feature else 0)
    what = LACKING.get(name, f"missing {name}")
    if name == "label" and MISSING_TARGET in report["incomplete"]:
        what = MISSING_TARGET
    places = report["incomplete"].get(what)
    first = f"; the first of {places['rows']:,} in all splits: {_listed(places['first'])}" if places else ""
    return Anomaly(
        split,
        name,
        f"{what} in {lacking:,} of {rows:,} examples ({lacking / rows:.2%}){first}",
        "Correct the examples, or set data.incomplete: quarantine to leave them out.",
    )


def _label_drift(
    split: str, measured: Any, current: DatasetFeatureStatisticsList, previous: DatasetFeatureStatisticsList
) -> Anomaly:
    before, after = _label_fractions(previous), _label_fractions(current)
    moved = max(sorted({*before, *after}), key=lambda name: abs(after.get(name, 0) - before.get(name, 0)))
    return Anomaly(
        split,
        "label",
        f"the fraction of class {moved!r} moved from {before.get(moved, 0):.1%} to {after.get(moved, 0):.1%} since the"
        f" last accepted run, by {measured.value:.3f} where {measured.threshold:g} is allowed"
        f"{_chance(current, previous)}",
        _meant("label_drift"),
    )


def _number_drift(
    split: str, name: str, measured: Any, current: DatasetFeatureStatisticsList, previous: DatasetFeatureStatisticsList
) -> Anomaly:
    what, unit, bound = _MEASURED[name]
    return Anomaly(
        split,
        name,
        f"the {what} moved since the last accepted run, from a median of {_median(previous, name):g}{unit} to"
        f" {_median(current, name):g}: Jensen-Shannon divergence {measured.value:.3f} where"
        f" {measured.threshold:g} is allowed{_chance(current, previous)}",
        _meant(bound),
    )


def _chance(*samples: DatasetFeatureStatisticsList) -> str:
    rows = min(map(_rows, samples))
    return f" (with {rows:,} examples it may be chance)" if rows < SMALL_SPLIT else ""


def _meant(bound: str) -> str:
    return (
        f"If that is intended, allow it once (--allow-anomalies): later runs are compared with this one;"
        f" or raise validation.{bound}."
    )


def _listed(names: Sequence[str], limit: int = 5) -> str:
    return ", ".join(names[:limit]) + (f" and {len(names) - limit} more" if len(names) > limit else "")


def _rows(statistics: DatasetFeatureStatisticsList) -> int:
    return statistics.datasets[0].num_examples


def _feature(statistics: DatasetFeatureStatisticsList, name: str) -> FeatureNameStatistics | None:
    return next((feature for feature in statistics.datasets[0].features if list(feature.path.step) == [name]), None)


def _median(statistics: DatasetFeatureStatisticsList, name: str) -> float:
    feature = _feature(statistics, name)
    return feature.num_stats.median if feature else 0.0


def _label_counts(statistics: DatasetFeatureStatisticsList) -> dict[str, int]:
    feature = _feature(statistics, "label")
    buckets = feature.string_stats.rank_histogram.buckets if feature else ()
    return {bucket.label: int(bucket.sample_count) for bucket in buckets}


def _label_fractions(statistics: DatasetFeatureStatisticsList) -> dict[str, float]:
    counts = _label_counts(statistics)
    return {name: count / sum(counts.values()) for name, count in counts.items()}
