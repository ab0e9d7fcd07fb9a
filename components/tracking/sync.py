"""Sending what is left in a spool, from a command that waits for it."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bertline.components.tracking.backend.round import Round
from bertline.components.tracking.backend.sender import Turn
from bertline.components.tracking.backend.store import files_folder
from bertline.components.tracking.journal import Journal, Operation, State, journals, now
from bertline.pipeline.config import without_password


@dataclass(frozen=True)
class Left:
    """A run of which MLflow lacks something."""

    name: str
    bytes: int
    problem: str | None
    is_under_way: bool
    """Its own process tells MLflow of it."""


def left_in(spool: Path) -> list[Left]:
    """A run that was killed and has been told of is not among them: it only may go on."""
    found = [(journal, journal.state) for journal in journals(spool) if not journal.is_sent]
    return [
        Left(title_of(journal), journal.size - state.sent, state.problem, journal.is_written) for journal, state in found
    ]


def title_of(journal: Journal) -> str:
    return journal.head.get("title") or f"what servers load of {journal.head.get('pipeline', '?')}"


def send_all(spool: Path, say: Callable[[str], None], patience: float = 30.0) -> list[Left]:
    """Sends all that can be sent; returns what is left.

    Args:
      say: is told of each run that MLflow has now.
      patience: seconds for which a store that does not answer, or another sender, is waited for.
    """
    if not spool.is_dir():
        return []
    last_moment = time.monotonic() + patience
    said: set[str] = set()

    def progress(journal: Journal, state: State) -> None:
        if state.sent >= journal.size and journal.folder.name not in said:
            said.add(journal.folder.name)
            say(f"sent: {title_of(journal)}" + (f"  (MLflow run {state.mlflow_run_id})" if state.mlflow_run_id else ""))
            for sentence in state.refused:
                say(f"  refused: {sentence}")

    turn = Turn(spool)
    while not turn.take() and time.monotonic() < last_moment and not _all_under_way(spool):
        time.sleep(0.1)  # a run is sending, and may send all of it
    if turn.take():
        sending = Round(spool, os.environ.get("MLFLOW_TRACKING_URI"), progress)
        while not sending.run() and time.monotonic() < last_moment and not _all_failed(spool):
            time.sleep(0.1)
        turn.give_back()
    return left_in(spool)


def _all_under_way(spool: Path) -> bool:
    return all(left.is_under_way and not left.problem for left in left_in(spool))


def _all_failed(spool: Path) -> bool:
    return all(left.problem for left in left_in(spool))


def note_model(spool: Path, uri: str, experiment: str, model: Operation) -> None:
    """A journal about a model alone, which no run is needed for: who is the champion after a rollback."""
    journal = Journal.create(spool, experiment)
    journal.append(
        {
            "do": "open",
            "key": uuid.uuid4().hex,
            "pipeline": experiment,
            "uri": without_password(uri),
            "experiment": experiment,
            "artifacts": files_folder(uri, spool.parent),
            "title": None,
        }
    )
    journal.append({"do": "model", **model})
    journal.append({"do": "end", "status": "FINISHED", "time": now()})
    journal.release()
