"""What a person should know of the rows that nobody has to mend: in sentences, from the counts of the report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bertline.components.ingest.duplicates import DUPLICATES, MAX_EVAL_EXAMPLES
from bertline.components.ingest.rows import TEST
from bertline.components.ingest.strata import MIN_TEXTS
from bertline.pipeline.config import LabelKind

FEW = 10
"""A class with fewer evaluation examples is hardly measured: one example more or less is over a tenth of its recall."""
_SHOWN = 5
_FEW_REMARKS = 3


def notes(report: Mapping[str, Any], label: LabelKind) -> Iterator[str]:
    if rare := report["rare"]:
        have = "class has" if len(rare) == 1 else "classes have"
        yield (
            f"{len(rare):,} {have} fewer than {MIN_TEXTS} different texts, too few to be split, and"
            f" {'is' if len(rare) == 1 else 'are'} in training only: {_listed(rare)}. No metric measures"
            f" {'it' if len(rare) == 1 else 'them'}."
        )
    if label in ("class", "classes"):
        counts = {name: report["labels"]["eval"].get(name, 0) for name in report["labels"]["train"]}
        few = sorted((count, name) for name, count in counts.items() if count < FEW and name not in rare)
        if few:
            have = "class has" if len(few) == 1 else "classes have"
            shown = _listed([f"{name} ({count})" for count, name in few])
            yield (
                f"{len(few):,} {have} fewer than {FEW} evaluation examples, so that metrics of"
                f" {'it' if len(few) == 1 else 'them'} are uncertain: {shown}."
            )
    if repeated := report["left_out"].get(DUPLICATES, 0):
        or_test = " or test" if TEST in report["labels"] else ""
        examples = "training example has" if repeated == 1 else "training examples have"
        yield (
            f"{repeated:,} {examples} the text of an evaluation{or_test} example, and"
            f" {'was' if repeated == 1 else 'were'} left out; {DUPLICATES}: keep keeps {'it' if repeated == 1 else 'them'}."
        )
    if tested := report.get("tested", 0):
        yield f"{tested:,} of the texts of evaluation examples are in test examples, too: the test set is not independent."
    unlearned = set(report["labels"].get(TEST, ())) - set(report["labels"]["train"])
    if unlearned and label in ("class", "classes"):
        yield f"No training example has {_listed(sorted(unlearned))}, which test examples have; such examples are ignored."
    if conflicts := report["conflicts"]:
        have = "text has" if conflicts == 1 else "texts have"
        yield f"{conflicts:,} {have} different labels in different examples; no model can get all of them right."
    for kind, found in report.get("remarks", {}).items():
        what, _, decided = kind.partition("; ")
        yield f"{found['times']:,} {what} ({decided}), the first of them: {'; '.join(found['first'][:_FEW_REMARKS])}."
    if report["duplicates_skipped"]:
        yield f"Duplicates were not removed, as there are over {MAX_EVAL_EXAMPLES:,} evaluation examples."


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    shown = ", ".join(name if len(name) <= 40 else f"{name[:40]}…" for name in names[:_SHOWN])
    return f"{shown} and {more:,} more" if more > 0 else shown
