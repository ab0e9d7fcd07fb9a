"""Runs as a report meets them: whole, refused, failed, of older versions, of studies; in a real store."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from made_data import report_of, reviews, statistics_of
from made_rows import TASKS, random_predictions
from pages import HOSTILE
from recorded_runs import Record, answers, falling, judged

from bertline.components.evaluator.predictions.rows import EvaluationPredictions
from bertline.components.evaluator.predictions.scores import scores
from bertline.components.evaluator.verdict import Verdict
from bertline.components.reports.data import look

SPLITS = {"train": reviews(300, texts={0: HOSTILE, 1: HOSTILE}), "eval": reviews(200, seed=1)}
JUDGEMENT = {
    "anomalies": [{"split": "train", "feature": "words", "what": f"too long {HOSTILE}", "remedy": "Cut them."}],
    "allowed": True,
    "drift": [],
}
MODEL = {"parameters": 4_400_000, "bytes": 17_600_000, "sizes": {"layers": 2, "hidden": 128, "heads": 2, "pruned": []}}
SERVED = {
    "blessed": True,
    "skipped": False,
    "server": "the embedded server",
    "samples": 4,
    "median_ms": 3.5,
    "slowest_ms": 9,
}
PARAMS = {
    "model.size": "tiny",
    "machine.cores": 2,
    "version.keras": "3.15.1",
    "training.seed": 42,
    "evaluation.slice_thresholds.accuracy": 0.95,
    "evaluation.min_slice_examples": 50,
}


def version(workspace: Path, number: int) -> dict[str, str]:
    """The tags of a run that has pushed a version."""
    path = workspace / "models" / "reviews" / str(number)
    return {"pushed_version": str(number), "pushed_path": str(path), "pushed_digest": f"{number:064x}"}


def of_task(task: str) -> tuple[EvaluationPredictions, Verdict]:
    """Rows of any task, and what an evaluator says of them."""
    rows = random_predictions(task, 60)
    less = [name for name, metric in rows.description.metrics.items() if metric.better == "lower"]
    return rows, Verdict(blessed=True, reasons=[], metrics={**scores(rows), "rows": 60}, slices={}, less_is_better=less)


class Reported:
    """The ids of the runs of a workspace."""

    def __init__(self, folder: Path) -> None:
        self.workspace = folder / "workspace"
        self.record = record = Record(self.workspace)
        statistics = {split: statistics_of(rows) for split, rows in SPLITS.items()}
        data = look(report_of(SPLITS), statistics, JUDGEMENT, slices=["source"])
        before = answers(right=0.75, seed=3)
        self.first = record.run("first", verdict=judged(before), rows=before, tags=version(self.workspace, 1))
        texts = {row: f"{HOSTILE} {row}" for row in range(0, 200, 3)}
        rows = answers(right=0.9, seed=1, texts=texts)
        verdict = replace(
            judged(rows),
            baseline=version(self.workspace, 1)["pushed_path"],
            baseline_metrics=judged(before).metrics,
            baselines={"majority": {"accuracy": 0.5}, "tf-idf": {"accuracy": 0.7, "matthews": 0.4}},
            baseline_seconds=1.25,
        )
        steps = {"Ingest": ("1", "cached", 2.5), "Trainer": ("7", "run", 40.0)}
        self.whole = record.run(
            f"whole 🚀 {HOSTILE}",
            params=PARAMS,
            verdict=verdict,
            rows=rows,
            curves={
                "train/loss": falling(0.7, 0.3, 90),
                "train/tokens_per_second": [100.0, 300.0],
                "eval_epoch/accuracy": [0.6, 0.9],
                "system/process_memory_megabytes": [900.0, 1200.0, 1000.0],
                **{f"step/{name}/seconds": [seconds] for name, (*_, seconds) in steps.items()},
            },
            tags={
                **version(self.workspace, 2),
                **{f"mlmd.execution.{name}": number for name, (number, *_) in steps.items()},
                **{f"step.{name}": how for name, (_, how, _) in steps.items()},
                "mlmd.artifact.Trainer.model": "12",
                "git.commit": "c0ffee",
                "page.data": "data/page.html",
            },
            files={
                "data/page.json": data.model_dump_json(),
                "model.json": json.dumps(MODEL),
                "serve_check.json": json.dumps(SERVED),
            },
        )
        bad = judged(answers(right=0.6), blessed=False)
        reason = f"accuracy 0.6000 is below its threshold 0.8 on {HOSTILE}"
        self.refused = record.run("refused", verdict=replace(bad, reasons=[reason]), tags={"reasons": reason})
        error = f"The loss is not finite {HOSTILE}.\nLower training.learning_rate."
        self.failed = record.run("failed", status="FAILED", tags={"error": error, "failed_step": "Trainer"})
        self.running = record.run("running", status="RUNNING")
        self.older = self._older(statistics)
        self.torn = record.run(
            "torn",
            verdict=judged(rows),
            files={
                "verdict.json": "{",
                "data/page.json": '{"read": "many"}',
                "model.json": "[1",
                "evaluation/rows.parquet": "x",
            },
        )
        self.seeds, self.part = self._seeds()
        self.broken = record.run("broken study", status="KILLED", tags={"study": "search"})
        self.tasks = {}
        for task in TASKS:
            of_rows, of_verdict = of_task(task)
            self.tasks[task] = record.run(task, params={"task": task}, verdict=of_verdict, rows=of_rows)

    def _older(self, statistics) -> str:
        """Recorded before there were pages: the parts of the data, and nothing of the model's size."""
        files = {
            "data/report.json": json.dumps(report_of(SPLITS)),
            "data/anomalies.json": '{"anomalies": [], "allowed": false}',
        }
        run_id = self.record.run("older", verdict=judged(answers(right=0.8)), files=files)
        folder = self.workspace / "statistics"
        folder.mkdir()
        for split, found in statistics.items():
            (folder / f"{split}.pb").write_bytes(found.SerializeToString())
            self.record.client.log_artifact(run_id, str(folder / f"{split}.pb"), "data/statistics")
        return run_id

    def _seeds(self) -> tuple[str, str]:
        record = self.record
        study = record.run(
            "seeds",
            tags={"study": "seeds", "best_seed": "2", "blessed": "true", **version(self.workspace, 3)},
            curves={"mean/accuracy": [0.8], "std/accuracy": [0.05], "mean_without_collapsed/accuracy": [0.9]},
        )
        parts = []
        for seed, right in ((1, 0.85), (2, 0.95), (3, 0.5)):
            rows = answers(right=right, seed=seed)
            collapsed = {"collapsed": "its loss did not fall" if seed == 3 else "no"}
            tags = {"study": "seeds", "seed": str(seed), "mlflow.parentRunId": study, **collapsed}
            parts.append(
                record.run(
                    f"seed {seed}", verdict=judged(rows), rows=rows, curves={"train/loss": falling(0.7, 0.4)}, tags=tags
                )
            )
        return study, parts[1]
