"""The journal of a run: what was not sent is kept, goes on in the same MLflow run, and is recorded once."""

import shutil

from mlflow import MlflowClient
from recording import config_in, evaluation, history, only_run_of, runs_of, send, step, tracked

from bertline.components.tracking.backend.round import Round
from bertline.components.tracking.journal import Journal, journals
from bertline.pipeline.core import events


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


def test_a_kept_file_that_is_gone_is_told_and_holds_up_nothing(config, tmp_path):
    tracker = tracked(config)
    tracker.keep_outputs("Evaluator", evaluation(tmp_path / "evaluation"))
    tracker.finish("FINISHED", {})
    shutil.rmtree(tracker._journal.folder / "files")
    said = send(config)
    assert sum("is no longer in" in line for line in said) == 4  # the config, the verdict, its picture and its page
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
