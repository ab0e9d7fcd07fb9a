"""The end of a run says which metrics are undefined, and why; its JSON stays JSON."""

from __future__ import annotations

import io
import json
import math

import pytest
from rich.console import Console

from bertline.pipeline.console.display import show_summary
from bertline.pipeline.console.summary import Summary, read
from bertline.pipeline.settings.loader import load

WHY = "no evaluation example has the class 'yes'; add examples of it"


@pytest.fixture
def summary() -> Summary:
    nothing = {"precision": math.nan, "recall": math.nan, "f1": math.nan, "rows": 0.0}
    return Summary(
        name="x",
        task="classification",
        metrics={"accuracy": 1.0, "f1": math.nan, "rows": 9},
        undefined={"f1": WHY},
        slices={"web": {"accuracy": math.nan, "rows": 0}},
        classes={"yes": nothing},
        baseline={"pushed": {"f1": math.nan}},
    )


def test_a_person_reads_undefined_and_why(summary):
    stream = io.StringIO()
    show_summary(Console(file=stream, width=200), summary, [])
    shown = [" ".join(line.split()) for line in stream.getvalue().splitlines()]
    assert f"f1 undefined: {WHY}" in shown and "accuracy 1.0000" in shown
    assert "pushed before f1 undefined" in shown and "web accuracy undefined on 0 examples" in shown
    assert "class yes precision undefined recall undefined f1 undefined on 0 examples" in shown
    assert not any("nan" in line.split() for line in shown)


def test_a_program_reads_null(summary, tmp_path):
    path = summary.write(load("reviews", [], workspace=str(tmp_path)))
    found = json.loads(path.read_text(), parse_constant=pytest.fail)
    assert found["metrics"] == {"accuracy": 1.0, "f1": None, "rows": 9} and found["undefined"] == {"f1": WHY}
    assert read(tmp_path) == found
