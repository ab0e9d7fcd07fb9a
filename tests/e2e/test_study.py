"""Several runs of one line: what differs is done again, the rest once; MLflow holds them together."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from lines import Line, write_config
from mlflow.tracking import MlflowClient

from bertline.components.pusher.executor import model_digest
from bertline.pipeline.core import events
from bertline.pipeline.core.errors import TrainingDivergedError
from bertline.pipeline.studies.study import Study

pytestmark = pytest.mark.full

DATA_STEPS = ("Ingest", "StatisticsGen", "Schema", "ExampleValidator", "Vocabulary", "Transform")
SEEDS = ("--set", "seeds=[42, 7]")
SPACE = {"training.weight_decay": [0.01, 0.02, 1.0e38]}  # the last one makes every weight infinite at the first step


def versions(line):
    folder = line.workspace / "models" / "tiny"
    return sorted(path.name for path in folder.iterdir() if path.name.isdigit()) if folder.exists() else []


def parent_and_children(line, run_id):
    """The runs under a run, in the order in which they began."""
    client = MlflowClient(f"sqlite:///{line.workspace}/mlflow.db")
    parent = client.get_run(run_id)
    children = client.search_runs(
        [parent.info.experiment_id], f"tags.mlflow.parentRunId = '{run_id}'", order_by=["attributes.start_time ASC"]
    )
    return parent, children


def parents(line, kind):
    """The studies of a kind, the oldest first."""
    client = MlflowClient(f"sqlite:///{line.workspace}/mlflow.db")
    experiment = client.get_experiment_by_name("tiny").experiment_id
    runs = client.search_runs([experiment], f"tags.study = '{kind}'", order_by=["attributes.start_time ASC"])
    return [run for run in runs if "mlflow.parentRunId" not in run.data.tags]


@pytest.fixture(scope="module")
def seeds(tmp_path_factory):
    """A study of two seeds that was interrupted before its second training, and gone on with by the same command."""
    line = Line(tmp_path_factory.mktemp("study"))
    write_config(
        line.folder,
        training={"epochs": 3},
        evaluation={"thresholds": {"cross_entropy": 5.0}, "max_drop": 0.9, "slices": []},
        search={"space": SPACE, "trials": 5, "method": "random"},
    )
    trainings = []

    def interrupt(event):
        if event == events.StepStarted("Trainer"):
            trainings.append(event)
            if len(trainings) == 2:
                raise KeyboardInterrupt

    with events.listening(interrupt):
        interrupted = line.run(*SEEDS)
    summary, pushed = line.summary, versions(line)
    parent, children = parent_and_children(line, summary["mlflow_run_id"])
    finished = line.run(*SEEDS)
    return SimpleNamespace(
        line=line,
        interrupted=SimpleNamespace(
            outcome=interrupted, summary=summary, versions=pushed, parent=parent, children=children
        ),
        outcome=finished,
        summary=line.summary,
        versions=versions(line),
    )


def test_an_interrupted_study_has_pushed_nothing_and_says_so(seeds):
    assert seeds.interrupted.outcome.exit_code == 130 and seeds.interrupted.versions == []
    assert seeds.interrupted.summary["status"] == "interrupted"
    parent, children = seeds.interrupted.parent, seeds.interrupted.children
    assert parent.info.status == "KILLED"
    assert [(child.data.tags["seed"], child.info.status) for child in children] == [("42", "FINISHED"), ("7", "KILLED")]
    assert all(children[0].data.tags[f"step.{step}"] == "run" for step in DATA_STEPS)
    assert all(children[1].data.tags[f"step.{step}"] == "cached" for step in DATA_STEPS)


def test_the_same_command_goes_on_and_trains_only_what_is_left(seeds):
    assert seeds.outcome.exit_code == 0, seeds.outcome.output
    done = [(step["run"], step["name"]) for step in seeds.summary["steps"] if not step["cached"]]
    assert done == [("seed 7", "Trainer"), ("seed 7", "Evaluator"), ("push", "ServeCheck"), ("push", "Pusher")]


def test_the_record_goes_on_too_and_has_nothing_twice(seeds):
    assert seeds.summary["mlflow_run_id"] == seeds.interrupted.summary["mlflow_run_id"]
    parent, children = parent_and_children(seeds.line, seeds.summary["mlflow_run_id"])
    assert [run.info.status for run in (parent, *children)] == ["FINISHED"] * 3
    assert [run.info.run_id for run in children] == [run.info.run_id for run in seeds.interrupted.children]


def test_mlflow_holds_the_seeds_under_one_run_with_mean_and_deviation(seeds):
    parent, children = parent_and_children(seeds.line, seeds.summary["mlflow_run_id"])
    assert parent.info.status == "FINISHED" and parent.data.params["seeds"] == "[42, 7]"
    assert [child.data.tags["seed"] for child in children] == ["42", "7"]
    assert [child.data.params["training.seed"] for child in children] == ["42", "7"]
    for metric in ("accuracy", "cross_entropy", "matthews"):
        values = [child.data.metrics[f"eval/{metric}"] for child in children]
        assert parent.data.metrics[f"mean/{metric}"] == pytest.approx(np.mean(values))
        assert parent.data.metrics[f"std/{metric}"] == pytest.approx(np.std(values, ddof=1))
        assert parent.data.metrics[f"seed_7/{metric}"] == pytest.approx(values[1])
    assert seeds.summary["seeds"]["spread"]["mean"]["accuracy"] == pytest.approx(parent.data.metrics["mean/accuracy"])
    assert children[0].data.metrics["eval/cross_entropy"] != children[1].data.metrics["eval/cross_entropy"]


def best_and_other(seeds):
    runs = sorted(seeds.summary["seeds"]["runs"], key=lambda run: run["metrics"]["cross_entropy"])
    return [run["seed"] for run in runs]


def test_only_the_best_seed_is_pushed(seeds):
    best, _ = best_and_other(seeds)
    assert seeds.versions == ["1"] and seeds.summary["blessed"] and seeds.summary["fresh_push"]
    assert [run["seed"] for run in seeds.summary["seeds"]["runs"] if run["pushed"]] == [best]
    parent, children = parent_and_children(seeds.line, seeds.summary["mlflow_run_id"])
    assert parent.data.tags["best_seed"] == str(best) and parent.data.tags["pushed_version"] == "1"
    assert {child.data.tags["seed"]: child.data.tags["pushed_version"] for child in children} == {
        str(seed): "1" if seed == best else "none" for seed in (42, 7)
    }
    assert parent.data.tags["pushed_digest"] == model_digest(seeds.summary["pushed_path"])


def test_the_report_of_a_study_has_its_seeds_and_is_about_the_best(seeds):
    told = seeds.line.call("report", seeds.summary["mlflow_run_id"], "--json")
    found = json.JSONDecoder().raw_decode(told.output)[0]
    best, _ = best_and_other(seeds)
    _, children = parent_and_children(seeds.line, seeds.summary["mlflow_run_id"])
    assert [part["title"] for part in found["study"]["parts"]] == ["seed 42", "seed 7"]
    assert found["study"]["best"] == next(run.info.run_id for run in children if run.data.tags["seed"] == str(best))
    assert found["head"]["pushed_version"] == "1" and found["study"]["mean"] == pytest.approx(
        seeds.summary["seeds"]["spread"]["mean"]
    )
    assert len(found["curves"]["train/loss"]) == 2 and found["data"]["judged"] == "accepted"
    assert found["cost"]["served"]["blessed"]  # which only the best one was asked for


def test_the_console_ends_with_a_line_a_seed_and_the_mean(seeds):
    spread = seeds.summary["seeds"]["spread"]
    table = seeds.outcome.output.partition("collapsed")[2].splitlines()
    assert [line.split()[0] for line in table[1:4]] == ["42", "7", "mean"]
    assert f"{spread['mean']['accuracy']:.4f} ± {spread['std']['accuracy']:.4f}" in table[3]


def test_the_same_command_again_trains_and_pushes_nothing(seeds):
    again = seeds.line.run(*SEEDS, "--json")
    printed = json.loads(again.output)
    assert again.exit_code == 0 and all(step["cached"] for step in printed["steps"]) and versions(seeds.line) == ["1"]
    values = [[run["metrics"] for run in summary["seeds"]["runs"]] for summary in (printed, seeds.summary)]
    assert values[0] == values[1] and printed["seeds"]["spread"] == seeds.summary["seeds"]["spread"]


def test_a_single_run_takes_the_training_of_its_seed_from_the_study(seeds):
    best, other = best_and_other(seeds)
    assert seeds.line.run("--set", f"training.seed={best}").exit_code == 0
    assert seeds.line.steps_run() == [] and seeds.line.summary["pushed_version"] == 1
    assert seeds.line.run("--set", f"training.seed={other}").exit_code == 0
    assert seeds.line.steps_run() == ["ServeCheck", "Pusher"] and seeds.line.summary["pushed_version"] == 2


def test_a_seed_that_diverges_counts_as_collapsed_and_the_others_go_on(seeds, monkeypatch):
    run = Study.run

    def diverging(study, config, title, tags, **options):
        if title == "seed 42":
            try:
                raise TrainingDivergedError("training: the loss is nan at step 3")
            except TrainingDivergedError as error:
                raise RuntimeError("a step failed") from error  # as it comes out of TFX
        return run(study, config, title, tags, **options)

    monkeypatch.setattr(Study, "run", diverging)
    result = seeds.line.run(*SEEDS)
    assert result.exit_code == 0 and "seed 42 learned nothing: training: the loss is nan at step 3" in result.output
    told = seeds.line.summary["seeds"]
    assert [run["pushed"] for run in told["runs"]] == [False, True] and told["runs"][0]["metrics"] == {}
    assert told["spread"]["runs"] == 1
    parent, _ = parent_and_children(seeds.line, seeds.line.summary["mlflow_run_id"])
    assert "42" in parent.data.tags["collapsed_seeds"].split(", ") and "std/accuracy" not in parent.data.metrics


def test_where_every_seed_is_refused_nothing_is_pushed(seeds):
    before = versions(seeds.line)
    result = seeds.line.run(*SEEDS, "--set", "evaluation.thresholds={cross_entropy: 0}")
    assert result.exit_code == 3 and versions(seeds.line) == before
    summary = seeds.line.summary
    assert summary["blessed"] is False and summary["pushed_version"] is None and summary["status"] == "succeeded"
    assert [reason.partition(":")[0] for reason in summary["reasons"]] == ["seed 42", "seed 7"]
    assert {step["name"] for step in summary["steps"] if not step["cached"]} == {"Evaluator"}


def test_seeds_whose_loss_is_not_finite_are_told(seeds):
    result = seeds.line.run("--set", "seeds=[1, 2]", "--set", "training.weight_decay=1.0e+38")
    assert result.exit_code == 1 and "every seed failed. Seed 1: training: the loss is" in result.output
    assert seeds.line.summary["status"] == "failed"
    parent = parents(seeds.line, "seeds")[-1]
    assert parent.info.status == "FAILED"
    _, children = parent_and_children(seeds.line, parent.info.run_id)
    assert [child.info.status for child in children] == ["FAILED", "FAILED"]  # the first did not stop the second


@pytest.fixture(scope="module")
def found(seeds):
    """A search of three trials, one of which cannot succeed, beside the seeds."""
    line = seeds.line
    before = line.summary, versions(line)
    result = line.call("search", str(line.config), "--json")
    assert result.exit_code == 0, result.output
    return SimpleNamespace(line=line, before=before, report=json.loads(result.output))


def test_a_search_ranks_its_trials_and_goes_on_after_one_that_failed(found):
    trials = found.report["trials"]
    assert [sorted(trial["settings"]) for trial in trials] == [["training.weight_decay"]] * 3
    good, worse, failed = trials
    assert good["value"] <= worse["value"] and found.report["better"] == "lower"  # cross-entropy
    assert failed["settings"]["training.weight_decay"] == 1.0e38 and failed["value"] is None
    assert "the loss is" in failed["error"]


def test_mlflow_holds_the_trials_under_one_run(found):
    parent, children = parent_and_children(found.line, found.report["mlflow_run_id"])
    best = found.report["trials"][0]
    assert parent.info.status == "FINISHED" and parent.data.tags["best_trial"] == str(best["number"])
    assert parent.data.metrics["best/cross_entropy"] == pytest.approx(best["value"])
    assert [child.data.tags["trial"] for child in children] == ["1", "2", "3"]
    ended = {child.data.params["training.weight_decay"]: child.info.status for child in children}
    assert ended == {"0.01": "FINISHED", "0.02": "FINISHED", "1e+38": "FAILED"}
    for child in children:
        assert {child.data.tags[f"step.{step}"] for step in DATA_STEPS} == {"cached"}


def test_a_search_pushes_nothing_and_leaves_the_last_runs_summary(found):
    assert (found.line.summary, versions(found.line)) == found.before


def test_the_command_that_a_search_prints_trains_with_the_best_settings(found):
    *_, command, path = found.report["command"].split()
    assert command == "run" and path == found.report["config_file"]
    assert found.line.call("run", path).exit_code == 0
    assert set(found.line.steps_run()) <= {"ServeCheck", "Pusher"}  # the trial has done the rest
    assert found.line.summary["metrics"]["cross_entropy"] == pytest.approx(found.report["trials"][0]["value"])


def test_a_search_that_is_given_again_takes_its_trainings_from_the_cache(found):
    again = found.line.call("search", str(found.line.config))
    assert again.exit_code == 0 and found.report["command"] in again.output and "biased upwards" in again.output
    _, children = parent_and_children(found.line, parents(found.line, "search")[-1].info.run_id)
    trained = [child.data.tags.get("step.Trainer") for child in children]
    assert sorted(trained, key=str) == [None, "cached", "cached"]


def test_a_metric_that_the_task_does_not_have_is_refused(found):
    result = found.line.call("search", str(found.line.config), "--set", "search.metric=acuracy")
    assert result.exit_code == 1 and "did you mean accuracy?" in result.output
