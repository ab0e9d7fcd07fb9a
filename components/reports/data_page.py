"""The rows of a run as a page, and as the parts of another page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bertline.components.reports import drawing
from bertline.components.reports.cards import card
from bertline.components.reports.charts import fractions
from bertline.components.reports.data import Data
from bertline.components.reports.page import Page, render, short

_MAX_LABELS = 40
_PLOTS = {
    "words": "Words in the texts of an example",
    "label_words": "Words in the target text",
    "label": "Labels",
}
_SPLITS = {"train": "for training", "eval": "for evaluation", "test": "for testing"}


def data_page(data: Data, name: str) -> Page:
    """Args: name: of the pipeline."""
    view = data_view(data)
    parts = [
        ("overview", "Overview"),
        ("anomalies", "Anomalies"),
        *([("labels", "Labels")] if view["labels"] else []),
        *([("lengths", "Lengths")] if view["plots"] else []),
        *([("features", "Features")] if view["features"] else []),
        ("rows", "Examples and files"),
    ]
    title = f"The data of {name}"
    return render(Path(__file__).parent / "templates" / "data.html", {"title": title, "parts": parts, "data_view": view})


def data_view(data: Data) -> dict[str, Any]:
    """All that the parts of `data_parts.html` show, ready to be shown."""
    return {
        "told": told(data),
        "notes": data.notes,
        "cards": _cards(data),
        "rows": _rows(data),
        "files": _files(data),
        "judged": _judged(data),
        "anomalies": data.anomalies,
        "drift": [
            {
                "split": drift.split,
                "feature": drift.feature,
                "measure": drift.measure,
                "value": f"{drift.value:.4f}",
                "bound": f"{drift.bound:g}",
                "is_beyond": drift.value > drift.bound,
            }
            for drift in data.drift
        ],
        "labels": _labels(data),
        "plots": [
            {"title": title, **drawing.histogram(_numbers(found), whole=_is_whole(found))}
            for name, title in _PLOTS.items()
            if (found := data.numbers(name))
        ],
        "features": _features(data),
        "value_tables": _values(data),
    }


def told(data: Data) -> str:
    """The rows in a sentence."""
    kept = ", ".join(f"{rows:,} {_SPLITS.get(split, split)}" for split, rows in data.kept.items())
    left_out, bad = sum(data.left_out.values()), sum(data.quarantined.values())
    return f"{data.read:,} examples read: {kept}, {left_out:,} left out on purpose, {bad:,} quarantined."


def _rows(data: Data) -> list[tuple[str, str]]:
    def counted(found: Mapping[str, int]) -> list[tuple[str, str]]:
        return [(f"… {what}", f"{rows:,}") for what, rows in found.items()]

    return [
        ("read", f"{data.read:,}"),
        *((_SPLITS.get(split, split), f"{rows:,}") for split, rows in data.kept.items()),
        ("left out on purpose", f"{sum(data.left_out.values()):,}"),
        *counted(data.left_out),
        ("quarantined", f"{sum(data.quarantined.values()):,}"),
        *counted(data.quarantined),
        *((f"moved {_SPLITS.get(split, split)}, to split classes alike", f"{n:,}") for split, n in data.moved.items()),
        *((f"kept, with {what}", f"{rows:,}") for what, rows in data.incomplete.items()),
    ]


def _files(data: Data) -> list[tuple[str, str]]:
    more = data.files_in_all - len(data.files)
    return [
        ("files", ", ".join(data.files) + (f" and {more:,} more" if more > 0 else "")),
        *((f"digest of {split}", digest) for split, digest in data.digests.items()),
    ]


def _cards(data: Data) -> list[dict[str, Any]]:
    def fraction(count: int) -> list[str]:
        return [f"{count / data.read:.1%} of all"] if data.read else []

    left_out, bad = sum(data.left_out.values()), sum(data.quarantined.values())
    return [
        _judgement_card(data),
        card("Read", f"{data.read:,}", ["examples in all"]),
        *(
            card(_SPLITS.get(split, split).capitalize(), f"{count:,}", fraction(count))
            for split, count in data.kept.items()
        ),
        card("Left out", f"{left_out:,}", ["on purpose", *fraction(left_out)]),
        card("In quarantine", f"{bad:,}", fraction(bad)),
        *([card("Labels", f"{data.labels_in_all:,}", ["different ones"])] if data.labels_in_all else []),
    ]


def _judgement_card(data: Data) -> dict[str, Any]:
    value, state = {
        "not yet": ("Not judged", "open"),
        "accepted": ("Accepted", "good"),
        "allowed": ("Allowed", "open"),
        "refused": ("Refused", "bad"),
    }[data.judged]
    return card("Anomalies", value, [_judged(data)], state=state, kind="verdict")


def _judged(data: Data) -> str:
    count = f"{len(data.anomalies)} anomal{'y' if len(data.anomalies) == 1 else 'ies'}"
    return {
        "not yet": "The data was not checked for anomalies.",
        "accepted": "No anomalies.",
        "allowed": f"{count}, allowed by --allow-anomalies.",
        "refused": f"{count}: the pipeline stopped here, and nothing was trained.",
    }[data.judged]


def _labels(data: Data) -> dict[str, Any] | None:
    names = list(dict.fromkeys(label for counts in data.labels.values() for label in counts))
    names.sort(key=lambda label: -sum(counts.get(label, 0) for counts in data.labels.values()))
    left_out = data.labels_in_all - len(names[:_MAX_LABELS])
    note = f"{left_out:,} rarer labels are not shown." if left_out > 0 else ""
    if not names:
        return None
    return _counts("Labels of each split", "label", data.labels, names[:_MAX_LABELS], data.label_totals, note=note)


def _counts(
    caption: str,
    heading: str,
    counts: Mapping[str, Mapping[str, int]],
    names: Sequence[str],
    totals: Mapping[str, float],
    *,
    note: str = "",
    absent: str = "",
) -> dict[str, Any]:
    """How often each of some names is there, by split, and which share that is of its total.

    Args:
      absent: stands for the count of a name that a split does not have, where that need not be 0.
    """

    def cell(split: str, name: str) -> tuple[str, float | None]:
        if name not in counts[split] and absent:
            return absent, None
        return f"{counts[split].get(name, 0):,}", counts[split].get(name, 0) / (totals.get(split) or 1)

    rows = [(short(name, 80), [cell(split, name) for split in counts]) for name in names]
    return fractions(caption, heading, list(counts), rows, note)


def _features(data: Data) -> list[dict[str, Any]]:
    """A row for each feature of each split."""
    found = []
    for split, features in data.features.items():
        for feature in features:
            numbers = feature.numbers
            missing = f"{feature.missing:,}" + (
                f" ({feature.missing / (feature.missing + feature.present):.2%})" if feature.missing else ""
            )
            found.append(
                {
                    "name": feature.name,
                    "split": split,
                    "kind": feature.kind + (", a list" if feature.most_values > 1 else ""),
                    "present": f"{feature.present:,}",
                    "missing": missing,
                    "is_missing": feature.missing > 0,
                    "different": "" if feature.different is None else f"{feature.different:,}",
                    "in_row": f"{feature.mean_values:,.3g}, at most {feature.most_values:,}"
                    if feature.most_values > 1
                    else "",
                    "spread": drawing.told(numbers) if numbers else "",
                }
            )
    return sorted(found, key=lambda row: str(row["name"]))


def _values(data: Data) -> list[dict[str, Any]]:
    """The most frequent values of each feature that has some; labels have a table of their own."""
    by_name: dict[str, dict[str, dict[str, int]]] = {}
    for split, features in data.features.items():
        for feature in features:
            if feature.most_frequent and not (feature.name == "label" and data.labels_in_all):
                by_name.setdefault(feature.name, {})[split] = dict(feature.most_frequent)
    totals = {
        (split, feature.name): feature.present * feature.mean_values
        for split, features in data.features.items()
        for feature in features
    }
    return [
        _counts(
            f"Most frequent values of {name}",
            name,
            counts,
            list(dict.fromkeys(value for found in counts.values() for value in found)),
            {split: totals[split, name] for split in counts},
            absent="–",
        )
        for name, counts in sorted(by_name.items())
    ]


def _numbers(found: Mapping[str, Any]) -> dict[str, Any]:
    return {split: feature.numbers for split, feature in found.items()}


def _is_whole(found: Mapping[str, Any]) -> bool:
    return all(feature.kind == "whole number" for feature in found.values())
