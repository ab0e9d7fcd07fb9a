"""Seeds and searches over a stand-in for the pipeline: what is run, what is taken for collapsed, what is pushed and told.

The same over real lines, with their cache and their record in MLflow, is in tests/e2e/test_study.py.
"""

from __future__ import annotations

import json

import pytest
from lines import ALONE, Line, write_config

import bertline.pipeline.studies.study
from bertline.components.evaluator.verdict import Verdict
from bertline.pipeline.console.summary import Summary
from bertline.pipeline.core import events
from bertline.pipeline.core.errors import TrainingDivergedError

TOO_MUCH = 1.0e38


class StandIn:
    """An engine whose lines come to what their seed and their weight decay say."""

    asked: list[tuple[int, float, bool]] = []
    """Seed, weight decay and whether it was to push, of each run."""

    def __init__(self, config, again_from, part):
        self.record = self
        self._training, self._bound = config.training, config.evaluation.thresholds["cross_entropy"]
        self.summary = Summary(name=config.name, task=config.task, run_id=f"run of {self._training.seed}")
        self.verdict = self.history = None
        self._folder = config.home

    def run(self, push):
        seed, decay = self._training.seed, self._training.weight_decay
        self.asked.append((seed, decay, push))
        events.emit(events.StepStarted("Trainer"))
        if decay >= TOO_MUCH or seed == 13:
            try:
                raise TrainingDivergedError("training: the loss is nan at step 3")
            except TrainingDivergedError as error:
                raise RuntimeError("a step failed") from error  # as it comes out of TFX
        loss = 1 / seed + decay
        metrics = {"cross_entropy": loss, "accuracy": 1 - loss / 2, "rows": 30.0}
        reasons = [] if loss < self._bound else [f"cross_entropy {loss:.4f} is above its threshold"]
        self.verdict = Verdict(
            blessed=not reasons, reasons=reasons, metrics=metrics, slices={}, confusion=[[14, 1], [2, 13]]
        )
        self.history = self._folder / f"history-{seed}.jsonl"
        self.history.write_text("".join(json.dumps({"loss": 2.0 / step}) + "\n" for step in range(1, 31)))
        self.summary.metrics, self.summary.blessed, self.summary.reasons = metrics, not reasons, reasons
        self.summary.steps.append({"name": "Trainer", "cached": False, "reasons": []})
        if push:
            self.summary.pushed_version, self.summary.fresh_push = 1, True


@pytest.fixture
def line(tmp_path, monkeypatch):
    monkeypatch.setattr(bertline.pipeline.studies.study, "LocalEngine", StandIn)
    monkeypatch.setattr(bertline.pipeline.studies.study, "create_pipeline", lambda config, push: push)
    monkeypatch.setattr(StandIn, "asked", [])
    line = Line(tmp_path)
    space = {"training.weight_decay": [0.01, 0.02, TOO_MUCH]}
    search = {"space": space, "trials": 5, "method": "random"}
    write_config(tmp_path, evaluation={"thresholds": {"cross_entropy": 5.0}}, search=search, **ALONE)
    return line


def seeds(line, given, *arguments):
    result = line.run("--set", f"seeds={given}", "--set", "training.weight_decay=0.0", *arguments)
    return result, line.summary


def test_every_seed_is_run_and_only_the_best_is_pushed(line):
    result, summary = seeds(line, [2, 4])
    assert result.exit_code == 0, result.output
    assert StandIn.asked == [(2, 0.0, False), (4, 0.0, False), (4, 0.0, True)]
    assert [(run["seed"], run["pushed"]) for run in summary["seeds"]["runs"]] == [(2, False), (4, True)]
    assert summary["pushed_version"] == 1 and summary["status"] == "succeeded"
    assert summary["seeds"]["spread"]["mean"]["cross_entropy"] == pytest.approx(0.375)
    assert [step["run"] for step in summary["steps"]] == ["seed 2", "seed 4", "push"]
    table = result.output.partition("collapsed")[2].splitlines()
    assert [row.split()[0] for row in table[1:4]] == ["2", "4", "mean"]


def test_a_seed_that_diverges_counts_as_collapsed_and_the_others_go_on(line):
    result, summary = seeds(line, [13, 2])
    assert result.exit_code == 0 and "seed 13 learned nothing: training: the loss is nan at step 3" in result.output
    assert [run["pushed"] for run in summary["seeds"]["runs"]] == [False, True]
    assert summary["seeds"]["spread"]["runs"] == 1


def test_where_no_seed_is_good_enough_nothing_is_pushed(line):
    result, summary = seeds(line, [2, 4], "--set", "evaluation.thresholds={cross_entropy: 0.1}")
    assert result.exit_code == 3 and not any(push for *_, push in StandIn.asked)
    assert summary["pushed_version"] is None and summary["blessed"] is False
    assert [reason.partition(":")[0] for reason in summary["reasons"]] == ["seed 2", "seed 4"]


def test_where_no_seed_comes_to_an_end_the_run_fails(line):
    result, summary = seeds(line, [13])
    assert result.exit_code == 1 and "every seed failed. Seed 13: training: the loss is nan" in result.output
    assert summary["status"] == "failed" and summary["failed_step"] == "Trainer"


def test_a_search_ranks_its_trials_pushes_nothing_and_writes_a_config_of_the_best(line):
    result = line.call("search", str(line.config), "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.output)
    assert [trial["settings"]["training.weight_decay"] for trial in report["trials"]] == [0.01, 0.02, TOO_MUCH]
    best, worse, failed = report["trials"]
    assert best["value"] < worse["value"] and report["better"] == "lower"
    assert failed["value"] is None and "the loss is nan" in failed["error"]
    assert sorted(decay for _, decay, _ in StandIn.asked) == [0.01, 0.02, TOO_MUCH]
    assert not any(push for *_, push in StandIn.asked) and not (line.workspace / "summary.json").exists()
    *_, command, path = report["command"].split()
    assert command == "run" and path == report["config_file"]
    assert line.call("run", path, "--set", "seeds=[4]").exit_code == 0
    assert StandIn.asked[-1] == (4, 0.01, True)


def test_a_metric_that_the_task_does_not_have_is_refused(line):
    result = line.call("search", str(line.config), "--set", "search.metric=acuracy")
    assert result.exit_code == 1 and "did you mean accuracy?" in result.output
