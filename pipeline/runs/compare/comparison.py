"""Everything that two or more runs differ in, as one value. The first of them is the reference."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bertline.components.evaluator.verdict import FILE_NAME, OVERALL, ROWS, Verdict
from bertline.components.reports.confusion import Confusion
from bertline.models.kinds import describe_kind
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.runs.compare.curves import Curve, thinned
from bertline.pipeline.runs.compare.rows import Change, Flip, Shared, compare_examples
from bertline.pipeline.runs.diff import Difference, differing_settings
from bertline.pipeline.runs.listing import finite
from bertline.pipeline.runs.store import Run, RunStore

_MAX_CURVES = 8
_FIRST_CURVES = ("train/loss", "eval_epoch/loss")


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One metric, on all evaluation examples or on a slice of them."""

    name: str
    better: str
    """`higher`, `lower`, or nothing where it is not known."""
    values: tuple[float | None, ...]
    """Of each run, as its evaluator measured it on the rows that it held out."""
    changes: tuple[Change | None, ...]
    """Of each run against the reference, on the rows that both have held out; None for the reference itself, and where
    there are no such rows."""

    def difference(self, at: int) -> float | None:
        """Between what two evaluators measured, be it on the same rows or not."""
        first, value = self.values[0], self.values[at]
        return None if first is None or value is None else value - first


@dataclass(frozen=True, kw_only=True)
class Slice:
    name: str
    rows: tuple[int | None, ...]
    measured: tuple[Measured, ...]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What two or more runs differ in."""

    runs: tuple[Run, ...]
    """The first one is the reference."""
    settings: tuple[Difference, ...]
    """Those that differ, each with its value in every run."""
    metrics: tuple[Measured, ...]
    """On all evaluation examples."""
    baselines: tuple[Measured, ...] = ()
    """The first metric of each simple baseline, on the evaluation examples of each run."""
    test: tuple[Measured, ...] = ()
    """Each metric on the test examples of each run."""
    slices: tuple[Slice, ...]
    curves: tuple[Curve, ...]
    confusions: tuple[Confusion | None, ...]
    shared: tuple[Shared | None, ...]
    """Which rows each run and the reference have both held out; None for the reference itself."""
    flips: tuple[tuple[Flip, ...], ...]
    """Of each run: the rows that it answers rightly and the reference wrongly, or the other way round."""
    level: float
    """Of the intervals."""
    notes: tuple[str, ...]
    """What could not be compared, and why, in sentences."""

    def as_json(self) -> dict[str, Any]:
        """All of it as plain dictionaries and lists."""
        return {
            "reference": self.runs[0].run_id,
            "level": self.level,
            "notes": list(self.notes),
            "runs": [_run_json(run, shared) for run, shared in zip(self.runs, self.shared, strict=True)],
            "settings": {name: list(values) for name, values in self.settings},
            "metrics": {measured.name: _measured_json(measured) for measured in self.metrics},
            "baselines": {measured.name: _measured_json(measured) for measured in self.baselines},
            "test": {measured.name: _measured_json(measured) for measured in self.test},
            "slices": {
                kept.name: {"rows": list(kept.rows), **{each.name: _measured_json(each) for each in kept.measured}}
                for kept in self.slices
            },
            "curves": {curve.metric: [[list(point) for point in run] for run in curve.points] for curve in self.curves},
            "confusions": [
                {"labels": list(found.labels), "counts": [list(row) for row in found.counts]} if found else None
                for found in self.confusions
            ],
            "flips": [[flip._asdict() for flip in flips] for flips in self.flips],
        }


def compare(store: RunStore, runs: Sequence[Run]) -> Comparison:
    """Reads all that is recorded of the runs; the first one is the reference."""
    if len({run.run_id for run in runs}) < len(runs):
        raise BertlineError("the same run is given twice; give different runs.")
    verdicts, notes = _verdicts(store, runs)
    rows = compare_examples(store, runs)
    better = {**_better(verdicts), **rows.better}
    slices = [_slices_of(run, verdict) for run, verdict in zip(runs, verdicts, strict=True)]
    notes += [f"the run {run.short_id}: {sentence}" for run in runs if (sentence := _instead(run))]
    tasks = {run.task for run in runs}
    if len(tasks) > 1:
        told = ", ".join(f"{run.short_id} {run.task or 'none that is recorded'}" for run in runs)
        notes.append(f"the runs have different tasks ({told}): metrics of the same name may differ in meaning.")
    return Comparison(
        runs=tuple(runs),
        settings=tuple(differing_settings([run.params for run in runs])),
        metrics=tuple(_measured(list(map(_scores, runs, verdicts)), better, rows.changes(None))),
        baselines=tuple(_baselines(verdicts, better)),
        test=tuple(_tests(verdicts, better)),
        slices=tuple(
            Slice(
                name=name,
                rows=tuple(_count(found.get(name, {}).get(ROWS)) for found in slices),
                measured=tuple(_measured([found.get(name, {}) for found in slices], better, rows.changes(name))),
            )
            for name in dict.fromkeys(name for found in slices for name in found)
        ),
        curves=tuple(curves_of(store, runs)),
        confusions=tuple(Confusion.of(verdict) if verdict else None for verdict in verdicts),
        shared=rows.shared,
        flips=rows.flips,
        level=rows.level,
        notes=(*notes, *rows.notes),
    )


def _instead(run: Run) -> str:
    """That its model has no encoder, and why."""
    return describe_kind({"task": run.task, "kind": run.tags.get("model_kind"), "kind_why": run.tags.get("model_kind_why")})


def _verdicts(store: RunStore, runs: Sequence[Run]) -> tuple[list[Verdict | None], list[str]]:
    found: list[Verdict | None] = []
    notes = []
    for run in runs:
        path = store.file(run.run_id, FILE_NAME)
        try:
            found.append(Verdict.from_json(path.read_text()) if path else None)
        except (ValueError, TypeError):
            found.append(None)
            notes.append(f"the {FILE_NAME} of the run {run.short_id} cannot be read; its slices have the names of MLflow.")
        if run.is_over_several:
            notes.append(
                f"the run {run.short_id} is a study, and its metrics are means over its runs; compare these instead."
            )
        elif path is None:
            notes.append(f"the run {run.short_id} was not evaluated ({run.status}).")
    return found, notes


def _better(verdicts: Sequence[Verdict | None]) -> dict[str, str]:
    """Of each metric whether `higher` or `lower` is better, as far as an evaluator has said it."""
    found: dict[str, str] = {}
    for verdict in verdicts:
        if verdict and verdict.less_is_better is not None:
            found |= {name: "lower" if name in verdict.less_is_better else "higher" for name in verdict.metrics}
    return found


def _baselines(verdicts: Sequence[Verdict | None], better: Mapping[str, str]) -> list[Measured]:
    """By the metric that stands first: that with a threshold."""
    values: list[dict[str, float]] = []
    directions: dict[str, str] = {}
    for verdict in verdicts:
        values.append({})
        for name, found in (verdict.baselines if verdict else {}).items():
            metric, value = next(iter(found.items()))
            values[-1][f"baseline {name}: {metric}"] = value
            directions[f"baseline {name}: {metric}"] = better.get(metric, "")
    return _measured(values, directions, [{} for _ in verdicts])


def _tests(verdicts: Sequence[Verdict | None], better: Mapping[str, str]) -> list[Measured]:
    """What each run has on its test examples. Nothing says that they are the same, so that no change is judged."""
    values = [
        {f"test {metric}": found["value"] for metric, found in (verdict.test if verdict else {}).items()}
        for verdict in verdicts
    ]
    directions = {f"test {metric}": side for metric, side in better.items()}
    return _measured(values, directions, [{} for _ in verdicts])


def _scores(run: Run, verdict: Verdict | None) -> dict[str, float]:
    """Metric -> value, those with a bound first, then in the order of the task, which MLflow does not keep."""
    found = verdict.metrics if verdict else run.scores
    bounded = [name for name in run.bounded if name in found]
    return {name: found[name] for name in (*bounded, *(name for name in found if name not in bounded))}


def _slices_of(run: Run, verdict: Verdict | None) -> dict[str, dict[str, float]]:
    """Slice -> metric -> value; by their true names where the verdict is there, for MLflow allows not every letter."""
    if verdict:
        return {name: values for name, values in verdict.slices.items() if name != OVERALL}
    found: dict[str, dict[str, float]] = {}
    for key, value in run.metrics.items():
        kind, _, rest = key.partition("/")
        name, _, metric = rest.rpartition("/")
        if kind == "slice" and name != OVERALL:
            found.setdefault(name, {})[metric] = value
    return found


def _measured(
    values: Sequence[Mapping[str, float]], better: Mapping[str, str], changes: Sequence[Mapping[str, Change]]
) -> list[Measured]:
    names = dict.fromkeys(name for found in values for name in found if name != ROWS)
    return [
        Measured(
            name=name,
            better=better.get(name, ""),
            values=tuple(found.get(name) for found in values),
            changes=tuple(change.get(name) for change in changes),
        )
        for name in names
    ]


def curves_of(store: RunStore, runs: Sequence[Run]) -> list[Curve]:
    """Losses first, then what was measured after each epoch, then the rest of the training."""
    every = dict.fromkeys(name for run in runs for name in run.metrics)
    measured = [name for name in every if name.startswith(("train/", "eval_epoch/")) and not name.endswith("/epoch")]
    bounded = [f"eval_epoch/{name}" for run in runs for name in run.bounded]
    names = [name for name in dict.fromkeys((*_FIRST_CURVES, *bounded, *sorted(measured))) if name in measured]
    curves = [
        Curve(name, tuple(thinned(store.curve(run.run_id, name)) if name in run.metrics else () for run in runs))
        for name in names[:_MAX_CURVES]
    ]
    return [curve for curve in curves if any(curve.points)]


def _count(value: float | None) -> int | None:
    return None if value is None or math.isnan(value) else int(value)


def _run_json(run: Run, shared: Shared | None) -> dict[str, Any]:
    return {
        "run_id": run.run_id,
        "name": run.name,
        "pipeline": run.pipeline,
        "task": run.task,
        "status": run.status,
        "started": run.started,
        "seconds": run.seconds,
        "blessed": run.blessed,
        "pushed_version": run.pushed_version,
        "commit": run.tags.get("git.commit"),
        "shared_rows": shared._asdict() if shared else None,
    }


def _measured_json(measured: Measured) -> dict[str, Any]:
    return {
        "better": measured.better or None,
        "values": [finite(value) for value in measured.values],
        "changes": [
            {name: finite(value) for name, value in change._asdict().items()} if change else None
            for change in measured.changes
        ],
    }


def to_json(comparison: Comparison) -> str:
    return json.dumps(comparison.as_json(), indent=1, allow_nan=False)
