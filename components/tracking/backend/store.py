"""The MLflow store that runs are recorded in: how it is opened, and how it is asked without being changed.

Asking changes nothing: MLflow makes a store that is not there, so it is looked for first.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from bertline.pipeline.config import without_password
from bertline.pipeline.core.errors import BertlineError

_SERVERS = ("http:", "https:", "databricks")
_RETRIES = "MLFLOW_HTTP_REQUEST_MAX_RETRIES"
# MLflow goes on asking a dead server for minutes; here somebody waits for the answer.
PATIENCE = {_RETRIES: "1", "MLFLOW_HTTP_REQUEST_TIMEOUT": "15"}


def open_store(uri: str) -> Any:
    """MLflow's client; importing it takes seconds."""
    return import_mlflow().MlflowClient(tracking_uri=uri)


def import_mlflow() -> Any:
    quiet()
    import mlflow

    return mlflow


def make_ready(uri: str) -> None:
    """Makes the tables of a new sqlite store, once and whole.

    MLflow makes them one by one when it first opens the file: two processes that do so at once, or one that is killed over
    it, leave a store that can never be opened again. Here they are made in another file, which then gets the name.
    """
    path = _sqlite_path(uri)
    if path is None or is_there(uri) or not path.parent.is_dir():
        return
    with path.with_name(f"{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if path.is_file() and path.stat().st_size:
            return
        unfinished = path.with_name(f"{path.name}.new")
        unfinished.unlink(missing_ok=True)
        open_store(f"sqlite:///{unfinished.absolute()}").search_experiments(max_results=1)
        os.replace(unfinished, path)


def quiet() -> None:
    """No word of what is done here goes to others; nor do progress bars, and the absence of git, go to the terminal."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")


@contextmanager
def asking(uri: str, what: str, remedy: str = "tracking.uri names another") -> Iterator[Any]:
    """MLflow's client of a store that is there; that it is not, or does not answer, is one sentence.

    Args:
      uri: of the store.
      what: is looked for in it; ends the sentence, as `the run 123abc`.
      remedy: what to do where there is none.
    """
    shown = without_password(uri)
    if not is_there(uri):
        raise BertlineError(f"there is no MLflow store {shown} to look for {what} in; {remedy}.")
    try:
        with impatient():
            yield open_store(uri)
    except Exception as error:
        if not isinstance(error, _failures()):
            raise
        first_line = next(iter(str(error).splitlines()), "")
        raise BertlineError(
            f"the MLflow store {shown} cannot be queried for {what}: {type(error).__name__}:"
            f" {without_password(first_line)[:200]}"
        ) from None


def _failures() -> tuple[type[Exception], ...]:
    """What a store that does not answer raises; anything else is a fault of ours, and keeps its trace."""
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    return MlflowException, SQLAlchemyError, OSError, ImportError  # the last: of a database whose driver is not installed


def is_there(uri: str) -> bool:
    """Whether a store of this machine is there; a server is there or says so itself."""
    if path := _sqlite_path(uri):
        if not path.is_file():
            return False
        try:
            with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
                return bool(database.execute("SELECT 1 FROM sqlite_master WHERE name = 'runs'").fetchall())
        except sqlite3.Error:
            return False
    parts = urlsplit(uri)
    return parts.scheme not in ("", "file") or Path(unquote(parts.path)).is_dir()


def files_folder(uri: str, workspace: Path) -> str | None:
    """Where a new experiment keeps its files: a server decides for itself.

    Beside a database that is spoken to directly MLflow would put them under the working directory.
    """
    return None if uri.startswith(_SERVERS) else (workspace.absolute() / "mlflow-artifacts").as_uri()


def _sqlite_path(uri: str) -> Path | None:
    """The file of an sqlite store; None for a store of another kind."""
    kind, _, rest = uri.partition("://")
    return Path(rest.removeprefix("/").partition("?")[0]) if kind.startswith("sqlite") else None


@contextmanager
def impatient() -> Iterator[None]:
    ours = {name: value for name, value in PATIENCE.items() if name not in os.environ}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name in ours:
            del os.environ[name]


@contextmanager
def only_once() -> Iterator[None]:
    """For a call that makes something: repeated by MLflow, after its answer was lost, it would make it twice."""
    before = os.environ.get(_RETRIES)
    os.environ[_RETRIES] = "0"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_RETRIES]
        else:
            os.environ[_RETRIES] = before


def matching(client: Any, run_id: str) -> list[Any]:
    """The runs whose id is `run_id` or begins with it: two at most, for more are not needed to know that it is not one."""
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


def only_match(client: Any, run_id: str, uri: str) -> Any:
    """The run whose id is `run_id` or, if it is the only one, begins with it."""
    found, shown = matching(client, run_id), without_password(uri)
    if not found:
        raise BertlineError(f"there is no run {run_id} in the MLflow store {shown}; tracking.uri names another store.")
    if len(found) > 1:
        raise BertlineError(f"{run_id} matches several runs in the MLflow store {shown}; give more of the id.")
    return found[0]


_WHOLE = 32  # digits of an id
