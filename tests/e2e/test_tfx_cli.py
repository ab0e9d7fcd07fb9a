"""TFX's own command line, as docs/how-to/tfx-cli.md gives it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bertline.pipeline.orchestration.fingerprints import ROOT as PACKAGE

pytestmark = pytest.mark.full

BIN = Path(sys.executable).parent


def test_create_and_run_by_tfx(finished_line, tmp_path):
    """On the finished line's config and workspace, every step cached: what is shown is that TFX finds the way."""
    environment = os.environ | {
        "BERTLINE_CONFIG": str(finished_line.config),
        "BERTLINE_WORKSPACE": str(finished_line.workspace),
        "TFX_HOME": str(tmp_path / "tfx"),
        "HOME": str(tmp_path),
    }

    def tfx(*arguments):
        done = subprocess.run([BIN / "tfx", *arguments], capture_output=True, text=True, env=environment, cwd=tmp_path)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return done.stdout + done.stderr

    runs_before = finished_line.summary["mlflow_run_id"]
    created = tfx(
        "pipeline",
        "create",
        "--engine",
        "local",
        "--pipeline_path",
        str(PACKAGE.parent / "pipeline" / "orchestration" / "local_runner.py"),
    )
    assert 'Pipeline "tiny" created successfully' in created
    assert finished_line.summary["mlflow_run_id"] == runs_before  # creating runs nothing
    tfx("run", "create", "--engine", "local", "--pipeline_name", "tiny")
    summary = finished_line.summary
    assert summary["status"] == "succeeded" and summary["mlflow_run_id"] != runs_before
    assert all(step["cached"] for step in summary["steps"]) and summary["pushed_version"] == 1
