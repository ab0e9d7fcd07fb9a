"""The process that sends: it ends, gives way to the pipeline, is replaced when it is killed, and no run holds up
another."""

import os

from click.testing import CliRunner
from mlflow import MlflowClient
from recording import config_in, history, only_run_of, runs_of, send, step, tracked

from bertline.components.tracking.backend.sender import Turn
from bertline.components.tracking.sync import send_all
from bertline.components.tracking.tracker import Tracker
from bertline.pipeline.cli import main


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
    assert asked.exit_code == 0 and "the run sends it itself" in asked.output and runs_of(config.tracking_uri) == []
    running.finish("FINISHED", {})
    assert len(send(config)) == 1 and only_run_of(config).info.status == "FINISHED"


def test_a_sender_gives_way_to_the_pipeline_until_somebody_waits_for_it(config):
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
