"""`bertline runs` and `bertline compare` over a real store: what is in it is told, what is wrong with it is a sentence."""

from __future__ import annotations

import json
import math
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner
from recorded_runs import Record, answers, falling, judged, summary

import bertline
from bertline.components.evaluator.verdict import Verdict
from bertline.components.pusher.executor import publish
from bertline.components.tracking.backend.store import PATIENCE
from bertline.components.tracking.journal import Journal
from bertline.pipeline.cli import main
from bertline.pipeline.config import SPOOL
from bertline.pipeline.orchestration.fingerprints import ROOT as PACKAGE


class Told:
    """What a command says."""

    def __init__(self, *arguments: str, workspace: Path) -> None:
        result = CliRunner().invoke(main, [*arguments, "--workspace", str(workspace)])
        self.code, self.output, self.error = result.exit_code, result.stdout, result.stderr
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception

    @property
    def json(self):
        return json.loads(self.output, parse_constant=lambda name: pytest.fail(f"JSON has no {name}"))


class Store:
    """A workspace with runs of two pipelines and of one study."""

    def __init__(self, folder: Path) -> None:
        self.workspace = folder / "workspace"
        record = Record(self.workspace)
        old = answers(right=0.7)
        # An older version recorded no rows.
        self.old = record.run("old", verdict=judged(old), curves={"train/loss": falling(0.7, 0.4)})
        # With tracking.texts: false no rows are kept, and the verdict says which way is better.
        bare = replace(judged(old), less_is_better=["cross_entropy"])
        self.bare = record.run("bare", verdict=bare, tags={"pipeline": "bare"})
        good = answers(right=0.9, seed=1, texts={0: "\x1b[2Jétude 🎬"})
        self.good = record.run(
            "good 🚀",
            params={"training.epochs": 3, "evaluation.thresholds.matthews": 0.1},
            verdict=judged(good),
            rows=good,
            curves={"train/loss": [*falling(0.7, 0.3), math.nan], "eval_epoch/loss": [0.5, 0.4]},
            tags={"pushed_version": "1"},
        )
        better = answers(right=0.95, seed=2, first=50)
        tested = {"accuracy": {"value": 0.875, "low": 0.8, "high": 0.9}}
        told = replace(judged(better), baselines={"tf-idf": {"accuracy": 0.8125}}, test=tested)
        self.better = record.run("better", params={f"p.{at}": at for at in range(500)}, verdict=told, rows=better)
        elsewhere = answers(40, right=0.9, first=9000)
        self.elsewhere = record.run("elsewhere", verdict=judged(elsewhere), rows=elsewhere)
        nan = Verdict(blessed=False, reasons=["x"], metrics={"accuracy": math.nan, "rows": 0}, slices={})
        self.other = record.run(
            "other", params={"task": "regression"}, verdict=nan, tags={"pipeline": "numbers", "reasons": "x"}
        )
        self.seeds = record.run("seeds", curves={"mean/accuracy": [0.75], "std/accuracy": [0.01]})
        self.part = record.run("part", tags={"mlflow.parentRunId": self.other, "seed": "1"})
        self.failed = record.run("failed", status="FAILED")
        record.client.delete_run(record.run("deleted"))
        record.client.create_run(record.experiment, run_name="of another program")
        self._push(folder / "model")

    def _push(self, model: Path) -> None:
        model.mkdir()
        (model / "saved_model.pb").touch()
        publish(model, self.workspace / "models" / "reviews", {"mlflow_run_id": self.good})
        summary(self.workspace, name="reviews", destination=str(self.workspace / "models" / "reviews"))

    def tell(self, *arguments: str) -> Told:
        return Told(*arguments, workspace=self.workspace)


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Store:
    return Store(tmp_path_factory.mktemp("runs"))


def test_runs_are_listed_newest_first_without_the_parts_of_studies(store):
    listed = store.tell("runs", "--json").json
    assert [run["name"] for run in listed] == ["failed", "seeds", "other", "elsewhere", "better", "good 🚀", "bare", "old"]
    assert listed[0]["status"] == "failed" and listed[1]["metrics"] == {"accuracy": 0.75}
    assert listed[2]["metrics"] == {"accuracy": None, "rows": 0}
    assert listed[2]["blessed"] is False and listed[5]["pushed_version"] == "1"
    assert listed[5]["changed"] == "training.epochs 2 → 3; evaluation.thresholds.matthews none → 0.1"
    assert listed[7]["changed"] is None
    shown = store.tell("runs").output
    assert store.good[:8] in shown and "good 🚀" in shown and "v1" in shown


def test_runs_are_chosen_by_pipeline_by_number_and_with_their_parts(store):
    assert [run["name"] for run in store.tell("runs", "--json", "--name", "numbers").json] == ["other"]
    assert [run["name"] for run in store.tell("runs", "--json", "--all", "--last", "2").json] == ["failed", "part"]
    (newest,) = store.tell("runs", "--json", "--last", "1", "--name", "reviews").json
    assert newest["changed"] == "nothing"  # against one that is not listed
    assert "no run of nothing is recorded yet" in store.tell("runs", "--name", "nothing").error
    assert "is no name of a pipeline" in store.tell("runs", "--name", "x' OR 1=1").error


def test_a_comparison_has_intervals_on_the_rows_that_both_held_out(store):
    found = store.tell("compare", store.good[:8], store.better, "--json").json
    assert found["reference"] == store.good and found["runs"][1]["shared_rows"]["rows"] == 150
    assert found["notes"] == []
    change = found["metrics"]["accuracy"]["changes"][1]
    assert change["low"] <= change["difference"] <= change["high"]
    assert change["difference"] == pytest.approx(change["value"] - change["reference"])
    assert found["metrics"]["cross_entropy"]["better"] == "lower"
    in_slice = found["slices"]["source=Zürich <b>"]["accuracy"]
    assert in_slice["changes"][1]["low"] <= in_slice["changes"][1]["high"] and in_slice["changes"][0] is None
    right, wrong = (sum(flip["became"] == word for flip in found["flips"][1]) for word in ("right", "wrong"))
    assert (right - wrong) / 150 == pytest.approx(change["difference"])
    assert set(found["settings"]) >= {"training.epochs", "p.0", "p.499"} and "name" not in found["settings"]
    assert len(found["curves"]["train/loss"][0]) == 60 and found["curves"]["train/loss"][1] == []
    again = store.tell("compare", store.good[:8], store.better, "--json").json
    assert again == found  # the draws follow from a seed


def test_a_comparison_in_a_terminal_tells_all_parts(store):
    told = store.tell("compare", store.good, store.better).output
    for part in ("150 of its 200", "training.epochs", "accuracy", "source=web", "train/loss", "became right", " *"):
        assert part in told
    assert "\x1b" not in told


def test_simple_baselines_stand_below_the_metrics(store):
    found = store.tell("compare", store.good, store.better, "--json").json["baselines"]
    assert found["baseline tf-idf: accuracy"]["values"] == [None, 0.8125]
    assert "baseline tf-idf: accuracy" in store.tell("compare", store.good, store.better).output


def test_what_a_run_reaches_on_its_test_examples_stands_below_the_metrics(store):
    found = store.tell("compare", store.good, store.better, "--json").json["test"]
    assert found["test accuracy"]["values"] == [None, 0.875]
    assert "test accuracy" in store.tell("compare", store.good, store.better).output


def test_which_way_a_metric_is_better_is_known_without_rows(store):
    found = store.tell("compare", store.old, store.bare, "--json").json["metrics"]
    assert (found["cross_entropy"]["better"], found["accuracy"]["better"]) == ("lower", "higher")
    assert "Less is better: cross_entropy." in store.tell("compare", store.old, store.bare).output


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        ("old", "are not recorded, so nothing says how sure its differences are"),
        ("elsewhere", "have no evaluation example in common"),
        ("other", "the runs have different tasks"),
        ("failed", "was not evaluated (failed)"),
        ("seeds", "is a study, and its metrics are means over its runs"),
    ],
)
def test_what_cannot_be_compared_is_told(store, other, sentence):
    found = store.tell("compare", store.good, getattr(store, other), "--json").json
    assert sentence in " ".join(found["notes"])
    assert all(metric["changes"] == [None, None] for metric in found["metrics"].values()) and found["flips"][1] == []
    assert sentence in store.tell("compare", store.good, getattr(store, other)).output


def test_the_last_runs_of_one_pipeline_are_compared_with_the_oldest_of_them(store):
    found = store.tell("compare", "--last", "4", "--json").json
    assert [run["name"] for run in found["runs"]] == ["better", "elsewhere", "seeds", "failed"]
    assert "fewer than two runs of numbers" in store.tell("compare", "--last", "2", "--name", "numbers").error


def test_a_version_stands_for_the_run_that_pushed_it(store):
    found = store.tell("compare", "v1", store.better[:8], "--json").json
    assert found["reference"] == store.good
    assert "there is no version 9; there are 1" in store.tell("compare", "v9", store.better).error


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "give two runs or more, or --last N"),
        (("abcdef",), "abcdef is one run; give another one"),
        (("abcdef12", "abcdef34"), "there is no run abcdef12 in the MLflow store"),
        (("the-best", "abcd"), "'the-best' is not the id of a run"),
        (("abcd", "--last", "2"), "give two runs or more, or --last N"),
    ],
)
def test_a_mistake_is_one_sentence(store, arguments, sentence):
    told = store.tell("compare", *arguments)
    assert told.code == 1 and sentence in told.error and told.error.count("\n") == 1


def test_a_run_is_not_compared_with_itself(store):
    assert "the same run is given twice" in store.tell("compare", store.good, store.good[:10]).error


def test_a_page_that_cannot_be_written_is_one_sentence(store, tmp_path):
    told = store.tell("compare", store.good, store.better, "--html", str(tmp_path / "none" / "page.html"))
    assert told.code == 1 and "name a file in a folder that can be written to" in told.error
    assert store.tell("compare", store.good, store.better, "--html", str(tmp_path / "page.html")).code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_python_has_what_the_command_shows(store):
    found = bertline.compare(store.good[:8], store.better, workspace=store.workspace)
    assert found.as_json() == store.tell("compare", store.good, store.better, "--json").json
    accuracy = next(measured for measured in found.metrics if measured.name == "accuracy")
    assert accuracy.values[1] is not None and accuracy.changes[0] is None
    last = bertline.compare(last=2, name="reviews", workspace=store.workspace)
    assert [run.pipeline for run in last.runs] == ["reviews", "reviews"]


@pytest.mark.parametrize("command", [("runs",), ("compare", "--last", "2"), ("ui",)])
def test_a_store_that_is_not_there_is_one_sentence_and_is_not_made(tmp_path, command):
    told = Told(*command, workspace=tmp_path)
    assert told.code == 1 and "there is no MLflow store" in told.error and told.error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", [("compare", "--last", "2"), ("report", "--last")])
def test_a_store_that_was_not_sent_anything_yet_is_told_with_the_command_that_sends(tmp_path, command):
    journal = Journal.create(tmp_path / SPOOL, "reviews")
    journal.append({"do": "open"})
    journal.release()
    told = Told(*command, workspace=tmp_path)
    assert told.code == 1 and f"`bertline sync --workspace {tmp_path}`" in told.error and told.error.count("\n") == 1


@pytest.mark.timeout(120)  # MLflow would wait for minutes
def test_a_dead_server_is_told_soon_and_without_its_password(tmp_path, monkeypatch):
    monkeypatch.setitem(PATIENCE, "MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://me:secret@127.0.0.1:{silent.getsockname()[1]}")
        told = Told("runs", workspace=tmp_path)
    assert told.code == 1 and "cannot be queried for runs" in told.error and "secret" not in told.error


def test_the_pages_of_a_server_are_named_and_not_started(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://me:secret@mlflow.example/team")
    told = Told("ui", workspace=tmp_path)
    assert told.code == 0 and "https://…@mlflow.example/team" in told.output


def test_a_port_that_is_taken_is_one_sentence(store):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        told = store.tell("ui", "--port", str(taken.getsockname()[1]))
    assert told.code == 1 and "the port is in use" in told.error


def test_the_pages_of_a_store_are_shown_until_a_signal_and_nothing_stays_behind(store):
    command = [sys.executable, "-m", "bertline.pipeline.cli", "ui", "--port", "0", "--workspace", str(store.workspace)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=PACKAGE.parent
    ) as shown:
        started = []
        try:
            address = re.search(r"on (http://127\.0\.0\.1:[0-9]+)\.", shown.stdout.readline())[1]
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(address) as page:
                assert page.status == 200 and b"MLflow" in page.read()
            started = psutil.Process(shown.pid).children(recursive=True)
        finally:
            shown.send_signal(signal.SIGTERM)
        assert shown.wait(60) == 0
    assert len(started) >= 2 and psutil.wait_procs(started, 30)[1] == []
