"""A tiny line for the tests: generated reviews that can be learned, a config for them, and a way to run it in-process.

One process imports TFX once; a run of this pipeline then takes seconds.
"""

from __future__ import annotations

import csv
import json
import os
import random
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from click.testing import CliRunner

GOOD = "wonderful brilliant moving superb café 好 delightful".split()
BAD = "dreadful boring clumsy naïve hollow 坏 lifeless".split()
FILLING = "the film a plot of this with its and scene actor story ending 🎬 e\u0301tude ＡＢＣ\u3000wide".split(" ")

CONFIG = {
    "name": "tiny",
    "data": {"path": "reviews.csv", "text": "text", "label": "label"},
    "text": {"vocab_size": 300, "seq_len": 32},
    "model": {"num_layers": 1, "hidden_dim": 32, "num_heads": 2, "intermediate_dim": 64},
    "training": {"epochs": 10, "batch_size": 16, "learning_rate": 0.005, "buckets": [8, 16, 32]},
    # One word tells the class: TF-IDF is never wrong. Baselines are measured all the same.
    "evaluation": {
        "thresholds": {"accuracy": 0.8},
        "must_beat_baselines": False,
        "max_drop": 0.2,
        "slices": ["source"],
        "length_slices": [8],
    },
}

UNSERVED: dict[str, Any] = {"serve_check": {"enabled": False}}
"""Of a pipeline whose tests do not look at ServeCheck: its server takes seconds to start."""
ALONE: dict[str, Any] = {**UNSERVED, "tracking": {"enabled": False}}
"""Of one whose tests do not look at MLflow either."""


def make_rows(count: int = 300, seed: int = 0) -> list[dict[str, str]]:
    """Rows whose class follows from one word; no two texts are equal, so that no pair falls into both splits."""
    chance = random.Random(seed)
    rows = []
    for number in range(count):
        label = chance.choice(("good", "bad"))
        words = [chance.choice(FILLING) for _ in range(chance.randint(3, 14))]
        words.insert(chance.randrange(len(words)), chance.choice(GOOD if label == "good" else BAD))
        rows.append({"text": " ".join([*words, str(number)]), "label": label, "source": chance.choice(("web", "paper"))})
    return rows


def write_csv(path: Path, rows: list[dict[str, str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def write_config(folder: Path, **changes: Any) -> Path:
    """CONFIG with sections changed: `training={"epochs": 1}` changes one key of one section."""
    config = json.loads(json.dumps(CONFIG))
    for section, values in changes.items():
        config[section] = {**config.get(section, {}), **values} if isinstance(values, dict) else values
    path = folder / "tiny.yaml"
    path.write_text(yaml.safe_dump(config, allow_unicode=True))
    return path


class Outcome(NamedTuple):
    exit_code: int
    output: str


class Line:
    """A folder with data, a config and a workspace."""

    def __init__(self, folder: Path) -> None:
        """With data and a config of its own; a folder that has them keeps them."""
        self.folder, self.workspace, self.config = folder, folder / "workspace", folder / "tiny.yaml"
        if not self.config.exists():
            write_csv(folder / "reviews.csv", make_rows())
            write_config(folder)

    def run(self, *arguments: str) -> Outcome:
        """`bertline run`, in this process."""
        return self.call("run", str(self.config), *arguments)

    def call(self, *arguments: str) -> Outcome:
        """Any command of `bertline` in this workspace, in this process."""
        from bertline.pipeline.cli import main

        with tempfile.TemporaryFile("w+") as printed:
            # The display writes to the file descriptor itself, past what CliRunner catches.
            kept = os.dup(1)
            os.dup2(printed.fileno(), 1)
            try:
                result = CliRunner().invoke(main, [*arguments, "--workspace", str(self.workspace)])
            finally:
                os.dup2(kept, 1)
                os.close(kept)
            printed.seek(0)
            return Outcome(result.exit_code, printed.read() + result.output)

    @property
    def summary(self) -> dict[str, Any]:
        return json.loads((self.workspace / "summary.json").read_text())

    def steps_run(self) -> list[str]:
        return [step["name"] for step in self.summary["steps"] if not step["cached"]]

    def scores_while_training(self) -> dict[str, tuple[float, float]]:
        """The task's own metrics after the last epoch, as the Trainer measured them, each beside the Evaluator's."""
        history = [json.loads(line) for line in (self.artifact("Trainer", "model_run") / "history.jsonl").open()]
        last = [record for record in history if "eval_loss" in record][-1]
        measured = self.summary["metrics"]
        return {name: (last[f"eval_{name}"], value) for name, value in measured.items() if f"eval_{name}" in last}

    def rows_agree(self) -> bool:
        """Whether the metrics of the evaluation examples that the Evaluator kept are those that it measured."""
        from bertline.components.evaluator.predictions.rows import EvaluationPredictions
        from bertline.components.evaluator.predictions.scores import scores

        rows, measured = EvaluationPredictions.read(self.artifact("Evaluator", "evaluation")), dict(self.summary["metrics"])
        # Those of TFMA are added up in float32.
        return len(rows) >= measured.pop("rows") > 0 and scores(rows) == pytest.approx(measured, rel=1e-6, abs=1e-6)

    def artifact(self, step: str, output: str) -> Path:
        """The newest artifact of a step."""
        folder = self.workspace / "pipelines" / "tiny" / "artifacts" / step / output
        return max(folder.iterdir(), key=lambda path: int(path.name))
