"""Waiting for MLflow at the end of a run, for as long as that makes sense."""

from __future__ import annotations

import time
from collections.abc import Callable

from bertline.components.tracking.journal import Journal
from bertline.components.tracking.process import LOG as SENDER_LOG
from bertline.components.tracking.process import Sender

_PROBLEM_SECONDS = 1.0
_SENT_SECONDS = 30.0  # of a store that takes everything, but slowly; the sender goes on after the pipeline
_OPENED_SECONDS = 10.0  # a new store is set up, which takes seconds


def wait_until_opened(journal: Journal, sender: Sender) -> bool:
    """Until MLflow has the run, and it has an id; whether that is so."""
    _wait(journal, sender, lambda: journal.state.mlflow_run_id is not None, _OPENED_SECONDS)
    return journal.state.mlflow_run_id is not None


def wait_until_sent(journal: Journal, sender: Sender, *, is_torn: bool) -> bool:
    """Until MLflow has everything, or does not take more; false where the sender has ended before.

    Args:
      is_torn: whether something could not be written, as on a full disk: the sender cannot note there how far it is.
    """
    return _wait(journal, sender, lambda: journal.is_sent, _SENT_SECONDS, is_torn)


def _wait(journal: Journal, sender: Sender, is_enough: Callable[[], bool], patience: float, is_torn: bool = False) -> bool:
    began = moved = time.monotonic()
    state = journal.state
    sender.hurry()
    while not is_enough():
        if not sender.is_alive:
            return False
        before, state = state, journal.state
        at = time.monotonic()
        moved = at if state.sent != before.sent else moved
        is_stuck = bool(state.problem or is_torn)
        if (is_stuck and at - moved > _PROBLEM_SECONDS) or at - began > patience:
            break
        time.sleep(0.05)
    return True


def problem_of(journal: Journal, sender: Sender | None) -> str | None:
    """What MLflow does not have, and why, in a sentence."""
    state = journal.state
    if not journal.is_sent:
        ended = sender and not sender.is_alive
        silent = f"the sender has ended; its {SENDER_LOG} says why" if ended else "MLflow did not take everything in time"
        return f"{state.problem or silent}; what MLflow lacks is kept, and sent by the next run or `bertline sync`"
    if state.refused:
        others = f", and {len(state.refused) - 1} more" if len(state.refused) > 1 else ""
        return f"MLflow refused a part of the record: {state.refused[0]}{others}"
    return None
