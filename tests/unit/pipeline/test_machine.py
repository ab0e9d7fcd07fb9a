"""What the machine refuses is one sentence that says what to do, and no trace of ours."""

from __future__ import annotations

import os

import pytest
import tensorflow as tf
from click.testing import CliRunner

from bertline.pipeline.cli import main
from bertline.pipeline.console.session import stage
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.core.machine import refusal, require_workspace
from bertline.pipeline.settings.loader import load


def full_by_python():
    with open("/dev/full", "w") as stream:
        stream.write("x" * 100_000)


def full_by_tensorflow():
    tf.io.write_file("/dev/full", b"x" * 10_000_000)


def wrapped(fill):
    """As Beam does: the message is kept, and the error is not."""
    try:
        fill()
    except Exception as error:
        raise RuntimeError(f"{error} [while running 'Write']") from None


FILL = [full_by_python, full_by_tensorflow, lambda: wrapped(full_by_python), lambda: wrapped(full_by_tensorflow)]


@pytest.mark.parametrize("fill", FILL)
def test_a_full_disk_is_told_however_the_error_comes(fill):
    with pytest.raises(Exception) as error:
        fill()
    told = str(refusal(error.value))
    assert "the disk is full; free some space" in told and len(told.splitlines()) == 1


def test_a_fault_of_ours_is_none_of_the_machine(tmp_path):
    with pytest.raises(FileNotFoundError) as missing:
        (tmp_path / "nothing").read_text()
    assert refusal(missing.value) is None and refusal(ZeroDivisionError("deep inside")) is None


@pytest.mark.parametrize("fill", FILL[:2])
def test_a_run_that_fills_the_disk_ends_in_a_sentence_and_names_the_log(tmp_path, fill):
    config = load("reviews", ["tracking.enabled=false"], workspace=str(tmp_path))
    with pytest.raises(BertlineError) as error, stage(config, as_json=True) as at, at.working():
        fill()
    told = str(error.value)
    assert "the disk is full" in told and "The same command then resumes" in told and str(at.log) in told
    assert "Traceback" in at.log.read_text()


@pytest.mark.parametrize("place", ["file", "file/under", "/dev/null/under", "/proc/under", "x" * 300])
def test_a_workspace_that_cannot_be_is_refused_at_once(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    (tmp_path / "tiny.yaml").write_text("{name: x, data: {path: a.csv, label: y}, evaluation: {thresholds: {accuracy: 1}}}")
    result = CliRunner().invoke(main, ["run", "tiny.yaml", "--workspace", place])
    assert result.exit_code == 1 and isinstance(result.exception, SystemExit)
    assert f"the workspace {place} cannot be written to: " in result.output and "--workspace" in result.output
    watched = CliRunner().invoke(main, ["watch", "tiny.yaml", "--workspace", place])
    assert watched.exit_code == 1 and "cannot be written to" in watched.output
    for command in (["predict", "a text"], ["serve", "--port", "0", "--rest_api_port", "0"], ["runs"], ["rollback"]):
        result = CliRunner().invoke(main, [*command, "--workspace", place])
        assert result.exit_code == 1 and isinstance(result.exception, SystemExit) and "error: " in result.output


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write anywhere")
def test_a_workspace_without_permission_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(BertlineError, match="cannot be written to: you are not allowed to"):
        require_workspace(tmp_path)


@pytest.mark.parametrize("out", ["/dev/null/x.yaml", "/proc/x.yaml", "x" * 300])
def test_new_says_where_it_cannot_write(tmp_path, monkeypatch, out):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("text,label\n" + "".join(f"a text of {n},{n % 2}\n" for n in range(40)))
    result = CliRunner().invoke(main, ["new", "a.csv", "--out", out])
    assert result.exit_code == 1 and isinstance(result.exception, SystemExit)
    assert result.output.startswith("error: ") and out in result.output


def test_a_summary_that_is_none_is_told(tmp_path):
    (tmp_path / "summary.json").write_text('{"half": ')
    result = CliRunner().invoke(main, ["predict", "a text", "--workspace", str(tmp_path)])
    assert result.exit_code == 1 and "this is no summary of a run" in result.output
