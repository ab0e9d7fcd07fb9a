"""From the number of a version, as a server's answer has it, back to what made it.

The version's metadata names its model's digest, the digest of its data and the MLflow run that pushed it. Where metadata
has no run, because it was pushed elsewhere or before metadata had one, the run is found by the digest that it was tagged
with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bertline.components.pusher.executor import pushed_versions, withdrawn_versions
from bertline.components.tracking.encoder_run import find_pushing_run
from bertline.models import kinds
from bertline.pipeline.config import without_password
from bertline.pipeline.config.renamed import current_params
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.core.storage import AnyPath
from bertline.pipeline.runs.store import store_of

SHOWN_PARAMS = (
    "data.path", "data.train", "data.eval", "data.test", "model.checkpoint", "model.size", "text.seq_len",
    "training.epochs", "training.batch_size", "training.learning_rate", "training.seed",
)  # fmt: skip
_METRIC = "eval/"


def find_lineage(destination: AnyPath, version: int, workspace: str) -> dict[str, Any]:
    """All that is known of a version, in plain values."""
    versions = [*pushed_versions(destination), *withdrawn_versions(destination)]
    pushed = next((pushed for pushed in versions if pushed.version == version), None)
    if pushed is None:
        known = ", ".join(str(number) for number in sorted({pushed.version for pushed in versions})) or "none"
        raise BertlineError(f"{destination}: there is no version {version}; there are {known}.")
    metadata = dict(pushed.metadata)
    if not metadata:
        raise BertlineError(
            f"{pushed.path}: no model metadata (assets.extra/bertline.json), so it was not pushed by Bertline"
            " and its lineage is unknown."
        )
    uri = store_of(workspace)
    run, problem = find_pushing_run(uri, metadata.get("mlflow_run_id"), metadata.get("digest"))
    found = {
        "version": version,
        "path": str(pushed.path),
        "withdrawn": pushed.withdrawn,
        "card": metadata,
        "mlflow_uri": without_password(uri),
        "mlflow_run_id": None,
        "problem": problem,
    }
    if run is None:
        return found
    return found | {
        "mlflow_run_id": run.info.run_id,
        "config": f"{run.info.artifact_uri}/config.json",
        "params": current_params(run.data.params),
        "metrics": {key.removeprefix(_METRIC): value for key, value in run.data.metrics.items() if key.startswith(_METRIC)},
        "commit": run.data.tags.get("git.commit"),
    }


def told(found: Mapping[str, Any]) -> str:
    """The same for a person."""
    metadata, params = found["card"], found.get("params", {})
    facts = {
        f"version {found['version']}": found["path"] + ("  (withdrawn)" if found["withdrawn"] else ""),
        "pipeline": metadata.get("pipeline"),
        "task": metadata.get("task"),
        "model": sentence.removeprefix("the model is ") if (sentence := kinds.describe_kind(metadata)) else None,
        "classes": ", ".join(metadata.get("labels", [])[:20]),
        "digest": metadata.get("digest"),
        "data": metadata.get("data_digest"),
        "MLflow run": f"{found['mlflow_run_id']}  in {found['mlflow_uri']}" if found["mlflow_run_id"] else found["problem"],
        "commit": found.get("commit"),
        "config": found.get("config"),
        **{f"  {name}": params[name] for name in SHOWN_PARAMS if params.get(name, "None") != "None"},
        **{name: f"{value:.4f}" for name, value in found.get("metrics", {}).items() if name != "rows"},
    }
    width = max(map(len, facts))
    return "\n".join(f"{name:<{width}}  {value}" for name, value in facts.items() if value)
