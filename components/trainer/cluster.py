"""The Trainer's work among several processes: the chief's step, the workers beside it, and the process that trains.

TensorFlow connects the processes of a cluster before it computes anything, and a process whose peer is gone cannot go on.
So each member trains in a child, which is started again, and goes on from the last checkpoint, when another was lost. The
chief writes what is to be trained as a job, beside the checkpoints, where the workers find it.

    python -m bertline.components.trainer.cluster JOB        such a child
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from bertline.models.training.cluster import PEER_LOST
from bertline.pipeline.core import events
from bertline.pipeline.core.child_process import environment_of_child
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.core.storage import is_remote

JOB = "job.json"
_ARGUMENTS = (
    "transform_graph_path",
    "train_files",
    "eval_files",
    "schema_path",
    "custom_config",
    "serving_model_dir",
    "model_run_dir",
)
"""What the training needs of TFX's arguments."""
_EVENTS = "BERTLINE_EVENTS"  # names the descriptor that a child writes its events to: libraries print to the others
_IN_VAIN = 3  # a process that always dies at the same step is no accident
_PEER_ERRORS = ("UnavailableError", "AbortedError", "CancelledError", "DeadlineExceededError", "InternalError")


def train_as_chief(args: Any) -> None:
    """Trains together with the workers, and returns when the model is written."""
    if is_remote(args.custom_config["checkpoints"]):
        raise BertlineError(
            f"{args.custom_config['checkpoints']}: distributed training needs a shared folder, not a bucket;"
            " mount one, and set cluster.root to it."
        )
    folder = Path(args.custom_config["checkpoints"])
    with _job(folder / JOB, {name: getattr(args, name) for name in _ARGUMENTS}):
        supervise(folder / JOB, events.emit)


@contextmanager
def _job(path: Path, arguments: dict[str, Any]) -> Iterator[None]:
    """The job, as the workers see it, until it is over."""
    path.parent.mkdir(parents=True, exist_ok=True)
    state = "failed"
    try:
        _write(path, {"state": "running", "arguments": arguments})
        yield
        state = "done"
    finally:
        _write(path, {"state": state})


def _write(path: Path, job: dict[str, Any]) -> None:
    unfinished = path.with_suffix(".part")
    unfinished.write_text(json.dumps(job))
    unfinished.rename(path)


def read_state(path: Path) -> str | None:
    try:
        return str(json.loads(path.read_text())["state"])
    except FileNotFoundError:
        return None


def work(path: Path, hear: Callable[[events.Event], None], wait_seconds: float | None = None) -> None:
    """Takes part in the training at `path` as a worker: waits for it, and returns when it is done.

    Args:
      wait_seconds: how long to wait for the chief to come to its Trainer; without it, for as long as it takes.
    """
    began = time.monotonic()
    while read_state(path) != "running":  # what is over was of an earlier run
        if wait_seconds is not None and time.monotonic() - began > wait_seconds:
            raise BertlineError(
                f"{path}: no training has begun there in {wait_seconds:g} s. Is the chief running `bertline run` with the"
                " same config and workspace? Where it takes the Trainer's result from its cache there is nothing to do."
            )
        time.sleep(0.5)
    supervise(path, hear)


def supervise(path: Path, hear: Callable[[events.Event], None]) -> None:
    """Trains in a child, and in another one each time that a process of the cluster was lost; until none comes further."""
    furthest, in_vain = 0, 0
    while True:
        reached = 0

        def listen(event: events.Event) -> None:
            nonlocal reached
            if isinstance(event, events.Training):
                reached = event.record.step
            hear(event)

        code, mistake = _run_child(path, listen)
        if code == 0:
            return
        if mistake:
            raise BertlineError(mistake)
        if 0 < code < 128:
            raise RuntimeError(f"the training process exited with {code}; see its output above")
        if (state := read_state(path)) == "done":  # a worker whose chief has nothing left to do
            return
        if state != "running":
            raise BertlineError("the chief's training failed; see its log.")
        in_vain = 0 if reached > furthest else in_vain + 1
        furthest = max(furthest, reached)
        if in_vain > _IN_VAIN:
            raise BertlineError(
                f"processes of the training were lost {in_vain} times in a row before step {furthest + 1}. The last"
                " checkpoint is kept, and the same command resumes from it; see the logs of the processes for the cause."
            )
        lost = "another process of the training was lost" if code == PEER_LOST else f"the training was killed ({code})"
        hear(events.Note(f"{lost}; it resumes from the last checkpoint"))


def _run_child(path: Path, hear: Callable[[events.Event], None]) -> tuple[int, str | None]:
    """Its code, and what the user can mend."""
    reads, writes = os.pipe()
    mistake = None
    with subprocess.Popen(
        [sys.executable, "-m", "bertline.components.trainer.cluster", str(path)],
        stdin=subprocess.PIPE,  # closed when this process dies, however it does: the child then ends too
        pass_fds=(writes,),
        env=environment_of_child(**{_EVENTS: str(writes)}),
    ) as child:
        os.close(writes)
        try:
            with open(reads, encoding="utf-8") as lines:
                for line in lines:
                    message = json.loads(line)
                    mistake = message.get("mistake", mistake)
                    if event := _event(message):
                        hear(event)
            return child.wait(), mistake
        finally:
            child.kill()


def _event(message: dict[str, Any]) -> events.Event | None:
    from bertline.models.training.loop import EpochRecord, StepRecord

    if "note" in message:
        return events.Note(message["note"])
    for name, kind in (("step", StepRecord), ("epoch", EpochRecord)):
        if name in message:
            return events.Training(kind(**message[name]))
    return None


def _reporter() -> Callable[[dict[str, Any]], None]:
    stream = open(int(os.environ.pop(_EVENTS)), "w", encoding="utf-8", buffering=1)  # noqa: SIM115  until the process ends

    def report(message: dict[str, Any]) -> None:
        with suppress(OSError):  # nobody listens any more: the process is about to end
            stream.write(json.dumps(message) + "\n")

    return report


def _end_with_parent() -> None:
    def watch() -> None:
        sys.stdin.buffer.read()
        os._exit(PEER_LOST)

    threading.Thread(target=watch, daemon=True).start()


def main() -> None:
    _end_with_parent()
    report = _reporter()

    def hear(event: events.Event) -> None:
        if isinstance(event, events.Note):
            report({"note": event.text})
        elif isinstance(event, events.Training):
            report({"step" if hasattr(event.record, "total_steps") else "epoch": asdict(event.record)})

    try:
        from bertline.models.training.distribution import join

        join()  # before anything is computed
        from bertline.components.trainer.executor import train_here

        job = json.loads(Path(sys.argv[1]).read_text())
        if job["state"] != "running":
            raise SystemExit(PEER_LOST)
        with events.listening(hear):
            train_here(SimpleNamespace(**job["arguments"]))
    except BertlineError as error:
        report({"mistake": str(error)})
        sys.exit(1)
    except Exception as error:
        traceback.print_exc()
        if type(error).__name__ in _PEER_ERRORS:
            sys.stderr.flush()
            os._exit(PEER_LOST)  # TensorFlow's own threads wait for the one that is gone
        sys.exit(1)


if __name__ == "__main__":
    main()
