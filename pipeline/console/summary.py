"""What a run came to: for a person, and as JSON for a program."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bertline.components.pusher.executor import latest
from bertline.models.kinds import without_encoder
from bertline.pipeline.config import Config
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.core.json_numbers import without_nan
from bertline.pipeline.core.storage import AnyPath, at

FILE_NAME = "summary.json"


@dataclass(kw_only=True)
class Summary:
    """Filled in step by step while the pipeline runs; what is not known stays empty."""

    name: str
    task: str
    status: str = "running"
    """running, succeeded, failed or interrupted. A refused model is a success of the pipeline: see `blessed`."""
    error: str | None = None
    """Why the run failed."""
    failed_step: str | None = None
    """At which the pipeline stopped."""
    rows: dict[str, Any] = field(default_factory=dict)
    """How many examples were read, went to each split, were left out or quarantined."""
    metrics: dict[str, float] = field(default_factory=dict)
    """Metrics of the model on the evaluation examples."""
    positive: str | None = None
    """The positive class of two, which f1, precision and recall are of."""
    positive_why: str = ""
    kind: str = "encoder"
    """What the model is: `encoder`, or `tf-idf` where that was better than the encoder that was trained from scratch."""
    kind_why: str = ""
    """Why it is no encoder."""
    undefined: dict[str, str] = field(default_factory=dict)
    """Metrics that the evaluation examples do not determine: why. Their value is null in JSON."""
    decided: dict[str, float] = field(default_factory=dict)
    """Calibration, threshold and abstention of the model's answers, in numbers."""
    decided_how: dict[str, str] = field(default_factory=dict)
    """The same in sentences."""
    slices: dict[str, dict[str, float]] = field(default_factory=dict)
    """Slice -> its metrics."""
    classes: dict[str, dict[str, float]] = field(default_factory=dict)
    """Class -> its precision, recall and f1, and its evaluation examples; of a task that finds entities, their types."""
    evaluation: str | None = None
    """Folder of what the Evaluator has left: its verdict, and the evaluation examples with the model's answers."""
    eval_losses: list[float] = field(default_factory=list)
    """Loss on the evaluation examples after each epoch."""
    baseline: dict[str, Any] = field(default_factory=dict)
    """`majority`: accuracy of always answering the most frequent class; `pushed`: metrics of the model pushed before."""
    baselines: dict[str, dict[str, float]] = field(default_factory=dict)
    """Simple baseline -> its metrics on the same evaluation examples, those with a threshold first."""
    test: dict[str, dict[str, float]] = field(default_factory=dict)
    """Metric -> `value`, `low` and `high` on the test examples, which chose nothing; none where there are none."""
    baseline_seconds: float = 0.0
    """What it took to measure them."""
    anomalies_allowed: bool = False
    blessed: bool | None = None
    """Whether the model may be pushed; None where nobody has judged it."""
    reasons: list[str] = field(default_factory=list)
    """Why it may not."""
    serve_check: dict[str, Any] = field(default_factory=dict)
    """What a fresh server made of the model: how many samples it was asked, the median answer in ms, the largest difference
    from the trained model's own answers. Its refusal is in `blessed` and `reasons`, as the evaluator's is."""
    pushed_version: int | None = None
    """None where the model was refused."""
    pushed_path: str | None = None
    """Folder of that version."""
    pushed_digest: str | None = None
    newest_version: int | None = None
    """What a server loads: newer than `pushed_version` when this very model was pushed before others."""
    withdrawn_version: int | None = None
    """This very model was pushed before, and withdrawn since by `bertline rollback`: it was not pushed again."""
    destination: str | None = None
    """Folder of the versions."""
    fresh_push: bool = False
    """Whether this very run has put the version there."""
    run_id: str | None = None
    """TFX's, by which the MLflow run is tagged; of a run that was resumed, the first one."""
    mlflow_run_id: str | None = None
    mlflow_uri: str | None = None
    tracking_problem: str | None = None
    seeds: dict[str, Any] | None = None
    """Of a run over several seeds: what each of them got, and mean and standard deviation; see
    `pipeline/studies/seeds.py`. All else is then that of the best one, but for `steps`, `seconds` and the MLflow run,
    which are those of all together."""
    steps: list[dict[str, Any]] = field(default_factory=list)
    """name, seconds, cached, and the reasons for which a step was not taken from the cache."""
    seconds: float = 0.0
    """What all of it took."""
    log: str | None = None
    """The file that has the output of the steps."""

    def tags(self) -> dict[str, str]:
        """What is to be seen of a run at a glance in MLflow."""
        return {
            "status": self.status,
            "blessed": str(self.blessed).lower(),
            "reasons": "; ".join(self.reasons) or "none",
            **({"positive_class": self.positive} if self.positive else {}),
            **({"model_kind": self.kind, "model_kind_why": self.kind_why} if without_encoder(self.kind, self.task) else {}),
            **self.pushed_tags(),
            "anomalies_allowed": str(self.anomalies_allowed).lower(),
            **self.failure_tags(),
        }

    def failure_tags(self) -> dict[str, str]:
        """Why a run failed, and where; nothing of one that did not."""
        found = {"error": self.error, "failed_step": self.failed_step}
        return {name: value for name, value in found.items() if value}

    def pushed_tags(self) -> dict[str, str]:
        return {
            "pushed_version": str(self.pushed_version or "none"),
            "pushed_path": self.pushed_path or "none",
            "pushed_digest": self.pushed_digest or "none",
        }

    def write(self, config: Config) -> Path:
        """Replaces the workspace's summary in one go: a reader never sees half of it."""
        path = Path(config.workspace) / FILE_NAME
        unfinished = path.with_suffix(".part")
        unfinished.write_text(json.dumps(without_nan(asdict(self)), indent=1) + "\n")
        os.replace(unfinished, path)
        return path


def read(workspace: str | Path) -> dict[str, Any] | None:
    path = Path(workspace) / FILE_NAME
    try:
        return json.loads(path.read_text()) if path.is_file() else None
    except ValueError as error:
        raise BertlineError(
            f"{path}: this is no summary of a run ({error}); remove it, or run the pipeline again."
        ) from None


@dataclass(frozen=True)
class Served:
    """A version that was pushed, and that commands take where none is named."""

    path: AnyPath
    name: str
    """The pipeline's."""
    instead: str = ""
    """What the user should know where it is not from the last run."""


def served(workspace: str | Path) -> Served | None:
    """The version that the last run pushed; where it is gone, or that run pushed none, the newest one beside it. A run of
    another pipeline that was refused does not hide what was pushed before it."""
    last = read(workspace) or {}
    name, pushed = str(last.get("name") or ""), last.get("pushed_path")
    if pushed and at(pushed).is_dir():
        return Served(at(pushed), name or at(pushed).parent.name)
    folder = at(pushed).parent if pushed else last.get("destination")
    newest = latest(folder) if folder else None
    if newest is None:
        models = Path(workspace) / "models"
        beside = (latest(other) for other in sorted(models.iterdir()) if other.is_dir()) if models.is_dir() else ()
        newest = max(filter(None, beside), key=lambda version: version.path.stat().st_mtime, default=None)
        if newest is None:
            return None
        name = newest.path.parent.name
    name = name or newest.path.parent.name
    if pushed or not last:
        return Served(newest.path, name)
    refused = f"the last run, of {last.get('name')}, pushed no model"
    return Served(newest.path, name, f"{refused}; this is version {newest.version} of {name}")


def served_now(workspace: str | Path) -> AnyPath | None:
    found = served(workspace)
    return found.path if found else None


def majority(labels: dict[str, int]) -> dict[str, Any]:
    """What always answering the most frequent class would reach.

    >>> majority({"good": 6, "bad": 4})
    {'label': 'good', 'accuracy': 0.6}
    """
    if not labels:
        return {}
    label = max(labels, key=lambda name: labels[name])
    return {"label": label, "accuracy": labels[label] / sum(labels.values())}
