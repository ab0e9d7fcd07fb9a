"""What the record of runs is asked: which encoder `model.checkpoint: runs:/ID` is, and which run has pushed a model.

How a store is opened and asked stands in `store.py`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

from bertline.components.tracking.backend.store import (
    asking,
    impatient,
    is_there,
    matching,
    only_match,
    open_store,  # those who record runs have it from here
)
from bertline.pipeline.config import without_password
from bertline.pipeline.core.errors import BertlineError
from bertline.serving.contract import ENCODER, read_metadata

SCHEME = "runs:"
_REFERENCE = re.compile(r"runs:/([0-9a-f]{6,32})")


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
    from bertline.models.tasks.base.task import get_task, is_task  # brings numpy, which a command's help does without

    with asking(uri, f"the run {match[1]}") as client:
        run = only_match(client, match[1], uri)
    run_id, tags, task = run.info.run_id, run.data.tags, run.data.params.get("task")
    if not is_task(task) or not get_task(task).model.has("heads"):
        did = f"has the task {task}" if task else "is not one of Bertline"
        raise BertlineError(f"the run {run_id} {did}; only the task pretraining exports an encoder.")
    if tags.get("pushed_version", "none") == "none":
        raise BertlineError(f"the run {run_id} has pushed nothing: {_why_nothing(tags)}.")
    if "pushed_path" not in tags:
        raise BertlineError(
            f"the record of the run {run_id} does not say where its model is; name the pushed folder instead."
        )
    model = Path(tags["pushed_path"])
    if not model.is_dir():
        raise BertlineError(f"{model}, which the run {run_id} has pushed, was deleted from this machine; run it again.")
    if read_metadata(model).get("digest") != tags.get("pushed_digest"):
        raise BertlineError(f"{model} is no longer what the run {run_id} has pushed there; name a folder instead.")
    if not (model / ENCODER).is_dir():
        raise BertlineError(f"{model}, which the run {run_id} has pushed, has no {ENCODER}; run it again.")
    return EncoderRun(run_id, model)


def find_pushing_run(uri: str, run_id: str | None, digest: str | None) -> tuple[Any, str | None]:
    """The MLflow run that pushed a model, or None and a sentence that says why it is not known.

    Args:
      uri: the store to look in.
      run_id: the run, where the model's metadata names it.
      digest: of the model; runs are tagged with it. Of several, for a run may find its model pushed already, the first one
        that trained it is taken.
    """
    shown = without_password(uri)
    if not is_there(uri):
        return None, f"there is no MLflow store {shown} to look for its run in"
    try:
        with impatient():
            client = open_store(uri)
            found = matching(client, run_id) if run_id else []
            if not found and digest:
                experiments = [experiment.experiment_id for experiment in client.search_experiments()]
                wanted = f"tags.pushed_digest = '{digest}'"
                found = client.search_runs(experiments, wanted, order_by=["attributes.start_time ASC"])
                found = [run for run in found if run.data.tags.get("step.Trainer") == "run"] or list(found)
    except Exception as error:
        first_line = next(iter(str(error).splitlines()), "")
        return None, f"the MLflow store {shown} cannot be queried: {without_password(first_line)[:200]}"
    return (found[0], None) if found else (None, f"no run in the MLflow store {shown} has pushed it")


def _why_nothing(tags: dict[str, str]) -> str:
    if tags.get("blessed") == "false":
        return f"its model was refused, because {tags.get('reasons')}"
    return {"failed": "it failed", "interrupted": "it was interrupted"}.get(tags.get("status", ""), "it has not ended")
