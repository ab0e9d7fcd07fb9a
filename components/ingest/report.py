"""Counts what became of the rows, and judges whether the pipeline may go on."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from bertline.components.ingest.duplicates import DUPLICATES
from bertline.components.ingest.files import InputFile
from bertline.components.ingest.filters import EXCLUDE, LeftOut
from bertline.components.ingest.plan import Plan
from bertline.components.ingest.readers.records import UNREADABLE, BadRow, Row
from bertline.components.ingest.rows import ALL_SPLITS, SPLITS, TEST, KeptExample
from bertline.pipeline.config import DataConfig, LabelKind
from bertline.pipeline.core.errors import BertlineError

MAX_QUARANTINED = 10_000
"""Rows in the quarantine file; more are counted and not written."""
MAX_CLASSES = 10_000
"""More are a sign of a wrong label column, and are not counted one by one."""
_FIRST_PLACES = 5


@dataclass
class Tally:
    """Counts of one file or of all; small, whatever the number of rows."""

    rows: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    """Rows that are left out on purpose, by the setting or the source that says so."""
    reasons: Counter[str] = field(default_factory=Counter)
    kept: Counter[str] = field(default_factory=Counter)
    digests: Counter[str] = field(default_factory=Counter)
    """Of each split, the sum of its rows' hashes: the same whatever the order in which they are read."""
    labels: dict[str, Counter[str]] = field(default_factory=lambda: {split: Counter() for split in ALL_SPLITS})
    incomplete: Counter[str] = field(default_factory=Counter)
    repeated: Counter[str] = field(default_factory=Counter)
    """Labels of the training rows that were left out as duplicates."""
    moved: Counter[str] = field(default_factory=Counter)
    """Rows of each split that a hash alone would have put on the other side."""
    places: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    """The first incomplete rows, by what they lack."""
    remarks: Counter[str] = field(default_factory=Counter)
    """What readers have decided about rows that are kept."""
    remarked: dict[str, list[tuple[str, int, str]]] = field(default_factory=dict)
    """The first of each kind: file, line, and what it was about."""
    unreadable: list[str] = field(default_factory=list)
    """Why reading broke off in a file, one sentence a file."""

    def add(self, row: Row | BadRow, result: KeptExample | BadRow | LeftOut) -> None:
        self.rows += 1
        if isinstance(result, LeftOut):
            self.left_out[result.setting] += 1
        elif isinstance(result, BadRow):
            self.reasons[result.kind] += 1
            if result.kind == UNREADABLE:
                self.unreadable.append(result.reason)
        else:
            self.kept[result.split] += 1
            for label in result.labels:
                self._count_label(result.split, label, 1)
            for what in result.missing:
                self.incomplete[what] += 1
                self._add_places(what, [(row.file, row.line)])
            for remark in row.remarks if isinstance(row, Row) else ():
                self.remarks[remark.kind] += 1
                self._add_remarks(remark.kind, [(row.file, row.line, remark.shown)])

    def add_example(self, split: str, example: bytes, count: int = 1) -> None:
        self.digests[split] += count * int.from_bytes(hashlib.sha256(example).digest()[:16], "big")

    def take_back(self, split: str, labels: Sequence[str], example: bytes) -> None:
        """A row that was counted as kept, and is not, or not on this side."""
        self._keep(split, labels, example, -1)

    def move(self, split: str, labels: Sequence[str], example: bytes) -> None:
        """A row that was counted on the other side."""
        self._keep(split, labels, example, 1)
        self.moved[split] += 1

    def leave_out_duplicate(self, labels: Sequence[str], example: bytes) -> None:
        """A training row that was counted as kept."""
        self.take_back("train", labels, example)
        self.left_out[DUPLICATES] += 1
        for label in labels:
            if label in self.repeated or len(self.repeated) <= MAX_CLASSES:
                self.repeated[label] += 1

    def _keep(self, split: str, labels: Sequence[str], example: bytes, count: int) -> None:
        self.kept[split] += count
        self.add_example(split, example, count)
        for label in labels:
            self._count_label(split, label, count)

    def merge(self, other: Tally) -> None:
        self.rows += other.rows
        # Not +=, which drops what is below zero: rows that change sides are taken back.
        for name in ("left_out", "reasons", "kept", "digests", "incomplete", "moved", "repeated", "remarks"):
            getattr(self, name).update(getattr(other, name))
        self.unreadable = sorted(self.unreadable + other.unreadable)
        for split, counts in other.labels.items():
            for label, count in counts.items():
                self._count_label(split, label, count)
        for what, places in other.places.items():
            self._add_places(what, places)
        for kind, found in other.remarked.items():
            self._add_remarks(kind, found)

    def _count_label(self, split: str, label: str, count: int) -> None:
        counts = self.labels[split]
        if label in counts or len(counts) <= MAX_CLASSES:
            counts[label] += count

    def _add_places(self, what: str, places: Iterable[tuple[str, int]]) -> None:
        self.places[what] = sorted([*self.places.get(what, []), *places])[:_FIRST_PLACES]

    def _add_remarks(self, kind: str, found: Iterable[tuple[str, int, str]]) -> None:
        self.remarked[kind] = sorted([*self.remarked.get(kind, []), *found])[:_FIRST_PLACES]

    def as_report(self, files: Sequence[InputFile], plan: Plan | None = None) -> dict[str, Any]:
        splits = ALL_SPLITS if self.kept[TEST] else SPLITS
        labels = {split: {label: count for label, count in sorted(self.labels[split].items()) if count} for split in splits}
        measured = {label for split in splits if split != "train" for label in labels[split]}
        return {
            "files": [path for file in files for path in file.paths],
            "rows": self.rows,
            "kept": {split: self.kept[split] for split in splits},
            "digests": {split: f"{self.digests[split] % 2**128:032x}" for split in splits},
            "excluded": self.left_out.total(),
            "left_out": dict(sorted(self.left_out.items())),
            "quarantined": self.reasons.total(),
            "reasons": dict(sorted(self.reasons.items())),
            "unreadable": self.unreadable,
            "labels": labels,
            "only_duplicates": sorted(name for name in self.repeated if name in measured and name not in labels["train"]),
            "moved": {split: self.moved[split] for split in SPLITS if self.moved[split]},
            "conflicts": plan.conflicts if plan else 0,
            "rare": list(plan.moves.rare) if plan else [],
            "duplicates_skipped": plan.too_many if plan else False,
            "tested": plan.tested if plan else 0,
            "remarks": {
                kind: {"times": count, "first": [f"{shown} ({file}:{line})" for file, line, shown in self.remarked[kind]]}
                for kind, count in sorted(self.remarks.items())
            },
            "incomplete": {
                what: {"rows": count, "first": [f"{file}:{line}" for file, line in self.places[what]]}
                for what, count in sorted(self.incomplete.items())
            },
        }


def quarantine_lines(bad_rows: Iterable[BadRow]) -> str:
    """The bad rows in the order of file and line, one JSON object a line."""
    ordered = sorted(bad_rows, key=lambda bad: (bad.file, bad.line))
    shown = ({"file": bad.file, "line": bad.line, "reason": bad.reason, "row": bad.raw} for bad in ordered)
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in shown)


def judge(
    report: dict[str, Any],
    data: DataConfig,
    first_bad: dict[str, Any] | None,
    quarantine: str,
    label: LabelKind = "class",
) -> None:
    """Raises BertlineError if nothing good can be learned from what was kept.

    Args:
      report: what `Tally.as_report` gave.
      data: the config that the rows were read by.
      first_bad: the first line of the quarantine file.
      quarantine: where the user finds that file.
      label: what the labels are.
    """
    rows, bad, kept = report["rows"], report["quarantined"], report["kept"]
    if report["unreadable"]:
        # Whatever the share: the rows after the break were never seen, so nobody can say how many are lost.
        raise BertlineError(report["unreadable"][0])
    if first_bad and bad > data.max_bad_fraction * rows:
        raise BertlineError(
            f"{bad:,} of {rows:,} examples ({bad / rows:.1%}) are bad, above data.max_bad_fraction"
            f" ({data.max_bad_fraction:.1%})."
            f" The first is {first_bad['file']}:{first_bad['line']}: {first_bad['reason']}."
            f" All are in {quarantine}; fix them, or raise data.max_bad_fraction."
        )
    counted = f"{rows:,} examples read, {report['excluded']:,} excluded, {bad:,} quarantined"
    wanted = {"train": "training", "eval": "evaluation", **({TEST: TEST} if data.test else {})}
    for split, what in wanted.items():
        if not kept.get(split):
            by = [
                "data.split" if data.path and split != TEST else f"data.{split}",
                *dict.fromkeys((EXCLUDE, *report["left_out"])),
            ]
            remedy = f"check {', '.join(by[:-1])} and {by[-1]}"
            raise BertlineError(f"No {what} examples are left ({counted}); {remedy}, or give more examples.")
    if data.label is None or label in ("number", "index", "text"):
        return
    classes = {name: count for split in SPLITS for name, count in report["labels"][split].items()}
    kept_rows = f"{sum(kept.values()):,} examples"
    if not classes:
        raise BertlineError(f"No label in {kept_rows}: column {data.label!r} is empty; check data.label.")
    if len(classes) == 1 and label != "classes":
        raise BertlineError(
            f"There is only one class {next(iter(classes))!r} in {kept_rows} (column {data.label!r}), so there is"
            " nothing to learn; check data.label and data.exclude."
        )
    if lost := report["only_duplicates"]:
        or_test = " or test" if data.test else ""
        more = f" (and of {len(lost) - 1:,} more classes)" if len(lost) > 1 else ""
        raise BertlineError(
            f"Every training example of the class {lost[0]!r}{more} has the text of an evaluation{or_test} example and was"
            f" left out, so none is left to learn it from; give other examples, or set {DUPLICATES} to keep."
        )
    if len(classes) > MAX_CLASSES:
        raise BertlineError(
            f"Column {data.label!r} has over {MAX_CLASSES:,} different values in {kept_rows}, too many for classes;"
            " check data.label."
        )
