"""A tracking server that is killed or hangs in mid-run: the training is the same, nothing is lost, nothing doubled."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from mlflow import MlflowClient
from pages import Read
from recorded_runs import Record, answers, judged
from recording import config_in, history, runs_of, send, step, tracked
from tiny_training import TASK, build, losses, rows, settings
from tracking_server import Losing, Refusing, TrackingServer, listening

from bertline.components.tracking.journal import journals
from bertline.components.tracking.sync import left_in, send_all
from bertline.components.tracking.tracker import Tracker
from bertline.models.training.loop import train
from bertline.pipeline.core import events
from bertline.pipeline.runs.report import report_page

EPOCHS = 8


def trained(folder, report):
    return losses(
        train(build, TASK, settings(epochs=EPOCHS), rows(), rows(seed=1), checkpoint_folder=folder, report=report)
    )


@pytest.fixture(scope="module")
def plain_losses(tmp_path_factory):
    """Of the training without any tracking."""
    return trained(tmp_path_factory.mktemp("plain"), lambda record: None)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = TrackingServer(tmp_path_factory.mktemp("server"))
    server.start()
    yield server
    server.kill()


@pytest.fixture
def config(tmp_path, server, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "2")  # of the sender, whose process inherits it
    return config_in(tmp_path, **{"tracking.uri": server.uri, "tracking.experiment": tmp_path.name})


def await_that(condition):
    """Soon true, or never: the longest pause of a sender is ten seconds."""
    last_moment = time.monotonic() + 90
    while not condition():
        assert time.monotonic() < last_moment, "it has not come to pass"
        time.sleep(0.05)


def recorded_losses(config, key):
    (run,) = runs_of(config.tracking_uri, line_run_id=key)
    return run, [value for _, value in history(config, run.info.run_id, "train/loss")]


def test_a_server_that_is_killed_and_comes_back_costs_nothing(config, server, tmp_path, plain_losses):
    tracker = Tracker(config, "2026-01-01T00:00:00")
    tracker.start()

    def report(record):
        tracker.hear(events.Training(record))
        at = record.numbers()["step"]
        if at == 5:
            await_that(lambda: tracker.mlflow_run_id)  # it is in the midst of it
            server.kill()
        if at == 20:
            await_that(lambda: any(left.problem for left in left_in(config.spool_path)))
        if at == 25:
            server.start()

    assert trained(tmp_path / "tracked", report) == plain_losses
    tracker.hear(events.StepFinished("Trainer", 1.5, cached=False))
    tracker.finish("FINISHED", {"status": "succeeded"})
    send(config)
    run, values = recorded_losses(config, tracker.key)
    assert values == plain_losses
    assert run.info.status == "FINISHED" and run.data.tags["status"] == "succeeded"
    assert len(MlflowClient(config.tracking_uri).get_metric_history(run.info.run_id, "eval_epoch/loss")) == EPOCHS
    assert journals(config.spool_path) == []


def test_a_server_that_hangs_holds_up_nothing_and_is_told_later(config, server, tmp_path, plain_losses):
    tracker = Tracker(config, "2026-01-02T00:00:00")
    tracker.start()

    def report(record):
        tracker.hear(events.Training(record))
        if record.numbers()["step"] == 5:
            await_that(lambda: tracker.mlflow_run_id)
            server.hang()

    assert trained(tmp_path / "tracked", report) == plain_losses
    tracker.finish("FINISHED", {})
    assert "kept, and sent by the next run or `bertline sync`" in tracker.problem
    server.go_on()
    # The next run sends it.
    following = Tracker(config, "2026-01-03T00:00:00")
    following.start()
    following.finish("FINISHED", {})
    await_that(lambda: not left_in(config.spool_path))
    run, values = recorded_losses(config, tracker.key)
    assert values == plain_losses and run.info.status == "FINISHED"


def test_what_a_server_refuses_is_kept(tmp_path):
    """As one that wants a token; here it is a port on which nothing listens."""
    config = config_in(tmp_path, **{"tracking.uri": "http://127.0.0.1:9"})
    tracker = tracked(config)
    tracker.hear(step(1))
    tracker.finish("FINISHED", {})
    (left,) = send_all(config.spool_path, print)
    (journal,) = journals(config.spool_path)
    assert left.problem and left.bytes == journal.size and len(list(journal.operations())) > 3


def test_a_server_that_lets_nobody_in_is_said_and_no_secret_is_written(tmp_path, monkeypatch):
    with listening(Refusing) as address:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://me:hush-word@{address}")
        monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "hush-token")
        config = config_in(tmp_path)
        tracker = Tracker(config, "2026-01-01T00:00:00")
        tracker.start()
        tracker.finish("FINISHED", {})
    assert f"http://…@{address} denied access (401): MLFLOW_TRACKING_TOKEN" in tracker.problem
    await_that(lambda: "401" in (config.spool_path / "sender.log").read_text())
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) > 3 and not any(b"hush" in content for content in written)


def test_answers_that_get_lost_double_nothing(config, server, monkeypatch):
    with listening(Losing, server.port) as address:
        lossy = config.model_copy(update={"tracking": config.tracking.model_copy(update={"uri": f"http://{address}"})})
        tracker = tracked(lossy, "2026-01-04T00:00:00")
        for number in range(1, 10):
            tracker.hear(step(number))
        tracker.hear(events.StepFinished("Trainer", 1.5, cached=False))
        tracker.register(lambda: {"name": lossy.tracking.experiment, "digest": "d", "path": "/p", "task": "classification",
                                  "inputs": ["text"], "aliases": ["candidate"]})  # fmt: skip
        tracker.finish("FINISHED", {})
        tries = [send_all(lossy.spool_path, print) for _ in range(8)]  # each comes further
        assert tries[-1] == [], tries
    (run,) = runs_of(server.uri, line_run_id=tracker.key)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.uri)  # by which MLflow finds the spans of a trace
    client, experiment = MlflowClient(server.uri), run.info.experiment_id
    assert history(config, run.info.run_id, "train/loss") == [(number, 1 / number) for number in range(1, 10)]
    assert [len(trace.data.spans) for trace in client.search_traces(locations=[experiment])] == [2]
    assert len(client.search_logged_models([experiment])) == 1 and run.info.status == "FINISHED"
    assert len(client.search_model_versions(f"name = '{lossy.tracking.experiment}'")) == 1


def test_a_store_that_cannot_be_opened_is_said(tmp_path):
    config = config_in(tmp_path, **{"tracking.uri": "sqlite:////proc/nowhere/mlflow.db"})
    tracked(config).finish("FINISHED", {})
    (left,) = send_all(config.spool_path, print, patience=5)
    assert left.problem


ONE_OF_TWO = """
import sys
from bertline.components.tracking.tracker import Tracker
from bertline.pipeline.settings.loader import load

workspace, uri, name = sys.argv[1:]
config = load("reviews", [f"tracking.uri={uri}", f"name={name}"], workspace=workspace)
tracker = Tracker(config, f"run {name}")
tracker.start()
for number in range(1, 301):
    tracker._log_record({"step": number, "loss": 1 / number})
tracker.finish("FINISHED", {})
assert tracker.problem is None, tracker.problem
"""


def test_two_pipelines_at_once_share_one_new_store(tmp_path):
    uri = f"sqlite:///{tmp_path}/shared.db"
    processes = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        processes.append(
            subprocess.Popen(
                [sys.executable, "-c", ONE_OF_TWO, str(tmp_path / name), uri, name], cwd=Path(__file__).parents[3]
            )
        )
    assert [process.wait() for process in processes] == [0, 0]
    runs = runs_of(uri)
    assert sorted(run.data.tags["pipeline"] for run in runs) == ["one", "two"]
    for run in runs:
        found = MlflowClient(uri).get_metric_history(run.info.run_id, "train/loss")
        assert sorted(metric.step for metric in found) == list(range(1, 301)) and run.info.status == "FINISHED"


def test_the_report_of_a_run_brings_its_files_from_the_server(server, tmp_path, monkeypatch):
    answered = answers(right=0.9, texts={0: "<b>far away"})
    record = Record(tmp_path / "elsewhere", server.uri)
    run_id = record.run("far", verdict=judged(answered), rows=answered, files={"model.json": '{"parameters": 1234}'})
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.uri)
    page = Read(report_page(run_id[:12], workspace=str(tmp_path / "here")).html)
    assert page.row("parameters")[1] == "1,234" and page.row("MLflow store")[1] == server.uri
    assert any(len(row) > 2 and row[2].startswith("[0.8") for row in page.rows("accuracy"))
