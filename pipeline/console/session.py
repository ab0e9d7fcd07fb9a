"""Where a command works in sight of a person: a console, a display of what goes on, and a log for everything else."""

from __future__ import annotations

import datetime
import json
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from bertline.components.tracking.process import sender_for
from bertline.pipeline.config import Config
from bertline.pipeline.console.display import Display, noise_to
from bertline.pipeline.core import environment, events
from bertline.pipeline.core.errors import BertlineError, cause_of
from bertline.pipeline.core.json_numbers import without_nan
from bertline.pipeline.core.machine import refusal, require_workspace
from bertline.pipeline.core.paths import from_here


@dataclass(frozen=True)
class Stage:
    console: Console
    log: Path
    as_json: bool
    """Nothing but the result is printed, as JSON."""

    @contextmanager
    def working(self) -> Iterator[Display]:
        """Shows what is done inside. A mistake that the user can mend comes out as a BertlineError. Anything else keeps its
        trace in the log, and comes out as a BertlineError that says where the log is."""
        with Display(self.console) as display, events.listening(display.hear):
            try:
                yield display
            except Exception as error:
                with self.log.open("a") as file:
                    traceback.print_exc(file=file)
                raise self._for_the_user(error) from error

    def print_json(self, result: Any) -> None:
        self.console.quiet = False
        self.console.print_json(json.dumps(without_nan(result)))

    def _for_the_user(self, error: Exception) -> BertlineError:
        """The user's mistake behind an exception, or a pointer to the log."""
        if mistake := cause_of(error, BertlineError):
            return mistake
        if refused := refusal(error):
            again = "The same command then resumes from the last finished step or checkpoint"
            return BertlineError(f"{refused} {again}. The log: {from_here(self.log)}")
        first_line = next(iter(str(error).strip().splitlines()), "")
        return BertlineError(f"Pipeline failed: {type(error).__name__}: {first_line[:300]}\nSee {from_here(self.log)}.")


@contextmanager
def stage(config: Config, *, as_json: bool) -> Iterator[Stage]:
    require_workspace(config.workspace)
    environment.prepare()
    from absl import logging

    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    log = Path(config.workspace) / "logs" / f"{config.name}-{stamp}.log"
    logging.set_verbosity(logging.INFO)  # the log is for finding out why: TFX's own account belongs in it
    with noise_to(log) as console:
        console.quiet = as_json
        console.print(f"[bold]{config.name}[/]  (log: {from_here(log)})")
        with sender_for(config):  # which loads MLflow while TensorFlow and TFX are loaded here
            yield Stage(console, log, as_json)
