"""The rows that a run has read, as one value: how many, which labels, how long, and what is wrong with them.

It is recorded with the run as `page.json`, beside the page that shows it, before anything is learned from the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from bertline.components.reports.statistics import Feature, features_of
from bertline.pipeline.config import Frozen

PAGE, VALUES = "data/page.html", "data/page.json"
"""The names in MLflow of the page, and of what it shows."""
_MAX_LABELS = 200
_MAX_FILES = 100


class Anomaly(Frozen):
    """One thing that is wrong with one split, in the words of `components/validation/anomalies.py`."""

    split: str
    feature: str
    what: str
    remedy: str


class Drift(Frozen):
    """How far a feature has moved since the last run whose data was accepted."""

    split: str
    feature: str
    measure: str
    value: float
    bound: float


class Data(Frozen):
    files: tuple[str, ...] = ()
    files_in_all: int = 0
    read: int
    kept: dict[str, int]
    """Split -> rows."""
    digests: dict[str, str] = {}
    left_out: dict[str, int] = {}
    """On purpose: setting -> rows."""
    quarantined: dict[str, int] = {}
    """Reason -> rows."""
    incomplete: dict[str, int] = {}
    """What rows lack -> rows; they are kept."""
    notes: tuple[str, ...] = ()
    """What nobody has to mend, in sentences: of classes that are hardly measured, of duplicates."""
    moved: dict[str, int] = {}
    """Split -> rows that changed to it so that classes are split alike."""
    labels: dict[str, dict[str, int]] = {}
    """Split -> label -> rows, of the most frequent ones; nothing where labels are no names."""
    labels_in_all: int = 0
    label_totals: dict[str, int] = {}
    """Split -> how often any label is there."""
    features: dict[str, tuple[Feature, ...]] = {}
    """Split -> what TFDV counted; nothing before it has."""
    anomalies: tuple[Anomaly, ...] = ()
    judged: Literal["not yet", "accepted", "allowed", "refused"] = "not yet"
    """`allowed` is data that was accepted in spite of its anomalies."""
    drift: tuple[Drift, ...] = ()
    """Nothing where no data was accepted before."""

    def numbers(self, name: str) -> dict[str, Feature]:
        """Split -> a feature that is a number, where it is one and there."""
        found = ((split, feature) for split, features in self.features.items() for feature in features)
        return {split: feature for split, feature in found if feature.name == name and feature.numbers}


def look(
    report: Mapping[str, Any],
    statistics: Mapping[str, Any],
    judgement: Mapping[str, Any] | None,
    *,
    slices: Sequence[str] = (),
    texts: bool = True,
) -> Data:
    """All that is known of the rows of a run.

    Args:
      report: of the Ingest step.
      statistics: split -> TFDV's `DatasetFeatureStatisticsList`.
      judgement: what the data gate has written down; None before it has run.
      slices: columns that the evaluation is sliced by: their values are names.
      texts: whether texts of the user's may be among the values.
    """
    counts = report.get("labels", {})
    totals: dict[str, int] = {}
    for split in counts.values():
        for label, rows in split.items():
            totals[label] = totals.get(label, 0) + rows
    frequent = sorted(totals, key=lambda label: (-totals[label], label))[:_MAX_LABELS]
    features = {split: _features(found.datasets[0], slices, texts) for split, found in statistics.items()}
    files = report.get("files", [])
    return Data(
        files=files[:_MAX_FILES],
        files_in_all=len(files),
        read=report["rows"],
        kept=report["kept"],
        digests=report.get("digests", {}),
        left_out=report.get("left_out", {}),
        quarantined=report.get("reasons", {}),
        incomplete={what: found["rows"] for what, found in report.get("incomplete", {}).items()},
        notes=report.get("notes", ()),
        moved=report.get("moved", {}),
        labels={split: {label: found[label] for label in frequent if label in found} for split, found in counts.items()},
        labels_in_all=len(totals),
        label_totals={split: sum(found.values()) for split, found in counts.items()},
        features=features,
        anomalies=(judgement or {}).get("anomalies", ()),
        judged=_judged(judgement),
        drift=(judgement or {}).get("drift", ()),
    )


def _features(split: Any, slices: Sequence[str], texts: bool) -> tuple[Feature, ...]:
    names = {feature.path.step[0] for feature in split.features if feature.path.step}
    # A label whose words are counted is a text that is to be written.
    columns = {*slices, *(() if "label_words" in names else ("label",))}
    return features_of(split, columns=columns, texts=texts)


def _judged(judgement: Mapping[str, Any] | None) -> Literal["not yet", "accepted", "allowed", "refused"]:
    if judgement is None:
        return "not yet"
    if judgement.get("refused"):
        return "refused"
    return "allowed" if judgement.get("allowed") else "accepted"
