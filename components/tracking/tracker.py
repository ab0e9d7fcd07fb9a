"""The record of one run, as the pipeline writes it: into a journal, from which a sender of its own tells MLflow.

Over 300 lines in one module: the `Tracker` is all that a run calls, mostly a short method for each kind of entry, and they
share the journal and the guard that keeps a failure away from the run.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bertline.components.evaluator.verdict import Verdict
from bertline.components.tracking import system
from bertline.components.tracking.backend.names import valid_name
from bertline.components.tracking.backend.store import files_folder
from bertline.components.tracking.files import files_of, page_of
from bertline.components.tracking.journal import KILLED, Journal, Operation, now, resumable
from bertline.components.tracking.process import Sender
from bertline.components.tracking.recorded import Recorded
from bertline.components.tracking.waiting import problem_of, wait_until_opened, wait_until_sent
from bertline.pipeline.config import Config, without_password
from bertline.pipeline.core import events
from bertline.pipeline.core.json_numbers import defined


@dataclass(frozen=True, kw_only=True)
class Part:
    """What a run is among several, as of seeds: one of them, or the one that they stand under."""

    title: str
    tags: Mapping[str, str] = field(default_factory=dict)
    parent: Tracker | None = None
    """Of the run that it stands under."""
    params: Mapping[str, Any] | None = None
    """What it was told, where that is not the config."""


class Tracker:
    """One MLflow run for one run of the pipeline. Nothing here raises, waits for a store, or fails a step.

    Args:
      run_id: TFX's; the MLflow run is found by it.
      identity: what makes two runs the same, so that one that was killed is gone on with; none for what is never resumed.
      sends: whether a sender is started. Without, the journal stays until another run or `bertline sync` sends it.

    Example:
      tracker = Tracker(config, run_id); tracker.start()
      with events.listening(tracker.hear): …
      tracker.finish("FINISHED", tags)
    """

    def __init__(
        self, config: Config, run_id: str, part: Part | None = None, *, identity: str = "", sends: bool = True
    ) -> None:
        self._config, self._sends = config, sends
        self._part = part or Part(title=f"{config.name} {run_id[:19]}")
        self._identity = identity
        self._line_run_id = run_id
        self.key = run_id
        """The run id of TFX by which the MLflow run is found: of a run that was resumed, the first one."""
        self._journal: Journal | None = None
        self._sender: Sender | None = None
        self._load: system.Load | None = None
        self._problem: str | None = None
        self._recorded_before: Recorded = Recorded()
        self._began: dict[str, int] = {}
        self._steps: list[Operation] = []
        self._mlflow_run_id: str | None = None
        self._ended_parts: list[Journal] = []  # of runs under this one, until MLflow has them
        self._waits_for_parts = True

    @property
    def mlflow_run_id(self) -> str | None:
        """None until MLflow has the run."""
        if self._mlflow_run_id is None and self._journal:
            self._mlflow_run_id = self._journal.state.mlflow_run_id
        return self._mlflow_run_id

    def await_mlflow_run_id(self) -> str | None:
        """The same, for what names the run for good: waits until MLflow has the run, as long as that makes sense."""
        if self.mlflow_run_id is None and self._journal and self._sender:
            with self._guarded():
                wait_until_opened(self._journal, self._sender)
        return self.mlflow_run_id

    @property
    def problem(self) -> str | None:
        """Why MLflow does not have all of the run, in a sentence."""
        return self._problem

    @property
    def parts(self) -> dict[str, tuple[str, str | None]]:
        """Identity -> key and MLflow run of each run under this one that has ended, also before it was resumed."""
        return self._recorded_before.parts

    def start(self) -> None:
        """Opens the journal and starts the sender; takes milliseconds."""
        if not self._config.tracking.enabled:
            return
        parent = self._part.parent
        if parent and self._identity in parent.parts:  # a study that goes on takes this run from the cache
            self.key, self._mlflow_run_id = parent.parts[self._identity]
            return
        with self._guarded():
            spool = self._config.spool_path
            self._journal = resumable(spool, self._scope, self._identity) if self._identity else None
            if self._journal:
                self._resume(self._journal)
            else:
                self._journal = Journal.create(spool, self._config.name)
                self._open()
            self._journal.keep_room()
            if self._sends:
                self._sender = Sender.of(spool, self._config.tracking_uri)
            self._load = system.Load(self._tell_load, self._recorded_before.next_step("system/"))
            self._load.start()

    def hear(self, event: events.Event) -> None:
        """Takes an event in microseconds."""
        if isinstance(event, events.Training):
            self._log_record(event.record.numbers())
        elif isinstance(event, events.StepStarted):
            self._began[event.name] = now()
        elif isinstance(event, events.StepFinished):
            self._log_step(event)

    def log_history(self, history: Path) -> None:
        """The learning curve of a training that came from the cache, so that the run can be compared all the same."""
        for line in history.read_text().splitlines():
            self._log_record(json.loads(line))

    def log_verdict(self, verdict: Verdict) -> None:
        """Every number of the evaluation: of all rows, of slices, of classes, of simple baselines, of test examples."""
        values = {f"eval/{metric}": value for metric, value in verdict.metrics.items()}
        values |= {f"decision/{name}": value for name, value in verdict.decided.items()}
        for kind, groups in (
            ("slice", verdict.slices),
            ("class", verdict.classes),
            ("baseline", verdict.baselines),
        ):
            for name, metrics in groups.items():
                values |= {f"{kind}/{name}/{metric}": value for metric, value in metrics.items()}
        for metric, found in verdict.test.items():
            values |= {f"test/{metric}": found["value"]}
            values |= {f"test/{metric}/{end}": found[end] for end in ("low", "high")}
        self.measure(defined(values))

    def log_data(self, report: Mapping[str, Any]) -> None:
        """The splits as MLflow's datasets, by what Ingest has counted."""
        digests = report["digests"]
        splits = [
            {"name": split, "digest": digests[split], "rows": rows, "files": report["files"]}
            for split, rows in report["kept"].items()
        ]
        self._append({"do": "inputs", "name": self._config.name, "splits": splits})
        rows = {f"data/{split}_rows": float(count) for split, count in report["kept"].items()}
        others = {f"data/{what}_rows": float(report[what]) for what in ("quarantined", "excluded")}
        self.measure({**rows, **others})

    def keep_outputs(self, step: str, outputs: Mapping[str, str]) -> None:
        """What of a step's artifacts is to be looked at, as files, plots and pages of the run.

        Args:
          outputs: the folder of each artifact.
        """
        with self._guarded():
            found = files_of(step, outputs, texts=self._config.tracking.texts)
            kept = {name: self._keep(path, name, plots) for path, name, plots in found}
            if kept and (told := page_of(step, self._config)):
                self._append({"do": "page", "files": kept, "told": told})

    def register(self, described: Callable[[], Operation], *, run: str | None = None) -> None:
        """A model, for the registry.

        Args:
          described: gives what `models.py` says of it.
          run: the key of the run that has made it; this one by default.
        """
        with self._guarded():
            if self._journal:
                self._journal.append({"do": "model", **described(), **({"run": run} if run else {})})

    def measure(self, values: Mapping[str, float | None], step: int = 0) -> None:
        """Numbers of the run as a whole, or points of a curve; what is not known is left out."""
        self._log({name: value for name, value in values.items() if value is not None}, step)

    def keep(self, name: str, text: str) -> None:
        """A text as a file of the run."""
        with self._guarded():
            if self._journal:
                self._append({"do": "file", "file": self._journal.keep_text(text, name), "name": name})

    def keep_page(self, name: str, title: str, page: str) -> None:
        """A page of HTML as a file of the run, to which the run's description leads by `title`, a word."""
        self.keep(name, page)
        self._append({"do": "link", "name": name, "title": title})

    def tag_part(self, key: str | None, tags: Mapping[str, str]) -> None:
        """Tags of a run that stands under this one."""
        if key:
            self._append({"do": "tags", "tags": dict(tags), "run": key})

    def finish(self, status: str, tags: Mapping[str, str]) -> None:
        """Closes the run, and waits for the sender as long as it gets on.

        What stands under another run only waits for its id: the one above waits for all of them at its own end.

        Args:
          status: MLflow's: FINISHED, FAILED or KILLED.
        """
        if not self._journal:
            return
        if self._load:
            self._load.stop()
        self._journal.free_room()
        self._append({"do": "tags", "tags": dict(tags)})
        if status != KILLED:  # what was killed may go on, and is drawn when it has come to its end
            unfinished = [{"name": name, "begin": began} for name, began in self._began.items()]
            self._append({"do": "steps", "title": self._part.title, "steps": self._steps, "unfinished": unfinished})
        self._append({"do": "end", "status": status, "time": now()})
        parent = self._part.parent
        if parent and parent._journal:
            parent._take_over(self, status)
        else:
            self._see_through()
        if self._sender:  # which now removes the journal, if all is sent
            self._sender.release(self._config.spool_path)

    def _take_over(self, part: Tracker, status: str) -> None:
        """A run under this one has ended, and is not recorded again when this one goes on after it was killed."""
        assert part._journal is not None
        if part._sender and self._waits_for_parts:  # a store that does not open one keeps the others waiting no more
            self._waits_for_parts = wait_until_opened(part._journal, part._sender)
        if part._identity and status != KILLED:
            known = part.mlflow_run_id
            self.parts[part._identity] = part.key, known
            self._append({"do": "part", "identity": part._identity, "key": part.key, "mlflow_run_id": known})
        self._ended_parts.append(part._journal)
        for journal in [journal for journal in self._ended_parts if journal.is_sent]:
            self._let_go(journal)

    def _see_through(self) -> None:
        """Waits until MLflow has this run and those under it, and lets go of them."""
        assert self._journal is not None
        is_waiting = True
        for journal in (*self._ended_parts, self._journal):
            if self._sender and is_waiting:
                with self._guarded():
                    is_waiting = self._wait_for(journal)
            self._let_go(journal)

    def _wait_for(self, journal: Journal) -> bool:
        """Whether MLflow has all of it, so that waiting for another one makes sense."""
        assert self._sender is not None
        if not wait_until_sent(journal, self._sender, is_torn=bool(self._problem)):
            # Somebody has killed the sender; another one does the rest.
            self._sender = Sender.of(self._config.spool_path, self._config.tracking_uri)
            wait_until_sent(journal, self._sender, is_torn=bool(self._problem))
        return journal.is_sent

    def _let_go(self, journal: Journal) -> None:
        """The sender removes what is sent as soon as nobody holds it, so what is to be known of it is read before."""
        if self._sender:
            self._problem = self._problem or problem_of(journal, self._sender)
        if journal is self._journal:
            self._mlflow_run_id = self.mlflow_run_id
        else:
            self._ended_parts.remove(journal)
        journal.release()

    @property
    def _scope(self) -> str:
        among = json.dumps(dict(self._part.tags), sort_keys=True) if self._part.tags else ""
        return f"{self._config.name} {self._part.parent.key if self._part.parent else ''} {among}"

    def _open(self) -> None:
        config, part = self._config, self._part
        tags = {"pipeline": config.name, "line_run_id": self.key, **part.tags, **system.commit()}
        if config.tracking.encoder_run:
            tags["encoder_run"] = config.tracking.encoder_run
        self._append(
            {
                "do": "open",
                "key": self.key,
                "scope": self._scope,
                "identity": self._identity,
                "parent": part.parent.key if part.parent else None,
                "uri": without_password(config.tracking_uri),
                "experiment": config.tracking.experiment or config.name,
                "artifacts": files_folder(config.tracking_uri, Path(config.workspace)),
                "title": part.title,
                "tags": tags,
                "time": now(),
            }
        )
        told = {**(config.flat() if part.params is None else part.params), **system.versions()}
        self._append({"do": "params", "params": {name: str(value) for name, value in told.items()}})
        if part.params is None:
            self.keep("config.json", json.dumps(config.model_dump(mode="json"), indent=1))

    def _resume(self, journal: Journal) -> None:
        self._recorded_before = Recorded.of(journal)
        self._steps = list(self._recorded_before.steps.values())
        self.key = journal.head["key"]
        self._append({"do": "reopen", "time": now(), "line_run_id": self._line_run_id})

    def _log_record(self, record: Mapping[str, Any]) -> None:
        kind = "eval_epoch" if "eval_loss" in record else "train"
        values = {
            f"{kind}/{key.removeprefix('eval_')}": value
            for key, value in record.items()
            if key not in ("step", "total_steps") and not math.isnan(value)  # a task without right and wrong answers
        }
        self._log(values, record["step"])

    def _log_step(self, event: events.StepFinished) -> None:
        began = self._began.pop(event.name, now() - int(event.seconds * 1000))
        if event.cached and event.name in self._recorded_before.steps:
            return  # it ran before the run was killed
        step = {
            "do": "step",
            "name": event.name,
            "begin": began,
            "end": now(),
            "seconds": event.seconds,
            "cached": event.cached,
            "reasons": list(event.reasons),
            "execution": event.execution,
            "artifacts": dict(event.artifacts),
        }
        self._steps.append(step)
        self._append(step)

    def _tell_load(self, load: dict[str, float], number: int) -> None:
        self._log(load, number)

    def _log(self, values: Mapping[str, float], step: int) -> None:
        repeated = self._recorded_before.has
        time_now = now()
        metrics = [
            [valid_name(name), float(value), time_now, step] for name, value in values.items() if not repeated(name, step)
        ]
        if metrics:
            self._append({"do": "metrics", "metrics": metrics})

    def _keep(self, path: Path, name: str, plots: tuple[str, ...]) -> str:
        """By which name the journal has it; nothing where there is no journal."""
        if not self._journal:
            return ""
        kept = self._journal.keep(path)
        self._append({"do": "file", "file": kept, "name": name})
        for kind in plots:
            self._append({"do": "picture", "kind": kind, "file": kept})
        return kept

    def _append(self, operation: Operation) -> None:
        with self._guarded():
            if self._journal:
                self._journal.append(operation)

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """A record that cannot be kept, as on a full disk, is told of at the end, and nothing else."""
        try:
            yield
        except Exception as error:
            if self._problem is None:
                logging.exception("tracking")
                self._problem = f"the record of this run could not be kept: {str(error) or type(error).__name__}"


def identity_of(*parts: bytes | str) -> str:
    """
    >>> identity_of("a", "bc") == identity_of("ab", "c")
    False
    """
    digest = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else part.encode()
        digest.update(b"%d " % len(data) + data)
    return digest.hexdigest()
