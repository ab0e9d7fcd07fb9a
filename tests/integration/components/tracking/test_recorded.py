"""What a run leaves in MLflow: everything, once, and readable, however odd its names and values are."""

import json
import math

import pytest
from mlflow import MlflowClient
from recording import VERDICT, config_in, epoch, evaluation, history, only_run_of, send, step, tracked

from bertline.components.tracking.backend.names import valid_name
from bertline.components.tracking.journal import journals
from bertline.components.tracking.tracker import Part, Tracker
from bertline.models.training.loop import StepRecord
from bertline.pipeline.core import events


def test_a_run_is_recorded_whole(config, tmp_path):
    tracker = tracked(config)
    tracker.log_data({"kept": {"train": 90, "eval": 10}, "digests": {"train": "a1", "eval": "b2"}, "files": ["/data/r.csv"],
                      "quarantined": 3, "excluded": 0})  # fmt: skip
    tracker.hear(events.StepStarted("Trainer"))
    for number in range(1, 10):
        tracker.hear(step(number))
    tracker.hear(epoch(9))
    tracker.hear(events.StepFinished("Trainer", 1.5, cached=False, execution=7, artifacts={"model": 12}))
    tracker.log_verdict(VERDICT)
    tracker.keep_outputs("Evaluator", evaluation(tmp_path / "evaluation"))
    tracker.finish("FINISHED", {"reasons": "x" * 9000})
    assert len(send(config)) == 1 and journals(config.spool_path) == []
    run = only_run_of(config)
    client, run_id = MlflowClient(config.tracking_uri), run.info.run_id
    assert run.info.status == "FINISHED" and tracker.problem is None
    assert history(config, run_id, "train/loss") == [(number, 1 / number) for number in range(1, 10)]
    assert run.data.metrics["eval_epoch/accuracy"] == 0.9 and run.data.metrics["step/Trainer/seconds"] == 1.5
    assert "slice/naïve__ _/accuracy" not in run.data.metrics and run.data.metrics["class/yes/recall"] == 1
    assert run.data.metrics["baseline/tf-idf/accuracy"] == 0.7
    ends = [run.data.metrics[f"test/accuracy{end}"] for end in ("", "/low", "/high")]
    assert ends == [0.8, 0.75, 0.85]
    assert run.data.metrics["data/quarantined_rows"] == 3
    tags = run.data.tags
    assert (tags["step.Trainer"], tags["mlmd.execution.Trainer"], tags["mlmd.artifact.Trainer.model"]) == ("run", "7", "12")
    assert run.data.params["name"] == "reviews" and "version.tensorflow-cpu" in run.data.params
    names = {file.path for file in client.list_artifacts(run_id)}
    assert {"config.json", "verdict.json", "confusion_matrix.png"} <= names
    splits = {
        found.dataset.name: (found.dataset.digest, json.loads(found.dataset.profile)) for found in run.inputs.dataset_inputs
    }
    assert splits == {"reviews train": ("a1", {"num_rows": 90}), "reviews eval": ("b2", {"num_rows": 10})}
    assert client.get_experiment(run.info.experiment_id).tags["mlflow.experimentKind"] == "custom_model_development"
    (trace,) = client.search_traces(locations=[run.info.experiment_id])
    assert [span.name for span in trace.data.spans][1:] == ["Trainer"]


@pytest.mark.parametrize("status", ["FAILED", "KILLED"])
def test_how_a_run_ended_is_told_apart(config, status):
    tracked(config).finish(status, {})
    send(config)
    assert only_run_of(config).info.status == status


def test_odd_names_and_values_are_readable_and_hold_up_nothing(tmp_path, store):
    config = config_in(tmp_path, store)
    tracker = tracked(config, part=Part(title="🦉 naïve\nrun"))
    tracker._append({"do": "params", "params": {f"p{number}": "v" for number in range(500)} | {"long": "x" * 6001}})
    tracker.measure({"nan": math.nan, "inf": math.inf, "a//../b": 1.0, "😀": 2.0, "y" * 300: 3.0})
    tracker.tag_part("a run that never was", {"x": "y"})
    tracker._append({"do": "metrics", "metrics": [["bad\x00name/..", 1.0, 5, 0]]})  # which MLflow refuses
    tracker.measure({"after": 4.0})
    tracker.finish("FINISHED", {"emoji 😀": "😀"})
    said = send(config)
    assert any("refused: metrics:" in line for line in said)
    run = only_run_of(config)
    assert run.info.run_name == "🦉 naïve\nrun" and run.info.status == "FINISHED"
    assert sum(name.startswith("p") and name[1:].isdigit() for name in run.data.params) == 500
    long = run.data.params["long"]
    assert len(long) == 6000 and long.endswith("(6,001 characters; config.json has them all)")
    assert math.isnan(run.data.metrics["nan"]) and run.data.metrics["inf"] > 1e300
    assert run.data.metrics["a/_/__/b"] == 1 and run.data.metrics["_"] == 2 and run.data.metrics["after"] == 4


def test_text_that_no_database_takes_is_replaced_and_holds_up_nothing(config):
    tracker = tracked(config)
    tracker._append({"do": "params", "params": {"nul": "a\0b", "half": "a\udc80b", "written": r"a\u0000b", "emoji": "😀"}})
    tracker.finish("FINISHED", {"reasons": "\udcff"})
    assert not any("refused" in line for line in send(config))
    run = only_run_of(config)
    found = {name: run.data.params[name] for name in ("nul", "half", "written", "emoji")}
    assert found == {"nul": "a\ufffdb", "half": "a?b", "written": r"a\ufffdb", "emoji": "😀"}
    assert run.info.status == "FINISHED" and run.data.tags["reasons"] == "?"


@pytest.mark.parametrize(
    ("uri", "is_here"), [("postgresql+psycopg2://127.0.0.1/runs", True), ("https://127.0.0.1/mlflow", False)]
)
def test_files_of_a_database_without_a_server_stay_in_the_workspace(tmp_path, uri, is_here):
    tracker = tracked(config_in(tmp_path, **{"tracking.uri": uri}))
    assert tracker._journal.head["artifacts"] == ((tmp_path / "mlflow-artifacts").as_uri() if is_here else None)
    tracker.finish("FINISHED", {})


def test_tracking_can_be_switched_off(tmp_path):
    config = config_in(tmp_path, **{"tracking.enabled": "false"})
    tracker = Tracker(config, "2026-01-01T00:00:00")
    tracker.start()
    tracker.hear(step(1))
    tracker.finish("FINISHED", {})
    assert tracker.mlflow_run_id is None and not (tmp_path / "mlflow.db").exists() and not config.spool_path.exists()


def test_a_listener_that_fails_is_left_out_and_the_others_hear_on():
    heard = []

    def broken(event):
        raise RuntimeError

    with events.listening(broken), events.listening(heard.append):
        events.emit(events.Note("one"))
        events.emit(events.Note("two"))
    events.emit(events.Note("three"))
    assert [event.text for event in heard] == ["one", "two"]


@pytest.mark.parametrize("name", ["loss", "a b/c:d-e.f"])
def test_names_that_mlflow_takes_are_left_as_they_are(name):
    assert valid_name(name) == name


@pytest.mark.parametrize("texts", [True, False])
def test_files_that_hold_texts_can_be_left_out(tmp_path, store, texts):
    config = config_in(tmp_path, store, **{"tracking.texts": str(texts).lower()})
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "report.json").write_text("{}")
    (tmp_path / "report" / "quarantine.jsonl").write_text("a row of the user's")
    tracker = tracked(config)
    tracker.keep_outputs("Ingest", {"report": str(tmp_path / "report")})
    tracker.finish("FINISHED", {})
    send(config)
    kept = MlflowClient(config.tracking_uri).list_artifacts(only_run_of(config).info.run_id, "data")
    assert {file.path for file in kept} == {"data/report.json"} | ({"data/quarantine.jsonl"} if texts else set())


def test_a_number_that_a_task_does_not_have_is_left_out(config):
    tracker = tracked(config)
    record = {**step(1).record.numbers(), "accuracy": math.nan}
    tracker.hear(events.Training(StepRecord(**record)))
    tracker.finish("FINISHED", {})
    send(config)
    assert "train/accuracy" not in only_run_of(config).data.metrics
