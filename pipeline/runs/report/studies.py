"""The runs of a study side by side, for a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bertline.pipeline.runs.listing import finite
from bertline.pipeline.runs.report.values import Part, Study
from bertline.pipeline.runs.store import Run

_OF_TRIAL = "trial."
_BEST = {"best_seed": "seed", "best_trial": "trial"}
"""Tag of a study that names its best run -> tag of that run."""


def study_of(run: Run, parts: Sequence[Run]) -> Study | None:
    """None for a run that stands alone."""
    if "study" not in run.tags or run.parent:
        return None
    return Study(
        kind=run.tags["study"],
        parts=tuple(map(_part, parts)),
        best=_best(run, parts),
        mean=_under("mean/", run.metrics),
        deviation=_under("std/", run.metrics),
        mean_of_sound=_under("mean_without_collapsed/", run.metrics),
        deviation_of_sound=_under("std_without_collapsed/", run.metrics),
    )


def _part(run: Run) -> Part:
    named = next((f"{tag} {run.tags[tag]}" for tag in _BEST.values() if tag in run.tags), run.name)
    collapsed = run.tags.get("collapsed", "no")
    return Part(
        run_id=run.run_id,
        title=named,
        settings={key.removeprefix(_OF_TRIAL): value for key, value in run.tags.items() if key.startswith(_OF_TRIAL)},
        status=run.status,
        scores={name: finite(value) for name, value in run.scores.items() if name != "rows"},
        blessed=run.blessed,
        collapsed=None if collapsed == "no" else collapsed,
        pushed_version=run.pushed_version,
        seconds=run.seconds,
        error=run.tags.get("error"),
    )


def _best(run: Run, parts: Sequence[Run]) -> str | None:
    for of_study, of_part in _BEST.items():
        for part in parts:
            if of_study in run.tags and part.tags.get(of_part) == run.tags[of_study]:
                return part.run_id
    return None


def _under(prefix: str, metrics: Mapping[str, float]) -> dict[str, float | None]:
    return {key.removeprefix(prefix): finite(value) for key, value in metrics.items() if key.startswith(prefix)}
