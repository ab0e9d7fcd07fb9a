"""The record of a pruning: an MLflow run under the one that has made the model, where the store has that."""

from __future__ import annotations

import datetime
import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bertline.components.tracking.backend.store import is_there, open_store
from bertline.components.tracking.encoder_run import find_pushing_run
from bertline.components.tracking.tracker import Part, Tracker
from bertline.pipeline.config import Config, without_password
from bertline.pipeline.core import events
from bertline.pipeline.prune.report import PruneReport
from bertline.pipeline.runs.store import store_of


def address(name: str, workspace: str) -> Config:
    """Where the record goes: to the store of the workspace, if it has one. What the config says besides is not meant."""
    uri = store_of(workspace)
    tracking = {"enabled": is_there(uri), "uri": uri}
    rest = {"data": {"path": workspace}, "evaluation": {"thresholds": {"accuracy": 0}}}
    return Config.model_validate({"name": name, "workspace": workspace, "tracking": tracking, **rest})


@contextmanager
def recorded(
    config: Config, metadata: Mapping[str, Any], report: PruneReport, told: Mapping[str, Any]
) -> Iterator[Tracker]:
    """Keeps the record of what is done inside true, however it ends.

    Args:
      config: of `address`.
      metadata: of the model.
      report: is filled in inside, and is then what is recorded.
      told: what it is done by; the run's params.
    """
    tracker = _tracker(config, metadata, report, told)
    tracker.start()
    status, tags = "FAILED", {"status": "failed", "pruned_from": report.digest}
    try:
        with events.listening(tracker.hear):
            yield tracker
        status, tags["status"] = "FINISHED", "succeeded"
    except KeyboardInterrupt:
        tags["status"] = "interrupted"
        raise
    finally:
        _tell(report, tracker)
        if report.pushed_version:
            tags |= {"pushed_version": str(report.pushed_version), "pushed_path": str(report.pushed_path)}
        tracker.finish(status, tags)
        report.mlflow_run_id, report.tracking_problem = tracker.mlflow_run_id, tracker.problem
        report.mlflow_uri = without_password(config.tracking_uri) if config.tracking.enabled else None


def _tracker(config: Config, metadata: Mapping[str, Any], report: PruneReport, told: Mapping[str, Any]) -> Tracker:
    above, experiment = _made_by(config, metadata.get("mlflow_run_id"), report.digest)
    if experiment:
        config = config.model_copy(update={"tracking": config.tracking.model_copy(update={"experiment": experiment})})
    run_id = datetime.datetime.now().isoformat()
    facts = {name: getattr(report, name) for name in ("name", "task", "model", "digest", "metric", "rows")}
    part = Part(
        title=f"{report.name} heads {run_id[:19]}",
        tags={"study": "heads"},
        parent=Tracker(config, above) if above else None,
        params={**told, **facts},
    )
    return Tracker(config, run_id, part)


def _made_by(config: Config, run_id: str | None, digest: str) -> tuple[str | None, str | None]:
    """The key of the run that has pushed the model, and its experiment; nothing where the store does not have it."""
    if not config.tracking.enabled:
        return None, None
    run, _ = find_pushing_run(config.tracking_uri, run_id, digest)
    if run is None or "line_run_id" not in run.data.tags:
        return None, None
    experiment = open_store(config.tracking_uri).get_experiment(run.info.experiment_id)
    return run.data.tags["line_run_id"], experiment.name


def _tell(report: PruneReport, tracker: Tracker) -> None:
    """What there is, also where it broke off."""
    if not report.curve:
        return
    for point in report.curve:
        tracker.measure({f"curve/{report.metric}": point["value"]}, step=int(point["heads"]))
    tracker.measure({"original/heads": report.heads_before, "pruned/heads": report.heads_after})
    compared = report.compared
    for what in ("parameters", "bytes", "rows_per_second"):
        tracker.measure({f"{which}/{what}": value for which, value in compared.get(what, {}).items()})
    tracker.measure({"pruned/speed": compared.get("speed")})
    for name, values in compared.get("metrics", {}).items():
        # Under `eval/`, as of any other run: what its model reaches.
        tracker.measure({f"original/{name}": values["original"], f"eval/{name}": values["pruned"]})
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "prune.json").write_text(json.dumps(asdict(report), indent=1))
        tracker.keep_outputs("Prune", {"report": folder})
