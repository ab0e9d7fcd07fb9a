"""What `bertline prune` shows, read without colours."""

from __future__ import annotations

import io

from rich.console import Console

from bertline.pipeline.prune.report import PruneReport
from bertline.pipeline.prune.tables import show

REPORT = PruneReport(
    name="reviews",
    task="classification",
    model="models/reviews/1",
    digest="ab" * 32,
    metric="accuracy",
    better="higher",
    rows=1233,
    importance={"gradient": [[0.25, 0.5, None], [1.0, 0.1, 0.75]], "ablation": [[0.012, -0.004, None], [0.25, 0, 0.5]]},
    curve=[
        {"keep": keep, "heads": heads, "value": value}
        for keep, heads, value in ((0.2, 1, None), (0.6, 3, 0.5), (1, 5, 0.75))
    ],
    heads_before=5,
    heads_after=3,
    lost={"0": [0], "1": [1]},
    compared={
        "parameters": {"original": 1000, "pruned": 900},
        "bytes": {"original": 4_000_000, "pruned": 3_000_000},
        "rows_per_second": {"original": 100.0, "pruned": 125.0},
        "speed": 1.25,
        "metrics": {
            "accuracy": {"original": 0.75, "pruned": 0.5, "difference": -0.25, "low": -0.5, "high": -0.125},
            "f1": {"original": None, "pruned": None, "difference": None, "low": None, "high": None},
        },
    },
    folder="pruned/reviews-1",
    mlflow_run_id="0123",
    mlflow_uri="sqlite:///mlflow.db",
)  # fmt: skip


def shown(report, **how):
    console = Console(file=io.StringIO(), width=140, highlight=False, **how)
    show(console, report)
    return console.file.getvalue()


def lines(report):
    return [" ".join(line.split()) for line in shown(report).splitlines()]


def test_every_number_is_there_without_colours():
    text = lines(REPORT)
    assert "0 .25x .50 –" in text and "1 1.00 .10x .75" in text
    assert "0 +1.2x -0.4 –" in text and "1 +25.0 +0.0x +50.0" in text
    assert "60% 3 0.5000" in text and "20% 1 undefined" in text
    assert "heads 5 3" in text and "bytes 4,000,000 3,000,000 0.75×" in text and "examples/second 100.0 125.0 1.25×" in text
    assert "accuracy 0.7500 0.5000 -0.2500 [-0.5000, -0.1250] *" in text and "f1 undefined undefined" in text
    assert "pushed nothing; --push pushes it" in text and "MLflow run 0123 in sqlite:///mlflow.db" in text


def test_shades_follow_the_numbers_in_a_terminal():
    coloured = shown(REPORT, force_terminal=True, color_system="truecolor", no_color=False)
    assert "48;2;8;48;107m 1.00 " in coloured, "the most important is the darkest"
    assert "48;2;222;235;247m  .10x" in coloured, "and the least the palest"


def test_a_look_shows_no_smaller_model():
    looked = PruneReport(**{**vars(REPORT), "compared": {}, "folder": None, "lost": {}, "heads_after": None})
    text = "\n".join(lines(looked))
    assert "The original and the pruned model" not in text and "pushed" not in text and "x: removed" not in text


def test_a_refusal_names_its_reasons():
    refused = PruneReport(**{**vars(REPORT), "refused": ["accuracy is worse"]})
    assert "pushed nothing: accuracy is worse" in lines(refused)
    assert not refused.keeps_within(0.2) and refused.keeps_within(0.25)
    lower = PruneReport(**{**vars(REPORT), "better": "lower"})
    assert lower.keeps_within(0.0), "of a loss, less is better"
