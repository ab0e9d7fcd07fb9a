"""`bertline search`: the pipeline once for each of several settings, compared by one metric. Nothing is pushed.

Each trial is a run of the pipeline, whose steps before the first searched setting come from the cache. The best settings
are written as a config of their own, beside the report.
"""

from __future__ import annotations

import json
import math
import os
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import yaml

from bertline.components.steps import Step
from bertline.pipeline.config import Config, nearest
from bertline.pipeline.console.session import Stage, stage
from bertline.pipeline.core.errors import BertlineError, cause_of
from bertline.pipeline.core.json_numbers import defined, without_nan
from bertline.pipeline.core.paths import from_here, program
from bertline.pipeline.settings.loader import load, written
from bertline.pipeline.studies.search_space import combinations, overrides_of

HONESTY = (
    "The evaluation examples selected these settings, so metrics on them are biased upwards, the more so the more trials."
    " A test set (data.test) measures them without bias."
)
_OF_THE_TRIAL = (Step.TRAINER, Step.EVALUATOR)
"""Steps whose failure is the fault of the settings. Before them it is that of the data, and the same in every trial."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Settings that were tried, and what they got."""

    number: int
    settings: dict[str, Any]
    value: float | None = None
    """The metric that is searched by; none for a trial that failed."""
    metrics: dict[str, float] = field(default_factory=dict)
    blessed: bool = False
    error: str | None = None
    mlflow_run_id: str | None = None


@dataclass(kw_only=True)
class SearchReport:
    """What `--json` prints, and what stands in the workspace."""

    name: str
    metric: str
    better: Literal["higher", "lower"]
    method: str
    trials: list[Trial] = field(default_factory=list)
    """The best first, those that failed last."""
    config_file: str = ""
    """The config with the best settings."""
    command: str = ""
    """What trains with them."""
    caution: str = HONESTY
    mlflow_run_id: str | None = None
    mlflow_uri: str | None = None
    tracking_problem: str | None = None
    seconds: float = 0.0
    log: str | None = None


@dataclass(frozen=True)
class Request:
    """What the user has asked for: a config as it is read anew, with other settings, for every trial."""

    source: str
    overrides: Sequence[str] = ()
    workspace: str | None = None

    def config(self, settings: dict[str, Any] | None = None) -> Config:
        # Read anew, and not changed where it is: other settings may follow from these, as sizes from model.size.
        return load(self.source, [*self.overrides, *overrides_of(settings or {})], workspace=self.workspace)

    def as_written(self, settings: dict[str, Any]) -> dict[str, Any]:
        found = written(self.source, [*self.overrides, *overrides_of(settings)], workspace=self.workspace)
        return {key: value for key, value in found.items() if key != "search"}


def run_search(request: Request, *, as_json: bool = False) -> SearchReport:
    """Tries settings, and tells which are the best."""
    config = request.config()
    if not config.search.space:
        raise BertlineError(
            f"{request.source}: search.space is empty; name the settings to search for, with their values, for example"
            " search: {space: {training.epochs: [2, 3, 4]}}."
        )
    with stage(config, as_json=as_json) as at:
        report = _search(request, config, at)
        if as_json:
            at.print_json(asdict(report))
        else:
            from bertline.pipeline.studies.tables import show_search

            show_search(at.console, report)
    return report


def _search(request: Request, config: Config, at: Stage) -> SearchReport:
    with at.working() as display:
        with display.waiting("loading TensorFlow and TFX"):
            from bertline.pipeline.studies.proposals import Proposals
            from bertline.pipeline.studies.study import Study
        report = _empty_report(config)
        trials = int(min(config.search.trials, combinations(config.search.space)))
        proposals = Proposals(
            config.search.space,
            method=config.search.method,
            trials=trials,
            better=report.better,
            seed=config.training.seed,
        )
        study = Study(config, "search")
        with study.recorded():
            while (settings := proposals.next()) is not None:
                number = len(report.trials) + 1
                at.console.print(f"[bold]trial {number} of {trials}[/]  {shown(settings)}")
                trial = _known(settings, number, report.trials) or _try(request, settings, number, report.metric, study, at)
                report.trials.append(trial)
                proposals.learn(trial.value)
            _finish(report, request, config, study)
        report.mlflow_run_id, report.mlflow_uri = study.summary.mlflow_run_id, study.summary.mlflow_uri
        report.tracking_problem, report.seconds = study.summary.tracking_problem, study.summary.seconds
        report.log = str(at.log)
        (config.search_path / "report.json").write_text(json.dumps(without_nan(asdict(report)), indent=1) + "\n")
        return report


def _empty_report(config: Config) -> SearchReport:
    from bertline.models.tasks.base.task import get_task

    metrics = get_task(config.task).evaluation.metrics
    metric = config.search.metric or next(iter(config.evaluation.thresholds))
    if metric not in metrics:
        known = list(metrics)
        raise BertlineError(
            f"search.metric: the task {config.task} has no metric {metric!r}{nearest(metric, known)}; it has"
            f" {', '.join(known)}."
        )
    return SearchReport(name=config.name, metric=metric, better=metrics[metric].better, method=config.search.method)


def _known(settings: dict[str, Any], number: int, before: Sequence[Trial]) -> Trial | None:
    """The trial that had the same settings: an oracle may propose its favourite again."""
    same = next((trial for trial in before if trial.settings == settings), None)
    return Trial(**{**asdict(same), "number": number}) if same else None


def _try(request: Request, settings: dict[str, Any], number: int, metric: str, study: Any, at: Stage) -> Trial:
    def failed(error: Exception, mlflow_run_id: str | None = None) -> Trial:
        reason = str(cause_of(error, BertlineError) or f"{type(error).__name__}: {error}").strip()
        at.console.print(f"  [red]✗ failed[/]: {reason.splitlines()[0][:300]}")
        return Trial(number=number, settings=settings, error=reason[:2000], mlflow_run_id=mlflow_run_id)

    try:
        # Seeds are for the settings that were found: here each trial has the same one.
        config = request.config(settings).model_copy(update={"seeds": ()})
    except BertlineError as error:  # each setting is right, but they do not go together
        return failed(error)
    tags = {"trial": str(number), **{f"trial.{name}": str(value) for name, value in settings.items()}}
    try:
        outcome = study.run(config, f"trial {number}", tags)
    except Exception as error:
        if study.step not in _OF_THE_TRIAL:
            raise
        return failed(error, study.last and study.last.mlflow_run_id)
    summary, value = outcome.summary, outcome.verdict.metrics.get(metric, math.nan)
    if not math.isfinite(value):
        return failed(BertlineError(f"{metric} is {value} on the evaluation examples"), summary.mlflow_run_id)
    return Trial(
        number=number,
        settings=settings,
        value=value,
        metrics=summary.metrics,
        blessed=bool(summary.blessed),
        mlflow_run_id=summary.mlflow_run_id,
    )


def ranked(trials: Sequence[Trial], better: str) -> list[Trial]:
    """The best first, those that failed last."""
    sign = -1 if better == "higher" else 1
    return sorted(trials, key=lambda trial: math.inf if trial.value is None else sign * trial.value)


def _finish(report: SearchReport, request: Request, config: Config, study: Any) -> None:
    report.trials = ranked(report.trials, report.better)
    best = report.trials[0]
    failed = sum(trial.value is None for trial in report.trials)
    study.tags |= {"trials": str(len(report.trials)), "failed_trials": str(failed)}
    study.tracker.keep("search.json", json.dumps(without_nan(asdict(report)), indent=1))
    if best.value is None:
        raise BertlineError(f"none of {failed} trials succeeded. The first: {best.error}")
    text = best_config(report, request.as_written(best.settings))
    path = config.search_path / "best.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".part")
    unfinished.write_text(text, encoding="utf-8")
    os.replace(unfinished, path)
    report.config_file = str(path)
    report.command = f"{program('bertline')} run {shlex.quote(from_here(path))}"
    study.tracker.keep("best.yaml", text)
    study.tracker.measure({f"best/{name}": value for name, value in defined(best.metrics).items()})
    study.tags |= {"best_trial": str(best.number), "best_settings": shown(best.settings)}


def best_config(report: SearchReport, settings: dict[str, Any]) -> str:
    """The text of a config file, with a word on where it comes from."""
    best = report.trials[0]
    found = f"The best of {len(report.trials)} trials: {report.metric} {best.value:.4f} with {shown(best.settings)}."
    comments = "".join(f"# {line}\n" for line in (found, HONESTY))
    return comments + yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)


def shown(settings: dict[str, Any]) -> str:
    """
    >>> shown({"training.epochs": 2, "training.learning_rate": 5e-05})
    'training.epochs=2 training.learning_rate=5e-05'
    """
    return " ".join(f"{name}={value}" for name, value in settings.items())
