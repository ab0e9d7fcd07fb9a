"""`bertline run`: the line, with a display and a log file around it."""

from __future__ import annotations

import datetime
import json
import shutil
import sys
import traceback
from dataclasses import asdict
from pathlib import Path

from pipeline import environment
from pipeline.config import Config, without_password
from pipeline.errors import BertlineError
from pipeline.summary import Summary


def run_line(config: Config, source: str, *, again_from: str | None = None, as_json: bool = False) -> Summary:
    """Runs the line for `config`, which was read from `source`; returns its summary.

    A mistake that the user can mend comes out as a BertlineError. Anything else keeps its trace in the log, and comes out
    as a BertlineError that says where the log is.
    """
    environment.prepare()
    from absl import logging

    from components import events
    from pipeline.display import Display, noise_to, show_summary

    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    log = Path(config.workspace) / "logs" / f"{config.name}-{stamp}.log"
    logging.set_verbosity(logging.INFO)  # the log is for finding out why: TFX's own account belongs in it
    with noise_to(log) as console:
        console.quiet = as_json
        with Display(console) as display, events.listening(display.hear):
            console.print(f"[bold]{config.name}[/]  (everything else that is said goes to {log})")
            try:
                with display.waiting("loading TensorFlow and TFX"):
                    from pipeline.build import create_pipeline
                    from pipeline.engine import LocalEngine

                    engine = LocalEngine(config, again_from)
                    engine.summary.log = str(log)
                    pipeline = create_pipeline(config)
                engine.run(pipeline)
            except Exception as error:
                with log.open("a") as file:
                    traceback.print_exc(file=file)
                _write_failure(config, log, error)
                raise _for_the_user(error, log) from error
        if as_json:
            console.quiet = False
            console.print_json(json.dumps(asdict(engine.summary)))
        else:
            show_summary(console, engine.summary, _next_commands(config, source))
    return engine.summary


def _for_the_user(error: Exception, log: Path) -> BertlineError:
    """The user's mistake behind an exception, or a pointer to the log."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, BertlineError):
            return cause
        cause = cause.__cause__ or cause.__context__
    first_line = next(iter(str(error).strip().splitlines()), "")
    return BertlineError(f"the line broke: {type(error).__name__}: {first_line[:300]}\nThe whole story is in {log}.")


def _write_failure(config: Config, log: Path, error: Exception) -> None:
    """A failure before the engine took over (a missing file, say) is in the summary all the same."""
    path = Path(config.workspace) / "summary.json"
    current = json.loads(path.read_text()) if path.exists() else {}
    if current.get("log") != str(log):
        Summary(name=config.name, task=config.task, status="failed", error=str(error), log=str(log)).write(config)


def _next_commands(config: Config, source: str) -> list[tuple[str, str]]:
    """Three commands that work as they are, from where the user stands."""
    here = f"{Path.cwd()}/"
    program = "" if shutil.which("bertline") else f"{Path(sys.executable).parent}/".replace(here, "")
    elsewhere = "" if config.workspace == f"{here}workspace" else f" --workspace {config.workspace.replace(here, '')}"
    store = without_password(config.tracking_uri).replace(here, "")
    again = f"run {source}{elsewhere} --set training.epochs={config.training.epochs + 1}"
    asked = '"A film to remember."'
    if config.task == "pretraining":
        asked = '--mask "The [MASK] is over."'
    elif config.task == "tagging":
        asked = '"Ada Lovelace lived in London."'
    elif config.task == "answering":
        asked = '"Who ate?" --second "A man ate an apple."'
    elif len(config.data.text_columns) == 2:
        asked = '"A man is eating." --second "Somebody eats."'
    if config.task in ("matching", "similarity"):
        asked = '--embed "A man is eating."'
    if config.data.choices:
        asked += ' --choice "It is good." --choice "It is over."'
    return [
        (f"{program}bertline predict{elsewhere} {asked}", "ask the pushed model"),
        (f"{program}mlflow ui --backend-store-uri {store}", "curves, slices and the confusion matrix, beside other runs"),
        (f"{program}bertline {again}", "train longer; only the Trainer and what follows run"),
    ]
