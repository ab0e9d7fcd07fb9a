"""What each entry of a journal is in MLflow. Each may be done again without being recorded again.

Over 300 lines in one module: there is one short method for each kind of entry, in the table at its end, and they share the
client of one store.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bertline.components.reports.timeline import timeline
from bertline.components.tracking import files
from bertline.components.tracking.backend import registry
from bertline.components.tracking.backend.names import valid_name
from bertline.components.tracking.backend.redaction import status_of
from bertline.components.tracking.backend.store import make_ready, only_once, quiet
from bertline.components.tracking.drawings import Drawings
from bertline.components.tracking.journal import NOTHING, Journal, Operation, State, journals, link_or_copy

# A sender tries again by itself: it must not hang in one call for the minutes that MLflow would. One call is repeated once
# at once, for an entry of several calls would hardly get through a network that loses many answers.
_PATIENCE = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "0",
    "MLFLOW_ENABLE_ASYNC_TRACE_LOGGING": "false",
}
_FOR_GOOD = ("INVALID_PARAMETER_VALUE", "RESOURCE_DOES_NOT_EXIST", "RESOURCE_ALREADY_EXISTS", "INVALID_STATE")
_TOO_MUCH = (400, 413, 414, 415, 422)  # of HTTP: a proxy that does not let so large a file through never will
_DEFAULT = "MLFLOW_TRACKING_URI"
_PARENT = "mlflow.parentRunId"  # by which MLflow's own pages show one run under another
# By which they open an experiment in the view of model training: without it, in the one of GenAI apps.
_KIND = {"mlflow.experimentKind": "custom_model_development"}
_NOTE = "mlflow.note.content"  # its description of a run
_PAGE, _PAGES = "page.", "Pages: "
_MAX_PARAM, _MAX_TAG, _MAX_KEY, _BATCH = 6000, 5000, 250, 100


class Unresolved(Exception):
    """The entry is about a run that MLflow does not have yet; another journal will open it."""


@dataclass(frozen=True)
class Entry:
    """Where entries come from."""

    journal: Journal
    head: Operation
    spool: Path


def is_passing(error: Exception) -> bool:
    """Whether the same call may go well another time."""
    from mlflow.exceptions import MlflowException

    if isinstance(error, MlflowException):
        return error.error_code not in _FOR_GOOD
    return isinstance(error, OSError) and status_of(error) not in _TOO_MUCH  # requests' errors are such as well


class Store:
    """An MLflow store that is told of runs."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._client: Any = None
        self._found: dict[str, str] = {}  # key of a run -> its id

    @property
    def client(self) -> Any:
        if self._client is None:
            for name, value in _PATIENCE.items():
                os.environ.setdefault(name, value)
            quiet()
            make_ready(self._uri)
            from mlflow import MlflowClient

            self._client = MlflowClient(tracking_uri=self._uri, registry_uri=self._uri)
        return self._client

    def answers(self) -> bool:
        """Whether the store is well as such, where it did not take something."""
        try:
            self.client.search_experiments(max_results=1)
        except Exception:
            return False
        return True

    @contextmanager
    def _as_default(self) -> Iterator[None]:
        """MLflow's registry and its traces look at the store that is set for the whole process, and its children."""
        import mlflow

        before = os.environ.get(_DEFAULT)
        mlflow.set_tracking_uri(self._uri)
        try:
            yield
        finally:
            mlflow.set_tracking_uri(before)  # type: ignore[arg-type]  # None undoes it

    def apply(self, entry: Entry, operations: Sequence[Operation], state: State) -> State:
        """Does one operation, or several of metrics; returns the state with what became known by it."""
        first = operations[0]
        what = first["do"]
        if what == "open":
            return self._open(entry, first, state)
        if state.mlflow_run_id is None and what != "model":
            return state  # nothing to write about: a journal that is about a model alone
        if what == "metrics":
            self._log_metrics(str(state.mlflow_run_id), [metric for each in operations for metric in each["metrics"]])
        else:
            self._do[what](self, entry, first, state)
        return state

    def _open(self, entry: Entry, operation: Operation, state: State) -> State:
        """Finds the run, where an answer of MLflow was lost, or makes it."""
        experiment_id = self._experiment(operation)
        if operation.get("title") is None:
            return replace(state, experiment_id=experiment_id)
        run_id = self._find(operation["key"], experiment_id)
        if run_id is None:
            tags = {name: value[:_MAX_TAG] for name, value in operation["tags"].items()}
            if operation["parent"]:
                tags[_PARENT] = self._run_of(operation["parent"], entry, experiment_id)
            with only_once():
                run = self.client.create_run(experiment_id, operation["time"], tags, operation["title"][:_MAX_KEY])
            run_id = run.info.run_id
        self._found[operation["key"]] = run_id
        return replace(state, experiment_id=experiment_id, mlflow_run_id=run_id)

    def _experiment(self, operation: Operation) -> str:
        from mlflow.exceptions import MlflowException

        name = operation["experiment"]
        found = self.client.get_experiment_by_name(name)
        if found is None:
            try:
                return self.client.create_experiment(name, operation["artifacts"], tags=_KIND)
            except MlflowException as error:
                if error.error_code != "RESOURCE_ALREADY_EXISTS":
                    raise
                found = self.client.get_experiment_by_name(name)  # another sender was quicker
        if found.lifecycle_stage != "active":
            raise MlflowException(f"the experiment {name} is deleted; restore it, or set tracking.experiment to another")
        return found.experiment_id

    def _find(self, key: str, experiment_id: str) -> str | None:
        runs = self.client.search_runs([experiment_id], f"tags.line_run_id = '{key}'", max_results=1)
        return runs[0].info.run_id if runs else None

    def _run_of(self, key: str, entry: Entry, experiment_id: str) -> str:
        """The id of the run of another journal."""
        if key not in self._found:
            found = self._find(key, experiment_id)
            if found is None:
                raise Unresolved(key)
            self._found[key] = found
        return self._found[key]

    def _addressed(self, entry: Entry, operation: Operation, state: State) -> str | None:
        """The run that an entry is about: its own, or the one that it names; None where that will never be there."""
        key = operation.get("run")
        if not key:
            return state.mlflow_run_id
        try:
            return self._run_of(key, entry, str(state.experiment_id))
        except Unresolved:
            if any(journal.head.get("key") == key for journal in journals(entry.spool)):
                raise
            return None

    def _log_metrics(self, run_id: str, metrics: Sequence[Sequence[Any]]) -> None:
        from mlflow.entities import Metric

        made = [Metric(*metric) for metric in metrics]
        for begin in range(0, len(made), 10 * _BATCH):
            self.client.log_batch(run_id, metrics=made[begin : begin + 10 * _BATCH])

    def _log_params(self, entry: Entry, operation: Operation, state: State) -> None:
        from mlflow.entities import Param

        params = [Param(valid_name(key), _cut(value, _MAX_PARAM)) for key, value in operation["params"].items()]
        for begin in range(0, len(params), _BATCH):
            self.client.log_batch(state.mlflow_run_id, params=params[begin : begin + _BATCH])

    def _tag(self, entry: Entry, operation: Operation, state: State) -> None:
        if run_id := self._addressed(entry, operation, state):
            self._set_tags(run_id, operation["tags"])

    def _set_tags(self, run_id: str, tags: Mapping[str, str]) -> None:
        from mlflow.entities import RunTag

        made = [RunTag(valid_name(key), _cut(str(value), _MAX_TAG)) for key, value in tags.items()]
        for begin in range(0, len(made), _BATCH):
            self.client.log_batch(run_id, tags=made[begin : begin + _BATCH])

    def _log_file(self, entry: Entry, operation: Operation, state: State) -> None:
        self._send_file(entry, state, _kept(entry, operation), operation["name"])

    def _send_file(self, entry: Entry, state: State, path: Path, name: str) -> None:
        """MLflow names a file in the store as it is named here."""
        *folders, last = Path(name).parts
        if path.name != last:
            renamed = entry.journal.folder / "named" / path.name / last
            renamed.parent.mkdir(parents=True, exist_ok=True)
            if not renamed.exists():
                link_or_copy(path, renamed)
            path = renamed
        self.client.log_artifact(state.mlflow_run_id, str(path), "/".join(folders) or None)

    def _draw(self, entry: Entry, operation: Operation, state: State) -> None:
        kind, path = operation["kind"], _kept(entry, operation)
        for name, drawn in self._drawings(entry).of(kind, [path], lambda: files.draw(kind, path)).items():
            self._send_file(entry, state, drawn, name)

    def _make_page(self, entry: Entry, operation: Operation, state: State) -> None:
        paths = {name: _kept(entry, {"file": file}) for name, file in operation["files"].items()}
        what = json.dumps(["page", operation["told"], [*paths]])
        pages = self._drawings(entry).of(what, paths.values(), lambda: files.make_page(paths, operation["told"]))
        for name, drawn in pages.items():
            self._send_file(entry, state, drawn, name)
            self._lead_to(state, name, files.PAGE_TITLE)

    def _drawings(self, entry: Entry) -> Drawings:
        return Drawings(entry.spool / ".drawn")

    def _link(self, entry: Entry, operation: Operation, state: State) -> None:
        self._lead_to(state, operation["name"], operation["title"])

    def _lead_to(self, state: State, name: str, title: str) -> None:
        """The run's description, which MLflow's pages show first, leads to a page among its files."""
        run_id = str(state.mlflow_run_id)
        tags = self.client.get_run(run_id).data.tags
        pages = {key.removeprefix(_PAGE): path for key, path in tags.items() if key.startswith(_PAGE)} | {title: name}
        place = f"#/experiments/{state.experiment_id}/runs/{run_id}/artifacts"
        links = ", ".join(f"[{what}]({place}/{path})" for what, path in sorted(pages.items(), key=lambda page: page[1]))
        written = tags.get(_NOTE, "")
        # What somebody has written there is left alone.
        note = {_NOTE: f"{_PAGES}{links}"} if not written or written.startswith(_PAGES) else {}
        self._set_tags(run_id, {f"{_PAGE}{title}": name, **note})

    def _log_inputs(self, entry: Entry, operation: Operation, state: State) -> None:
        from mlflow.entities import Dataset, DatasetInput, InputTag

        for split in operation["splits"]:
            dataset = Dataset(
                name=f"{operation['name']} {split['name']}"[:500],
                digest=split["digest"][:36],
                source_type="local",
                source=json.dumps({"uri": split["files"][0], "files": split["files"][:100]}),
                profile=json.dumps({"num_rows": split["rows"]}),
            )
            context = {"train": "training", "eval": "evaluation"}.get(split["name"], split["name"])
            self.client.log_inputs(state.mlflow_run_id, [DatasetInput(dataset, [InputTag("mlflow.data.context", context)])])

    def _log_step(self, entry: Entry, operation: Operation, state: State) -> None:
        name, run_id = operation["name"], str(state.mlflow_run_id)
        tags = {f"step.{name}": "cached" if operation["cached"] else "run"}
        if operation["execution"] is not None:
            tags[f"mlmd.execution.{name}"] = str(operation["execution"])
        tags |= {f"mlmd.artifact.{name}.{output}": str(number) for output, number in operation["artifacts"].items()}
        self._log_metrics(run_id, [(f"step/{name}/seconds", operation["seconds"], operation["end"], 0)])
        self._set_tags(run_id, tags)

    def _log_steps(self, entry: Entry, operation: Operation, state: State) -> None:
        """The steps along the time: as a plot, and as spans of a trace, which MLflow draws by itself."""
        key = entry.head["key"]
        if not operation["steps"]:
            return
        self.client.log_text(state.mlflow_run_id, _timeline_of(operation["steps"]), "timeline.svg")
        spans = 1 + len(operation["steps"]) + len(operation["unfinished"])
        with self._as_default():
            if self._has_trace(state, key, spans):
                return
            self._trace(operation, state, key)
            if not self._has_trace(state, key, spans):  # MLflow's exporter keeps to itself that it failed
                raise ConnectionError("the trace of the steps did not get through")

    def _has_trace(self, state: State, key: str, spans: int) -> bool:
        """Whether it is there as a whole; what got through by halves is removed."""
        wanted = f"tags.line_run_id = '{key}'"
        found = self.client.search_traces(locations=[state.experiment_id], filter_string=wanted)
        torn = [trace.info.trace_id for trace in found if len(trace.data.spans) < spans]
        if torn:
            self.client.delete_traces(state.experiment_id, trace_ids=torn)
        return len(found) > len(torn)

    def _trace(self, operation: Operation, state: State, key: str) -> None:
        steps = operation["steps"]
        first, last = min(step["begin"] for step in steps), max(step["end"] for step in steps)
        trace = self.client.start_trace(
            operation["title"],
            experiment_id=state.experiment_id,
            run_id=state.mlflow_run_id,
            start_time_ns=first * 10**6,
            tags={"line_run_id": key},
        )
        for step in steps:
            attributes = {name: step[name] for name in ("cached", "reasons", "execution")}
            span = self.client.start_span(
                step["name"], trace.trace_id, trace.span_id, attributes=attributes, start_time_ns=step["begin"] * 10**6
            )
            self.client.end_span(trace.trace_id, span.span_id, end_time_ns=step["end"] * 10**6)
        for step in operation["unfinished"]:
            span = self.client.start_span(step["name"], trace.trace_id, trace.span_id, start_time_ns=step["begin"] * 10**6)
            self.client.end_span(trace.trace_id, span.span_id, status="ERROR")
        status = "ERROR" if operation["unfinished"] else "OK"
        self.client.end_trace(trace.trace_id, status=status, end_time_ns=last * 10**6)

    def _reopen(self, entry: Entry, operation: Operation, state: State) -> None:
        self.client.update_run(state.mlflow_run_id, status="RUNNING")
        self._set_tags(str(state.mlflow_run_id), {"resumed_as": operation["line_run_id"]})

    def _register(self, entry: Entry, operation: Operation, state: State) -> None:
        run_id = self._addressed(entry, operation, state)
        with self._as_default():
            registry.record(self.client, operation, str(state.experiment_id), run_id)

    def _end(self, entry: Entry, operation: Operation, state: State) -> None:
        self.client.set_terminated(state.mlflow_run_id, operation["status"], operation["time"])

    def _pass(self, entry: Entry, operation: Operation, state: State) -> None:
        """For those who read the journal, and not for MLflow."""

    _do: Mapping[str, Callable[[Store, Entry, Operation, State], None]] = {
        "params": _log_params,
        "tags": _tag,
        "file": _log_file,
        "picture": _draw,
        "page": _make_page,
        "link": _link,
        "inputs": _log_inputs,
        "step": _log_step,
        "steps": _log_steps,
        "model": _register,
        "reopen": _reopen,
        "end": _end,
        "part": _pass,
        "abandon": _pass,
        NOTHING: _pass,
    }


def _timeline_of(steps: Sequence[Mapping[str, Any]]) -> str:
    """Of the steps as a journal has them."""
    began = min(step["begin"] for step in steps)
    return timeline([{**step, "start": (step["begin"] - began) / 1000} for step in steps])


def _kept(entry: Entry, operation: Operation) -> Path:
    path = entry.journal.folder / operation["file"]
    if not path.is_file():  # waiting does not bring it back
        raise LookupError(f"{operation['file']} is no longer in {entry.journal.folder.name}")
    return path


def _cut(value: str, length: int) -> str:
    """What is too long for MLflow ends with a word that says so; the whole config is a file of the run."""
    if len(value) <= length:
        return value
    note = f"… ({len(value):,} characters; config.json has them all)"
    return value[: length - len(note)] + note
