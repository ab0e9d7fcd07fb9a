"""What the record of runs is asked: which encoder `model.checkpoint: runs:/ID` is, and which run has pushed a model.

Asking changes nothing: MLflow makes a store that is not there, so it is looked for first.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from pipeline.config import without_password
from pipeline.errors import BertlineError
from serving.contract import ENCODER, read_card

SCHEME = "runs:"
_REFERENCE = re.compile(r"runs:/([0-9a-f]{6,32})")
_WHOLE = 32
# MLflow goes on asking a dead server for minutes; here somebody waits for the answer.
_PATIENCE = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1", "MLFLOW_HTTP_REQUEST_TIMEOUT": "15"}


class EncoderRun(NamedTuple):
    run_id: str
    model: Path
    """The pushed model, whose `assets.extra/encoder` is the encoder."""


def find_run(reference: str, uri: str) -> EncoderRun:
    """The pre-training that `runs:/ID` names in the MLflow store at `uri`; of an ID, the start will do if no other has it.

    Raises a BertlineError that says which of these is wrong: the ID, the store, the run, or what it pushed.
    """
    match = _REFERENCE.fullmatch(reference)
    if not match:
        raise BertlineError(
            f"{reference} is not runs:/ and the id of an MLflow run, or its first 6 digits or more; copy the id from the"
            " summary of the pre-training."
        )
    run = _ask(match[1], uri)
    run_id, tags, task = run.info.run_id, run.data.tags, run.data.params.get("task")
    if task != "pretraining":
        did = f"has the task {task}" if task else "is not one of Bertline"
        raise BertlineError(f"the run {run_id} {did}; only the task pretraining hands on an encoder.")
    if tags.get("pushed_version", "none") == "none":
        raise BertlineError(f"the run {run_id} has pushed nothing: {_why_nothing(tags)}.")
    if "pushed_path" not in tags:
        raise BertlineError(
            f"the record of the run {run_id} does not say where its model is; name the pushed folder instead."
        )
    model = Path(tags["pushed_path"])
    if not model.is_dir():
        raise BertlineError(f"{model}, which the run {run_id} has pushed, is gone from this machine; run it again.")
    if read_card(model).get("digest") != tags.get("pushed_digest"):
        raise BertlineError(f"{model} is no longer what the run {run_id} has pushed there; name a folder instead.")
    if not (model / ENCODER).is_dir():
        raise BertlineError(f"{model}, which the run {run_id} has pushed, has no {ENCODER}; run it again.")
    return EncoderRun(run_id, model)


def find_pushing_run(uri: str, run_id: str | None, digest: str | None) -> tuple[Any, str | None]:
    """The MLflow run that pushed a model, or None and a sentence that says why it is not known.

    Args:
      uri: the store to look in.
      run_id: the run, where the model's card names it.
      digest: of the model; runs are tagged with it. Of several, for a run may find its model pushed already, the first one
        that trained it is taken.
    """
    shown = without_password(uri)
    if not _is_there(uri):
        return None, f"there is no MLflow store {shown} to look for its run in"
    try:
        with _impatient():
            client = open_store(uri)
            found = _matching(client, run_id) if run_id else []
            if not found and digest:
                experiments = [experiment.experiment_id for experiment in client.search_experiments()]
                wanted = f"tags.pushed_digest = '{digest}'"
                found = client.search_runs(experiments, wanted, order_by=["attributes.start_time ASC"])
                found = [run for run in found if run.data.tags.get("step.Trainer") == "run"] or list(found)
    except Exception as error:
        first_line = next(iter(str(error).splitlines()), "")
        return None, f"the MLflow store {shown} cannot be asked: {without_password(first_line)[:200]}"
    return (found[0], None) if found else (None, f"no run in the MLflow store {shown} has pushed it")


def open_store(uri: str) -> Any:
    """MLflow's client; importing it takes seconds."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
    from mlflow.tracking import MlflowClient

    return MlflowClient(tracking_uri=uri)


def _ask(run_id: str, uri: str) -> Any:
    """The run whose id is `run_id` or, if it is the only one, begins with it."""
    shown = without_password(uri)
    if not _is_there(uri):
        raise BertlineError(
            f"there is no MLflow store {shown} to look for the run {run_id} in; tracking.uri names another."
        )
    try:
        with _impatient():
            found = _matching(open_store(uri), run_id)
    except Exception as error:
        first_line = next(iter(str(error).splitlines()), "")
        raise BertlineError(
            f"the MLflow store {shown} cannot be asked for the run {run_id}:"
            f" {type(error).__name__}: {without_password(first_line)[:200]}"
        ) from None
    if not found:
        raise BertlineError(f"there is no run {run_id} in the MLflow store {shown}; tracking.uri names another store.")
    if len(found) > 1:
        raise BertlineError(f"{run_id} is the start of several runs in the MLflow store {shown}; write more of the id.")
    return found[0]


def _matching(client: Any, run_id: str) -> list[Any]:
    from mlflow.exceptions import MlflowException

    if len(run_id) < _WHOLE:
        experiments = [experiment.experiment_id for experiment in client.search_experiments()]
        return client.search_runs(experiments, f"attributes.run_id LIKE '{run_id}%'", max_results=2)
    try:
        run = client.get_run(run_id)
    except MlflowException as error:
        if error.error_code == "RESOURCE_DOES_NOT_EXIST":
            return []
        raise
    return [run] if run.info.lifecycle_stage == "active" else []  # MLflow keeps what was deleted


def _is_there(uri: str) -> bool:
    """Whether a store of this machine is there; a server is there or says so itself."""
    kind, _, rest = uri.partition("://")
    if kind.startswith("sqlite"):
        path = Path(rest.removeprefix("/").partition("?")[0])
        if not path.is_file():
            return False
        try:
            with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
                return bool(database.execute("SELECT 1 FROM sqlite_master WHERE name = 'runs'").fetchall())
        except sqlite3.Error:
            return False
    parts = urlsplit(uri)
    return parts.scheme not in ("", "file") or Path(unquote(parts.path)).is_dir()


@contextmanager
def _impatient() -> Iterator[None]:
    ours = {name: value for name, value in _PATIENCE.items() if name not in os.environ}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name in ours:
            del os.environ[name]


def _why_nothing(tags: dict[str, str]) -> str:
    if tags.get("blessed") == "false":
        return f"its model was refused, because {tags.get('reasons')}"
    return {"failed": "it failed", "interrupted": "it was interrupted"}.get(tags.get("status", ""), "it has not ended")
