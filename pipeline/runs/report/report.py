"""All that is recorded of one run, as one value."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from bertline.components.evaluator.predictions.rows import FILE_NAME as ROWS
from bertline.components.evaluator.predictions.rows import EvaluationPredictions
from bertline.components.evaluator.verdict import FILE_NAME as VERDICT
from bertline.components.evaluator.verdict import Verdict
from bertline.components.reports.data import VALUES, Data, look
from bertline.components.reports.results import Bounds, Results, results_of
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.runs.compare.comparison import curves_of
from bertline.pipeline.runs.compare.rows import compare_examples
from bertline.pipeline.runs.listing import finite
from bertline.pipeline.runs.report.facts import cost_of, head_of, lineage_of, model_of
from bertline.pipeline.runs.report.studies import study_of
from bertline.pipeline.runs.report.values import Against, Change, Drawn, Report, Section
from bertline.pipeline.runs.store import Run, RunStore

_MAX_DRAWN = 8  # runs of a study, that page.css has colours for
Value = TypeVar("Value")


def newest(store: RunStore, pipeline: str | None = None) -> Run:
    found = store.newest(1, pipeline=pipeline)
    if not found:
        of = f" of {pipeline}" if pipeline else ""
        raise BertlineError(f"no run{of} is recorded yet; `bertline run` creates one.")
    return found[0]


def report_of(store: RunStore, run: Run) -> Report:
    """Reads all that is recorded of a run. Of a study, most of it is that of its best run."""
    parts = store.parts(run.run_id) if "study" in run.tags and not run.parent else []
    study = study_of(run, parts)
    subject = next((part for part in parts if study and part.run_id == study.best), run)
    reading = _Reading(store, subject)
    data = reading.part("data", lambda: _data(reading))
    results = reading.part("results", lambda: _results(reading))
    drawn = parts[:_MAX_DRAWN] or [subject]
    curves = curves_of(store, drawn)
    if not curves:
        reading.note("curves", f"No learning curve is recorded: {_why(subject)}.")
    if len(parts) > _MAX_DRAWN:
        reading.note("curves", f"The first {_MAX_DRAWN} of {len(parts)} runs are drawn.")
    if study and study.best:
        reading.note("run", f"Below, the data, the model and its results are those of {subject.name}, the best of them.")
    elif "study" in run.tags and not run.parent:
        reading.note("run", "No run of this study is recorded as its best: there is nothing to show of a model.")
    # Of several seeds the best one is asked in a server, and the study has what came of it.
    served = reading.json("serve_check.json", "cost") or _Reading(store, run).json("serve_check.json", "cost")
    return Report(
        head=head_of(run),
        study=study,
        data=data,
        model=model_of(subject, reading.json("model.json", "model"), lambda why: reading.note("model", why)),
        results=results,
        against=_against(store, subject, results) if results and results.baseline else None,
        drawn=tuple(Drawn(run_id=each.run_id, name=each.name, cached=each.was_cached) for each in drawn),
        curves={curve.metric: curve.points for curve in curves},
        cost=cost_of(run, subject, served, store, lambda why: reading.note("cost", why)),
        lineage=lineage_of(store, subject),
        notes={section: tuple(sentences) for section, sentences in reading.notes.items()},
    )


class _Reading:
    """Reads the files of a run; what is not there, or cannot be read, becomes a note of its section."""

    def __init__(self, store: RunStore, run: Run) -> None:
        self.store, self.run = store, run
        self.notes: dict[Section, list[str]] = {}

    def note(self, section: Section, sentence: str) -> None:
        self.notes.setdefault(section, []).append(sentence)

    def part(self, section: Section, read: Callable[[], Value | None]) -> Value | None:
        try:
            found = read()
        except (BertlineError, ValueError, LookupError, TypeError) as error:
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            self.note(section, f"The record cannot be read: {reason[:200]}")
            return None
        if found is None:
            self.note(section, f"Nothing is recorded: {_why(self.run)}.")
        return found

    def text(self, name: str) -> str | None:
        return self.store.text(self.run.run_id, name)

    def json(self, name: str, section: Section) -> dict[str, Any] | None:
        text = self.text(name)
        try:
            found = json.loads(text) if text is not None else None
        except ValueError:
            self.note(section, f"{name} of the run cannot be read.")
            return None
        return found if isinstance(found, dict) else None


def _why(run: Run) -> str:
    """Why a run may lack something, in words that end a sentence."""
    at = f" at the step {run.tags['failed_step']}" if "failed_step" in run.tags else ""
    return {
        "running": "the run has not reached it yet",
        "failed": f"the run failed{at}",
        "interrupted": "the run was interrupted",
    }.get(run.status, "it was recorded by an older version, or elsewhere")


def _data(reading: _Reading) -> Data | None:
    if (text := reading.text(VALUES)) is not None:
        return Data.model_validate_json(text)
    # Runs of older versions have the parts that it is made of.
    report = reading.json("data/report.json", "data")
    if report is None:
        return None
    from tensorflow_metadata.proto.v0.statistics_pb2 import DatasetFeatureStatisticsList

    statistics = {}
    for split in report["kept"]:
        if path := reading.store.file(reading.run.run_id, f"data/statistics/{split}.pb"):
            statistics[split] = DatasetFeatureStatisticsList.FromString(path.read_bytes())
    if not statistics:
        reading.note("data", f"The statistics of the examples are not recorded: {_why(reading.run)}.")
    config = reading.json("config.json", "data") or {}
    slices = config.get("evaluation", {}).get("slices", ())
    return look(report, statistics, reading.json("data/anomalies.json", "data"), slices=slices)


def _results(reading: _Reading) -> Results | None:
    text = reading.text(VERDICT)
    if text is None:
        return None
    rows = None
    path = reading.store.file(reading.run.run_id, f"evaluation/{ROWS}")
    try:
        rows = EvaluationPredictions.read(path) if path else None
    except (BertlineError, ValueError, KeyError, OSError):
        reading.note("results", f"The evaluation examples (evaluation/{ROWS}) cannot be read.")
    return results_of(Verdict.from_json(text), rows, _bounds(reading.run.params))


def _bounds(params: Mapping[str, str]) -> Bounds:
    """As the params of the run have them: they are recorded first of all, and by every version."""

    def under(prefix: str) -> dict[str, float]:
        return {key.removeprefix(prefix): float(value) for key, value in params.items() if key.startswith(prefix)}

    return Bounds(
        thresholds=under("evaluation.thresholds."),
        slice_thresholds=under("evaluation.slice_thresholds."),
        min_slice_examples=int(params.get("evaluation.min_slice_examples", 0)),
    )


def _against(store: RunStore, run: Run, results: Results) -> Against:
    """The model that was pushed before; with intervals where the run that trained it is recorded, with its rows."""
    path = str(results.baseline)
    before = store.that_pushed(path)
    if before is None or before.run_id == run.run_id:
        return Against(path=path)
    compared = compare_examples(store, [before, run])
    shared = compared.shared[1]
    changes = {}
    for name, change in compared.changes(None)[1].items():
        better = (change.difference > 0) == (name not in results.less_is_better)
        changes[name] = Change(
            difference=finite(change.difference),
            low=finite(change.low),
            high=finite(change.high),
            verdict=("better" if better else "worse") if change.is_clear else "",
        )
    return Against(path=path, run_id=before.run_id, rows=shared.rows if shared else 0, changes=changes)
