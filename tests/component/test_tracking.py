"""What a run leaves in MLflow: everything, once, and readable, however odd its names and values are."""

import json
import math
import os
import shutil
import signal
import time
from contextlib import contextmanager

import pytest
from click.testing import CliRunner
from mlflow import MlflowClient
from recording import config_in, epoch, history, make_store, only_run_of, runs_of, send, step, tracked

from components import events
from components.tracking.journal import Journal, journals
from components.tracking.names import valid_name
from components.tracking.sender import Round, Turn
from components.tracking.sync import send_all
from components.tracking.tracker import Part, Tracker
from components.verdict import Verdict
from models.training import StepRecord
from pipeline.cli import main


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return make_store(tmp_path_factory.mktemp("store"))


@pytest.fixture
def config(tmp_path, store):
    return config_in(tmp_path, store)


VERDICT = Verdict(
    blessed=True,
    reasons=[],
    metrics={"accuracy": 0.9},
    slices={"naïve=☕ +": {"accuracy": math.nan}},
    confusion=[[3, 1], [0, 4]],
    labels=["no", "yes"],
)


def evaluation(folder):
    folder.mkdir()
    (folder / "verdict.json").write_text(VERDICT.to_json())
    return {"evaluation": str(folder)}


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
    assert math.isnan(run.data.metrics["slice/naïve__ _/accuracy"]) and run.data.metrics["class/yes/recall"] == 1
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


def test_what_is_sent_twice_is_recorded_once(config):
    tracker = tracked(config)
    for number in range(1, 30):
        tracker.hear(step(number))
    tracker.hear(events.StepFinished("Trainer", 1.5, cached=False))
    tracker.finish("KILLED", {"a": "b"})  # such a journal is kept
    send(config)
    (journal,) = journals(config.spool_path)
    (journal.folder / "state.json").unlink()  # as if the sender had died before it could note anything
    send(config)
    run = only_run_of(config)
    assert history(config, run.info.run_id, "train/loss") == [(number, 1 / number) for number in range(1, 30)]
    assert len(MlflowClient(config.tracking_uri).get_metric_history(run.info.run_id, "step/Trainer/seconds")) == 1


def test_a_killed_run_goes_on_in_the_same_mlflow_run(config):
    first = tracked(config, "2026-01-01T00:00:00", identity="same")
    first.hear(events.StepFinished("Ingest", 1.0, cached=False))
    for number in range(1, 8):
        first.hear(step(number))
    first._journal.release()  # as the system does when a process is killed
    send(config)
    assert only_run_of(config).info.status == "KILLED"
    second = tracked(config, "2026-01-02T00:00:00", identity="same")
    second.hear(events.StepFinished("Ingest", 0.1, cached=True))
    for number in range(5, 10):  # from its last checkpoint on
        second.hear(step(number))
    second.hear(events.StepFinished("Trainer", 2.0, cached=False))
    second.finish("FINISHED", {})
    send(config)
    run = only_run_of(config)
    assert run.info.status == "FINISHED" and second.key == "2026-01-01T00:00:00"
    assert history(config, run.info.run_id, "train/loss") == [(number, 1 / number) for number in range(1, 10)]
    assert (run.data.tags["step.Ingest"], run.data.tags["resumed_as"]) == ("run", "2026-01-02T00:00:00")
    (trace,) = MlflowClient(config.tracking_uri).search_traces(locations=[run.info.experiment_id])
    assert {span.name for span in trace.data.spans[1:]} == {"Ingest", "Trainer"}
    assert journals(config.spool_path) == []


def test_a_killed_run_that_is_not_given_again_stays_killed(config):
    tracked(config, "2026-01-01T00:00:00", identity="one")._journal.release()
    other = tracked(config, "2026-01-02T00:00:00", identity="other")
    other.finish("FINISHED", {})
    send(config)
    found = [(run.data.tags["line_run_id"][:10], run.info.status) for run in runs_of(config.tracking_uri)]
    assert found == [("2026-01-01", "KILLED"), ("2026-01-02", "FINISHED")] and journals(config.spool_path) == []


def test_a_run_that_is_under_way_is_not_taken_for_a_killed_one(config):
    running = tracked(config, "2026-01-01T00:00:00", identity="same")
    other = tracked(config, "2026-01-02T00:00:00", identity="same")
    assert other.key != running.key
    other.finish("FINISHED", {})
    running.finish("FINISHED", {})


def test_parts_stand_under_their_study_and_are_not_recorded_again_when_it_goes_on(config):
    attempts = iter(range(9))

    def study():
        return tracked(config, "2026-01-01T00:00:00", part=Part(title="study", tags={"study": "seeds"}), identity="study")

    def part(parent, seed):
        return Tracker(
            config,
            f"2026-01-0{seed}T01:00:00 {next(attempts)}",
            Part(title=f"seed {seed}", tags={"study": "seeds", "seed": str(seed)}, parent=parent),
            identity=f"seed {seed}",
            sends=False,
        )

    parent = study()
    one = part(parent, 1)
    one.start()
    one.finish("FINISHED", {})
    two = part(parent, 2)
    two.start()
    two.hear(step(1))
    two._journal.release()
    parent.finish("KILLED", {})
    send(config)
    parent = study()
    one_again, two_again = part(parent, 1), part(parent, 2)
    for again in (one_again, two_again):
        again.start()
        again.hear(step(1))
        again.hear(step(2))
        again.finish("FINISHED", {})
    parent.tag_part(two_again.key, {"best": "yes"})
    parent.tag_part(one_again.key, {"best": "no"})
    parent.finish("FINISHED", {})
    send(config)
    (above,) = runs_of(config.tracking_uri, line_run_id="2026-01-01T00:00:00")
    everything = runs_of(config.tracking_uri)
    below = [run for run in everything if run.data.tags.get("mlflow.parentRunId") == above.info.run_id]
    assert above.info.status == "FINISHED" and len(everything) == 3
    assert [(run.data.tags["seed"], run.info.status) for run in below] == [("1", "FINISHED"), ("2", "FINISHED")]
    assert "train/loss" not in below[0].data.metrics and [run.data.tags["best"] for run in below] == ["no", "yes"]
    assert history(config, below[1].info.run_id, "train/loss") == [(1, 1.0), (2, 0.5)]


def test_a_part_does_not_wait_for_mlflow_and_the_study_waits_for_both(config):
    study = Tracker(config, "2026-01-01T00:00:00", Part(title="study"), identity="study")
    study.start()
    part = Tracker(config, "2026-01-01T01:00:00", Part(title="part", parent=study), identity="part")
    part.start()
    part._sender.hurry()
    while part.mlflow_run_id is None:
        time.sleep(0.05)
    with stopped(part._sender):
        part.hear(step(1))
        part.finish("FINISHED", {})  # nothing can be sent now
    assert part.problem is None and study.parts["part"] == (part.key, part.mlflow_run_id)
    study.finish("FINISHED", {})
    assert study.problem is None
    found = {run.info.run_id: run for run in runs_of(config.tracking_uri)}
    assert set(found) == {study.mlflow_run_id, part.mlflow_run_id}
    assert {run.info.status for run in found.values()} == {"FINISHED"}
    assert found[part.mlflow_run_id].data.tags["mlflow.parentRunId"] == study.mlflow_run_id
    assert history(config, part.mlflow_run_id, "train/loss") == [(1, 1.0)]


@contextmanager
def stopped(sender):
    os.kill(sender._process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(sender._process.pid, signal.SIGCONT)


def test_what_mlflow_refuses_of_a_part_is_told_by_its_study(config):
    study = Tracker(config, "2026-01-01T00:00:00", Part(title="study"), identity="study")
    study.start()
    part = Tracker(config, "2026-01-01T01:00:00", Part(title="part", parent=study), identity="part")
    part.start()
    part._append({"do": "metrics", "metrics": [["bad\x00name/..", 1.0, 5, 0]]})
    part.finish("FINISHED", {})
    study.finish("FINISHED", {})
    assert "MLflow refused a part of the record: metrics:" in study.problem


def test_a_run_that_begins_is_known_before_all_of_an_older_one_is_told(config):
    older, younger = (tracked(config, f"2026-01-0{number}T00:00:00") for number in (1, 2))
    for tracker in (older, younger):
        tracker.finish("FINISHED", {})
    _, at = journals(config.spool_path)
    known = []
    Round(config.spool_path, None, lambda journal, state: known.append((journal.folder.name, at.state.mlflow_run_id))).run()
    when_the_older_ends = [run_id for name, run_id in known if name != at.folder.name][-1]
    assert when_the_older_ends and when_the_older_ends == younger_run(config).info.run_id


def younger_run(config):
    (run,) = runs_of(config.tracking_uri, line_run_id="2026-01-02T00:00:00")
    return run


def test_how_a_run_ended_is_told_where_the_disk_was_full(config, monkeypatch):
    tracker = tracked(config)
    room, append = tracker._journal.folder / "room", tracker._journal.append

    def on_a_full_disk(operation):
        if room.exists():
            raise OSError("no space left on device")
        append(operation)

    monkeypatch.setattr(tracker._journal, "append", on_a_full_disk)
    tracker.hear(step(1))
    tracker.finish("FINISHED", {"status": "succeeded"})
    send(config)
    run = only_run_of(config)
    assert run.info.status == "FINISHED" and run.data.tags["status"] == "succeeded"
    assert "could not be kept" in tracker.problem and "train/loss" not in run.data.metrics


def test_a_record_that_cannot_be_kept_fails_nothing(tmp_path, store):
    config = config_in(tmp_path, store)
    config.spool_path.write_text("a file in the place of the folder")
    tracker = tracked(config)
    tracker.hear(step(1))
    tracker.finish("FINISHED", {})
    assert "could not be kept" in tracker.problem


def test_half_a_line_is_passed_over(config):
    tracker = tracked(config, identity="same")
    tracker.hear(step(1))
    tracker._journal.release()
    with (tracker._journal.folder / "journal.jsonl").open("ab") as file:
        file.write(b'{"do": "metrics", "met')
    again = tracked(config, identity="same")
    again.hear(step(2))
    again.finish("FINISHED", {})
    send(config)
    assert history(config, only_run_of(config).info.run_id, "train/loss") == [(1, 1.0), (2, 0.5)]


def test_text_that_no_database_takes_is_replaced_and_holds_up_nothing(config):
    tracker = tracked(config)
    tracker._append({"do": "params", "params": {"nul": "a\0b", "half": "a\udc80b", "written": r"a\u0000b", "emoji": "😀"}})
    tracker.finish("FINISHED", {"reasons": "\udcff"})
    assert not any("refused" in line for line in send(config))
    run = only_run_of(config)
    found = {name: run.data.params[name] for name in ("nul", "half", "written", "emoji")}
    assert found == {"nul": "a\ufffdb", "half": "a?b", "written": r"a\ufffdb", "emoji": "😀"}
    assert run.info.status == "FINISHED" and run.data.tags["reasons"] == "?"


def test_a_kept_file_that_is_gone_is_told_and_holds_up_nothing(config, tmp_path):
    tracker = tracked(config)
    tracker.keep_outputs("Evaluator", evaluation(tmp_path / "evaluation"))
    tracker.finish("FINISHED", {})
    shutil.rmtree(tracker._journal.folder / "files")
    said = send(config)
    assert sum("is no longer in" in line for line in said) == 3  # the config, the verdict, and its picture
    assert only_run_of(config).info.status == "FINISHED"


def test_a_journal_that_another_process_has_just_removed_is_over(tmp_path):
    journal = Journal.create(tmp_path, "reviews")
    journal.append({"do": "end", "status": "FINISHED"})
    journal.remove()
    assert journal.last == {"do": "abandon"} and journals(tmp_path) == []


def test_the_last_entry_of_a_journal_is_found_whatever_its_length(tmp_path):
    journal = Journal.create(tmp_path, "a name / with ☕")
    for length in (0, 10, 5000, 300_000):
        journal.append({"do": "x", "text": "y" * length})
        assert len(journal.last["text"]) == length
    assert journal.head == {"do": "x", "text": ""}


def test_a_sender_that_is_started_sends_and_ends(config):
    tracker = Tracker(config, "2026-01-01T00:00:00")
    tracker.start()
    tracker.hear(step(1))
    tracker.finish("FINISHED", {})
    assert tracker.problem is None and tracker.mlflow_run_id == only_run_of(config).info.run_id


def test_sync_leaves_a_run_that_is_sending_alone_and_says_so(config):
    running, its_turn = tracked(config), Turn(config.spool_path)
    assert its_turn.take()  # as its sender has
    asked = CliRunner().invoke(main, ["sync", "--workspace", config.workspace])
    its_turn.give_back()
    assert asked.exit_code == 0 and "the run tells MLflow by itself" in asked.output and runs_of(config.tracking_uri) == []
    running.finish("FINISHED", {})
    assert len(send(config)) == 1 and only_run_of(config).info.status == "FINISHED"


def test_a_sender_gives_way_to_the_line_until_somebody_waits_for_it(config):
    tracker = Tracker(config, "2026-01-01T00:00:00")
    tracker.start()
    process = tracker._sender._process.pid
    assert os.getpriority(os.PRIO_PROCESS, process) > os.getpriority(os.PRIO_PROCESS, 0)
    tracker.finish("FINISHED", {})
    if os.geteuid() == 0:  # nobody else may take patience back
        assert os.getpriority(os.PRIO_PROCESS, process) == os.getpriority(os.PRIO_PROCESS, 0)


def test_a_sender_that_is_killed_is_replaced_at_the_end(config):
    tracker = Tracker(config, "2026-01-01T00:00:00")
    tracker.start()
    tracker._sender._process.kill()
    tracker.hear(step(1))
    tracker.finish("FINISHED", {})
    assert tracker.problem is None and history(config, tracker.mlflow_run_id, "train/loss") == [(1, 1.0)]


def test_a_run_whose_experiment_is_deleted_holds_up_no_other(tmp_path, store):
    lost = config_in(tmp_path, store, **{"tracking.experiment": "lost"})
    client = MlflowClient(lost.tracking_uri)
    client.delete_experiment(client.create_experiment("lost"))
    tracked(lost, "2026-01-01T00:00:00").finish("FINISHED", {})
    tracked(config_in(tmp_path), "2026-01-02T00:00:00").finish("FINISHED", {})
    (left,) = send_all(lost.spool_path, print, patience=5)
    assert "the experiment lost is deleted" in left.problem
    assert only_run_of(lost).data.tags["line_run_id"] == "2026-01-02T00:00:00"


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
