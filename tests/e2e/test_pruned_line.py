"""`bertline prune` on what a line has pushed: its evaluation examples, a smaller model, the next version, and the
record."""

from __future__ import annotations

import json
import shutil

import pytest
from click.testing import CliRunner
from lines import Line
from mlflow.tracking import MlflowClient

from bertline.components.pusher.executor import model_digest, pushed_versions
from bertline.pipeline.cli import main
from bertline.pipeline.prune.heads import Request, prune


@pytest.fixture(scope="module")
def line(finished_line, tmp_path_factory):
    """A copy of one that has run, which may be changed."""
    copy = Line(tmp_path_factory.mktemp("pruned"))
    for name in ("models", "mlflow.db", "pipelines/tiny/metadata.db"):
        path = finished_line.workspace / name
        (copy.workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if path.is_dir() else shutil.copyfile)(path, copy.workspace / name)
    told = (finished_line.workspace / "summary.json").read_text()
    (copy.workspace / "summary.json").write_text(told.replace(str(finished_line.workspace), str(copy.workspace)))
    return copy


@pytest.fixture(scope="module")
def report(line):
    before = model_digest(line.workspace / "models" / "tiny" / "1")
    arguments = ("--keep", "0.5", "--by", "ablation", "--by", "gradient", "--push", "--max-drop", "1", "--json")
    done = line.call("prune", "tiny", *arguments)
    assert done.exit_code == 0, done.output
    assert model_digest(line.workspace / "models" / "tiny" / "1") == before, "the original stays as it is"
    return json.loads(done.output)


def test_the_heads_are_judged_by_the_rows_that_the_evaluator_had(report, line):
    assert report["rows"] == line.summary["rows"]["eval"] and report["metric"] == "accuracy"
    measured = {name: values["original"] for name, values in report["compared"]["metrics"].items()}
    assert measured == pytest.approx({name: line.summary["metrics"][name] for name in measured}, abs=1e-5)
    assert set(report["importance"]) == {"ablation", "gradient"}
    assert [len(row) for row in report["importance"]["ablation"]] == [2]
    assert report["heads_before"] == 2 and report["heads_after"] == 1 and len(report["lost"]["0"]) == 1
    assert report["curve"][-1]["value"] == pytest.approx(measured["accuracy"], abs=1e-6)


def test_the_pruned_model_is_the_next_version_and_says_what_it_is(report, line):
    original, pruned = pushed_versions(line.workspace / "models" / "tiny")
    assert (
        report["pushed_version"] == pruned.version == 2
        and pruned.metadata["pruned"]["digest"] == original.metadata["digest"]
    )
    assert pruned.metadata["mlflow_run_id"] == report["mlflow_run_id"] and pruned.metadata["pipeline"] == "tiny"
    assert model_digest(report["folder"]) == pruned.metadata["digest"]
    answer = CliRunner().invoke(main, ["predict", "--model", str(pruned.path), "a wonderful film"])
    assert answer.exit_code == 0 and answer.output.split()[0] in ("good", "bad")


def test_sizes_speed_and_metrics_stand_in_mlflow_under_the_run_that_made_the_model(report, line):
    client = MlflowClient(f"sqlite:///{line.workspace}/mlflow.db")
    run = client.get_run(report["mlflow_run_id"])
    assert run.info.status == "FINISHED" and run.data.tags["mlflow.parentRunId"] == line.summary["mlflow_run_id"]
    assert run.data.params["by"] == "ablation, gradient" and run.data.params["digest"] == report["digest"]
    found, compared = run.data.metrics, report["compared"]
    for what in ("parameters", "bytes", "rows_per_second"):
        assert (
            found[f"original/{what}"] == compared[what]["original"] and found[f"pruned/{what}"] == compared[what]["pruned"]
        )
    assert found["pruned/parameters"] < found["original/parameters"] and found["pruned/speed"] == compared["speed"]
    assert found["eval/accuracy"] == compared["metrics"]["accuracy"]["pruned"]
    assert found["original/accuracy"] == compared["metrics"]["accuracy"]["original"]
    artifacts = {file.path for file in client.list_artifacts(run.info.run_id)}
    assert {"prune.json", "head_importance.png", "heads_kept.png"} <= artifacts
    assert (
        client.get_registered_model("tiny").aliases["champion"] != client.get_registered_model("tiny").aliases["candidate"]
    )


def test_a_look_at_other_rows_removes_nothing(report, line, finished_line):
    done = line.call("prune", "tiny", "--look", "--data", str(finished_line.folder / "reviews.csv"), "--rows", "40")
    assert done.exit_code == 0, done.output
    assert "Importance of each head, by gradient" in done.output and "40 evaluation examples" in done.output
    assert "accuracy by heads kept" in done.output and "The original and the pruned model" not in done.output
    assert len(pushed_versions(line.workspace / "models" / "tiny")) == 2


def test_what_is_too_much_worse_is_not_pushed(report, line):
    found = prune(
        Request(
            model=str(line.workspace / "models" / "tiny" / "1"), heads=1, push=True, max_drop=-1, out=str(line.folder / "x")
        )
    )
    assert found.pushed_version is None and "(--max-drop)" in found.refused[0]
    assert len(pushed_versions(line.workspace / "models" / "tiny")) == 2


def told(*arguments):
    done = CliRunner().invoke(main, ["prune", *arguments])
    assert done.exit_code == 1
    return done.output


def test_a_mistake_is_told_at_once(tmp_path):
    assert "no run in" in told("--workspace", str(tmp_path)) and "nor has a pipeline of that name" in told("nobody")
    assert "above 0 and below 1. Received: 36" in told("x", "--keep", "36")
    assert "give one of them" in told("x", "--keep", "0.5", "--heads", "3")
    assert "--look removes nothing" in told("x", "--look", "--push")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "saved_model.pb").touch()
    assert "is not a numbered version" in told(str(tmp_path / "model"), "--push")
    assert "already exists; name another folder" in told(str(tmp_path / "model"), "--out", str(tmp_path))
