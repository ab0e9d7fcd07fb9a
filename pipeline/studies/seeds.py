"""`seeds: [1, 2, 3]`: the pipeline once for each seed, how far the results lie apart, and a push of the best one.

One training says little about its settings: with other initial weights and another order of the rows the same settings
end elsewhere, on small data by several points. Nothing is pushed before every seed was judged by the same baseline.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from bertline.components.evaluator.verdict import ROWS
from bertline.components.pusher.executor import latest, pushed_by
from bertline.components.steps import Step
from bertline.components.tracking.backend.models import champion
from bertline.models.tasks.base.task import get_task
from bertline.pipeline.config import Config
from bertline.pipeline.console.session import Stage
from bertline.pipeline.console.summary import Summary
from bertline.pipeline.core.errors import BertlineError, TrainingDivergedError, cause_of
from bertline.pipeline.core.json_numbers import defined, without_nan
from bertline.pipeline.studies.collapse import Evidence, find_collapsed
from bertline.pipeline.studies.seed_report import SeedReport, SeedRun, best_of, make_report
from bertline.pipeline.studies.study import Outcome, Study

_OF_EACH_SEED = (Step.TRAINER, Step.EVALUATOR)
"""Steps that every seed has for itself; those before them are run for the first one, and the others take their results."""
_OF_THE_BEST = (Step.SERVE_CHECK, Step.PUSHER)


def run_seeds(config: Config, at: Stage, again_from: str | None = None) -> Summary:
    """Trains and judges the pipeline with every seed, pushes the best that is blessed, and tells how far they lie apart."""
    study = Study(config, "seeds")
    study.summary.log = str(at.log)
    try:
        with study.recorded():
            _run(config, study, at, again_from)
    finally:
        if study.has_begun:
            study.summary.write(config)
    return study.summary


def with_seed(config: Config, seed: int) -> Config:
    """The config of a single run, the same as with `training.seed` in the file: both share their cache."""
    training = config.training.model_copy(update={"seed": seed})
    return config.model_copy(update={"seeds": (), "training": training})


def _run(config: Config, study: Study, at: Stage, again_from: str | None) -> None:
    metric = next(iter(config.evaluation.thresholds))
    better = get_task(config.task).evaluation.metrics[metric].better
    runs, evidence, summaries = [], {}, {}
    for number, seed in enumerate(config.seeds):
        at.console.print(f"[bold]seed {seed}[/]  ({number + 1} of {len(config.seeds)})")
        again = again_from if again_from in _OF_EACH_SEED or (number == 0 and again_from not in _OF_THE_BEST) else None
        try:
            outcome = study.run(with_seed(config, seed), f"seed {seed}", {"seed": str(seed)}, again_from=again)
        except Exception as error:
            if not (diverged := cause_of(error, TrainingDivergedError)):
                raise
            at.console.print(f"  [red]✗[/] {diverged}")
            evidence[seed] = Evidence(broke_off=str(diverged))
            broken = study.last or study.summary
            runs.append(
                SeedRun(seed=seed, reasons=[str(diverged)], run_id=broken.run_id, mlflow_run_id=broken.mlflow_run_id)
            )
        else:
            evidence[seed] = _evidence(outcome, metric)
            runs.append(_seed_run(seed, outcome))
            summaries[seed] = outcome.summary
    for seed, reasons in find_collapsed(evidence, metric, better).items():
        runs[config.seeds.index(seed)].collapsed = reasons
    report, best = make_report(metric, runs), best_of(runs, metric, better)
    if best is None:
        raise BertlineError(f"every seed failed. Seed {runs[0].seed}: {runs[0].reasons[0]}")
    summary = summaries[best.seed]
    if best.blessed:
        at.console.print(f"[bold]the best, seed {best.seed}[/]")
        summary = _push(config, best, study, again_from if again_from in _OF_THE_BEST else None)
    _take_over(summary, best, report, study)
    _record(report, best, study)


def _seed_run(seed: int, outcome: Outcome) -> SeedRun:
    summary = outcome.summary
    return SeedRun(
        seed=seed,
        metrics={name: value for name, value in summary.metrics.items() if name != ROWS},
        blessed=bool(summary.blessed),
        reasons=summary.reasons,
        run_id=summary.run_id,
        mlflow_run_id=summary.mlflow_run_id,
    )


def _evidence(outcome: Outcome, metric: str) -> Evidence:
    verdict = outcome.verdict
    return Evidence(losses=outcome.losses, value=verdict.metrics[metric], confusion=verdict.confusion)


def _push(config: Config, best: SeedRun, study: Study, again_from: str | None) -> Summary:
    """Runs the line of the best seed once more, where only ServeCheck and the Pusher are new. MLflow has that run."""
    untracked = config.tracking.model_copy(update={"enabled": False})
    once_more = with_seed(config, best.seed).model_copy(update={"tracking": untracked})
    with pushed_by(best.mlflow_run_id):
        summary = study.run(once_more, "push", {}, again_from=again_from, push=True).summary
    best.pushed = summary.pushed_version is not None
    study.tracker.tag_part(best.run_id, summary.pushed_tags())
    study.tags |= summary.pushed_tags()
    if summary.serve_check:
        study.tracker.keep("serve_check.json", json.dumps(summary.serve_check, indent=1))
    if newest := latest(config.push_path):
        study.tracker.register(lambda: champion(config.name, newest), run=best.run_id)
    return summary


def _take_over(best: Summary, run: SeedRun, report: SeedReport, study: Study) -> None:
    """The study's summary is that of its best run, but for what all have done together."""
    own = study.summary
    reasons = (
        best.reasons if run.blessed else [f"seed {other.seed}: {why}" for other in report.runs for why in other.reasons]
    )
    study.summary = replace(best, reasons=reasons, seeds=asdict(report), steps=own.steps, log=own.log)


def _record(report: SeedReport, best: SeedRun, study: Study) -> None:
    tracker, sound = study.tracker, report.without_collapsed
    tracker.measure({**_under("mean", report.spread.mean), **_under("std", report.spread.std)})
    if sound:
        tracker.measure(_under("mean_without_collapsed", sound.mean))
        tracker.measure(_under("std_without_collapsed", sound.std))
    for run in report.runs:
        tracker.measure(_under(f"seed_{run.seed}", defined(run.metrics)))
        tracker.tag_part(run.run_id, {"collapsed": "; ".join(run.collapsed) or "no"})
    tracker.measure({"collapsed": len(report.collapsed)})
    tracker.keep("seeds.json", json.dumps(without_nan(asdict(report)), indent=1))
    study.tags |= {
        "best_seed": str(best.seed),
        "blessed": str(study.summary.blessed).lower(),
        "reasons": "; ".join(study.summary.reasons) or "none",
        "collapsed_seeds": ", ".join(map(str, report.collapsed)) or "none",
    }


def _under(prefix: str, values: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{prefix}/{name}": value for name, value in values.items()}
