"""Seeds and trials in MLflow: under their study, once, and without waiting for it."""

import os
import signal
import time
from contextlib import contextmanager

from recording import history, runs_of, send, step, tracked

from bertline.components.tracking.tracker import Part, Tracker


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
