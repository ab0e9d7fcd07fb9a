"""The recorded runs of a workspace, read back from MLflow as plain values.

with run_store("workspace", "its runs") as store:
    for run in store.newest(5): print(run.short_id, run.scores)
"""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from bertline.components.tracking.backend.store import asking, only_match
from bertline.components.tracking.journal import journals
from bertline.pipeline.config import SPOOL, without_password
from bertline.pipeline.config.renamed import current_params
from bertline.pipeline.console import summary
from bertline.pipeline.core.errors import BertlineError

_PARENT = "mlflow.parentRunId"
_SCORE, _MEAN = "eval/", "mean/"
_BOUND = "evaluation.thresholds."
_PAGE = 50
_MAX_PAGES = 40  # of runs that are looked through for those that stand under no other
_MAX_PARTS = 200
_ID = re.compile(r"[0-9a-f]{4,32}")
_DIGEST = re.compile(r"[0-9a-f]+")
_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
_WORDS = {"RUNNING": "running", "FINISHED": "succeeded", "FAILED": "failed", "KILLED": "interrupted"}


@dataclass(frozen=True, kw_only=True)
class Run:
    """What MLflow has of a run, but for its curves and files."""

    run_id: str
    name: str
    started: float | None
    """Seconds since 1970."""
    seconds: float | None
    """None while it runs."""
    status: str
    params: Mapping[str, str]
    metrics: Mapping[str, float]
    """The last value of each."""
    tags: Mapping[str, str]

    @property
    def short_id(self) -> str:
        return self.run_id[:8]

    @property
    def pipeline(self) -> str:
        return self.tags.get("pipeline", "")

    @property
    def task(self) -> str:
        return self.params.get("task", "")

    @property
    def scores(self) -> dict[str, float]:
        """What the evaluator measured on all rows, or the means of a run over several; those with a bound first."""
        bounded = [key.removeprefix(_BOUND) for key in self.params if key.startswith(_BOUND)]
        prefix = _MEAN if self.is_over_several else _SCORE
        found = {key.removeprefix(prefix): value for key, value in self.metrics.items() if key.startswith(prefix)}
        names = [name for name in bounded if name in found]
        return {name: found[name] for name in (*names, *(name for name in sorted(found) if name not in names))}

    @property
    def is_over_several(self) -> bool:
        """Whether others stand under it, as of seeds, and its numbers are their means."""
        return any(key.startswith(_MEAN) for key in self.metrics)

    @property
    def was_cached(self) -> bool:
        """Whether its training came from the cache."""
        return self.tags.get("step.Trainer") == "cached"

    @property
    def parent(self) -> str | None:
        """The id of the run that it stands under."""
        return self.tags.get(_PARENT)

    @property
    def bounded(self) -> list[str]:
        """The metrics with a bound."""
        return [name for name in self.scores if f"{_BOUND}{name}" in self.params]

    @property
    def blessed(self) -> bool | None:
        return {"true": True, "false": False}.get(self.tags.get("blessed", ""))

    @property
    def pushed_version(self) -> str | None:
        version = self.tags.get("pushed_version", "none")
        return None if version == "none" else version


class Registered(NamedTuple):
    """A version in MLflow's registry."""

    name: str
    version: str
    aliases: tuple[str, ...]


class RunStore:
    def __init__(self, client: Any, uri: str) -> None:
        self._client, self.uri = client, uri
        self._downloads = tempfile.TemporaryDirectory(prefix="bertline-runs-")

    def newest(self, count: int, *, pipeline: str | None = None, parts: bool = False) -> list[Run]:
        """The newest runs of the pipeline, of one pipeline or of all, the newest first.

        Args:
          parts: also those that stand under another, as the trainings of several seeds do.
        """
        if pipeline is not None and not _NAME.fullmatch(pipeline):
            raise BertlineError(f"{pipeline!r} is no name of a pipeline: those have small letters, digits and dashes.")
        wanted = f"tags.pipeline = '{pipeline}'" if pipeline else "tags.pipeline LIKE '%'"
        experiments = [experiment.experiment_id for experiment in self._client.search_experiments()]
        found: list[Run] = []
        token = None
        for _ in range(_MAX_PAGES if experiments else 0):
            page = self._client.search_runs(
                experiments, wanted, max_results=_PAGE, order_by=["attributes.start_time DESC"], page_token=token
            )
            found += [_run(run) for run in page if parts or _PARENT not in run.data.tags]
            token = page.token
            if len(found) >= count or not token:
                break
        return found[:count]

    def find(self, reference: str) -> Run:
        """The run of an id, or of its first digits where no other begins so."""
        if not _ID.fullmatch(reference):
            raise BertlineError(
                f"{reference!r} is not the id of a run, nor its first 4 digits or more, nor a version such as v7;"
                " `bertline runs` lists them."
            )
        return _run(only_match(self._client, reference, self.uri))

    def parts(self, run_id: str) -> list[Run]:
        """The runs that stand under another, as of its seeds, in the order in which they began."""
        experiments = [self._client.get_run(run_id).info.experiment_id]
        wanted = f"tags.`{_PARENT}` = '{run_id}'"
        found = self._client.search_runs(
            experiments, wanted, max_results=_MAX_PARTS, order_by=["attributes.start_time ASC"]
        )
        return [_run(run) for run in found]

    def that_pushed(self, path: str) -> Run | None:
        """The first run whose model stands in the folder of a version; None where the record has none."""
        if "'" in path:  # which MLflow's language has no way to write
            return None
        experiments = [experiment.experiment_id for experiment in self._client.search_experiments()]
        wanted = f"tags.pushed_path = '{path}'"
        found = self._client.search_runs(
            experiments, wanted, max_results=_MAX_PARTS, order_by=["attributes.start_time ASC"]
        )
        # A run over several has pushed what one of them has trained, and evaluated.
        return next((run for run in map(_run, found) if not run.is_over_several), None)

    def registered(self, run_id: str, digest: str | None) -> list[Registered]:
        """The versions of MLflow's registry that a run has made, or that are the very model that it pushed."""
        wanted = [f"run_id = '{run_id}'"]
        if digest and _DIGEST.fullmatch(digest):
            wanted.append(f"tags.digest = '{digest}'")
        found = {
            (version.name, version.version): self._client.get_model_version(version.name, version.version)
            for each in wanted
            for version in self._client.search_model_versions(each, max_results=_MAX_PARTS)
        }
        return [Registered(name, str(number), tuple(version.aliases)) for (name, number), version in sorted(found.items())]

    def text(self, run_id: str, path: str) -> str | None:
        """A file of a run as text; None where it has none of that name."""
        found = self.file(run_id, path)
        return found.read_text(encoding="utf-8", errors="replace") if found else None

    def curve(self, run_id: str, metric: str) -> list[tuple[int, float, float]]:
        """Step, seconds since 1970 and value of each time that a metric was measured, in order."""
        history = self._client.get_metric_history(run_id, metric)
        return sorted((point.step, point.timestamp / 1000, point.value) for point in history)

    def file(self, run_id: str, path: str) -> Path | None:
        """A file of a run, brought here; None where it has none of that name."""
        folder = path.rpartition("/")[0]
        if all(kept.path != path for kept in self._client.list_artifacts(run_id, folder or None)):
            return None
        destination = Path(self._downloads.name) / run_id
        destination.mkdir(exist_ok=True)
        return Path(self._client.download_artifacts(run_id, path, str(destination)))

    def close(self) -> None:
        self._downloads.cleanup()


@contextmanager
def run_store(workspace: str, what: str) -> Iterator[RunStore]:
    """The store of a workspace; that it is not there, or does not answer, is one sentence, which ends with `what`."""
    uri = store_of(workspace)
    with asking(uri, what, _unsent(workspace) or "tracking.uri names another") as client:
        store = RunStore(client, uri)
        try:
            yield store
        finally:
            store.close()


def _unsent(workspace: str) -> str:
    """How to have MLflow told of what it has not been told of yet; nothing where there is no such thing."""
    if all(journal.is_sent for journal in journals(Path(workspace) / SPOOL)):
        return ""
    elsewhere = "" if workspace == "workspace" else f" --workspace {shlex.quote(workspace)}"
    return f"it was not sent everything yet, `bertline sync{elsewhere}` does that"


def store_of(workspace: str) -> str:
    """The MLflow store that the last run of the workspace wrote to."""
    last = summary.read(workspace) or {}
    named, wrote_to = os.environ.get("MLFLOW_TRACKING_URI"), last.get("mlflow_uri")
    if named and wrote_to in (None, without_password(named)):
        return named  # with its password
    return wrote_to or f"sqlite:///{Path(workspace).absolute() / 'mlflow.db'}"


def _run(run: Any) -> Run:
    started, ended = run.info.start_time, run.info.end_time
    return Run(
        run_id=run.info.run_id,
        name=run.info.run_name or run.info.run_id[:8],
        started=started / 1000 if started else None,
        seconds=(ended - started) / 1000 if started and ended else None,
        status=run.data.tags.get("status") or _WORDS.get(run.info.status, run.info.status.lower()),
        params=current_params(run.data.params),
        metrics=dict(run.data.metrics),
        tags=dict(run.data.tags),
    )
