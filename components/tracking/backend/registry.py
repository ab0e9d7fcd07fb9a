"""Models in MLflow's registry: a version for each model that was trained, told apart by its digest.

The registry gets a pointer, a few lines that say where the model is, and never a copy of its weights. `candidate` is what
was trained last, `champion` what servers load. `pipeline/pyfunc.py` follows the pointer.
"""

from __future__ import annotations

import json
import platform
import tempfile
from pathlib import Path
from typing import Any

from bertline.components.tracking.backend.store import only_once
from bertline.components.tracking.journal import Operation
from bertline.pipeline.config import CHOICES

CANDIDATE, CHAMPION = "candidate", "champion"
POINTER = "pointer.json"
_LOADER = "bertline.pipeline.pyfunc"


def record(client: Any, model: Operation, experiment_id: str, run_id: str | None) -> None:
    """Makes the version of a model, where there is none, and lets aliases point to it."""
    name = model["name"]
    _make_name(client, name)
    version = _version(client, model)
    if version is None:
        model_id = _logged_model(client, model, experiment_id, run_id)
        # An operation that an older version of ours has left says nothing of its kind.
        kind = {"kind": model["kind"]} if "kind" in model else {}
        tags = {"digest": model["digest"], "task": model["task"], "path": model["path"], **kind}
        with only_once():
            version = client.create_model_version(
                name, f"models:/{model_id}", run_id=run_id, tags=tags, model_id=model_id, await_creation_for=0
            )
    elif version.tags.get("path") != model["path"]:  # it was pushed, or another has the same weights
        with tempfile.TemporaryDirectory() as folder:
            _write_pointer(model, folder)
            client.log_model_artifacts(version.model_id or str(version.source).removeprefix("models:/"), folder)
        client.set_model_version_tag(name, version.version, "path", model["path"])
    if model.get("version"):
        client.set_model_version_tag(name, version.version, "pushed_version", str(model["version"]))
    for alias in model["aliases"]:
        client.set_registered_model_alias(name, alias, version.version)


def _make_name(client: Any, name: str) -> None:
    from mlflow.exceptions import MlflowException

    try:
        client.create_registered_model(name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise


def _version(client: Any, model: Operation) -> Any:
    found = client.search_model_versions(f"name = '{model['name']}' and tags.digest = '{model['digest']}'", max_results=1)
    return found[0] if found else None


def _logged_model(client: Any, model: Operation, experiment_id: str, run_id: str | None) -> str:
    found = client.search_logged_models([experiment_id], f"tags.digest = '{model['digest']}'", max_results=1)
    if found:
        made = found[0]
    else:
        with only_once():
            made = client.create_logged_model(
                experiment_id,
                model["name"],
                source_run_id=run_id,
                tags={"digest": model["digest"], "mlflow.model.isExternal": "true"},
                model_type=model["task"],
            )
    _describe(client, model, made.model_id, run_id)
    client.finalize_logged_model(made.model_id, "READY")
    return made.model_id


def _describe(client: Any, model: Operation, model_id: str, run_id: str | None) -> None:
    """Writes MLflow's description of the model, with a pointer in place of the model itself."""
    from mlflow.models import Model

    with tempfile.TemporaryDirectory() as folder:
        _write_pointer(model, folder)
        described = Model(signature=_signature(model), model_id=model_id, run_id=run_id)
        described.add_flavor(
            "python_function", loader_module=_LOADER, data=POINTER, python_version=platform.python_version()
        )
        if model.get("example"):
            example = {"columns": list(model["example"]), "data": [list(model["example"].values())]}
            Path(folder, "input_example.json").write_text(json.dumps(example))
            described.saved_input_example_info = {
                "artifact_path": "input_example.json",
                "type": "dataframe",
                "pandas_orient": "split",
            }
        described.save(str(Path(folder, "MLmodel")))
        client.log_model_artifacts(model_id, folder)


def _write_pointer(model: Operation, folder: str) -> None:
    pointer = {"path": model["path"], "digest": model["digest"]}
    Path(folder, POINTER).write_text(json.dumps(pointer, indent=1) + "\n")


def _signature(model: Operation) -> Any:
    """By what the model is asked, and what it answered to a sample, where it has one."""
    import pandas as pd
    from mlflow.models import ModelSignature, infer_signature
    from mlflow.types import ColSpec, DataType, Schema
    from mlflow.types.schema import Array

    keys = model["inputs"]
    # A column without a name is one that a plain list of texts fills.
    names = [None] if len(keys) == 1 else keys
    types = [Array(DataType.string) if key == CHOICES else DataType.string for key in keys]
    inputs = Schema([ColSpec(kind, name) for kind, name in zip(types, names, strict=True)])
    answer = model.get("answer")
    outputs = infer_signature(pd.DataFrame([answer])).inputs if answer else None
    return ModelSignature(inputs, outputs)
