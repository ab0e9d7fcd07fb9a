"""`bertline watch` over a stand-in for the runs: which data is run on. With real ones: tests/e2e/test_watch.py."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from lines import Line, make_rows, write_config, write_csv

from bertline.pipeline.commands import watch as watch_command


@pytest.fixture
def watched(tmp_path, monkeypatch):
    """A line over spans, and the commands that were given for them; `code` is what they exit with."""
    line, given = Line(tmp_path), SimpleNamespace(commands=[], code=0)
    write_config(tmp_path, data={"path": "in/rows-{SPAN}.csv"})
    (tmp_path / "in").mkdir()

    def run(command, env):
        given.commands.append(command)
        return SimpleNamespace(returncode=given.code)

    monkeypatch.setattr(watch_command, "subprocess", SimpleNamespace(run=run))
    given.line, given.look = line, lambda: line.call("watch", str(line.config), "--once")
    given.arrive = lambda span: write_csv(tmp_path / "in" / f"rows-{span}.csv", make_rows(20, seed=span))
    return given


def test_each_state_of_the_data_is_run_on_once(watched):
    nothing = watched.look()
    assert nothing.exit_code == 1 and "with a number for {SPAN}" in nothing.output
    watched.arrive(1)
    first = watched.look()
    assert first.exit_code == 0 and "1 file: running the pipeline" in first.output and "pushed" in first.output
    assert "nothing new" in watched.look().output and len(watched.commands) == 1
    watched.arrive(2)
    assert "2 files: running the pipeline" in watched.look().output and len(watched.commands) == 2
    run = watched.commands[-1]
    assert run[1:4] == ["-m", "bertline.pipeline.cli", "run"] and "evaluation.must_beat=true" in run


def test_a_refusal_and_a_failure_are_told_and_not_run_again(watched):
    watched.arrive(1)
    for code, told in ((3, "refused; the pushed model is unchanged"), (1, "failed (1)")):
        watched.code = code
        watched.arrive(code)
        result = watched.look()
        assert result.exit_code == code and told in result.output
        assert watched.look().exit_code == 0


def test_a_run_that_was_killed_is_run_again(watched):
    watched.arrive(1)
    watched.code = -9
    assert "failed (-9)" in watched.look().output
    watched.code = 0
    assert watched.look().exit_code == 0 and len(watched.commands) == 2
