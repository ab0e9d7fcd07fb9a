"""The rows that a pushed model is judged by: the evaluation examples of its pipeline, or others that are read the same
way."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bertline.pipeline.config import CHOICES, DataConfig
from bertline.pipeline.core.errors import BertlineError

_METADATA = "metadata.db"


def evaluation_records(metadata: Mapping[str, Any], digest: str, workspace: str | Path, limit: int) -> list[bytes]:
    """The rows that the Evaluator of the pipeline has judged a model by, as serialized Examples.

    Args:
      metadata: of the model.
      digest: of the model as the pipeline has pushed it.
      limit: how many are read; they stand in a random order, so that the first ones are a sample.
    """
    from bertline.models.data.example_parsing import read_records

    path = Path(workspace) / "pipelines" / str(metadata.get("pipeline")) / _METADATA
    found = _examples_of(path, digest) if path.is_file() else None
    if found is None:
        raise BertlineError(
            f"no pipeline in {workspace} has pushed this model, so its evaluation examples are unknown; give its"
            " --workspace, or a file with examples by --data."
        )
    files = sorted(map(str, found.glob("Split-eval/*")))
    if not files:
        raise BertlineError(
            f"{found}: the evaluation examples of the pipeline were deleted; give a file with examples by --data."
        )
    return read_records(files, limit)


def _examples_of(metadata: Path, digest: str) -> Path | None:
    """Where the Examples are that a step has judged a pushed model by, as ML Metadata has it."""
    from ml_metadata.metadata_store import MetadataStore
    from ml_metadata.proto import metadata_store_pb2 as mlmd

    connection = mlmd.ConnectionConfig()
    connection.sqlite.filename_uri = str(metadata)
    connection.sqlite.connection_mode = mlmd.SqliteMetadataSourceConfig.READONLY
    store = MetadataStore(connection)

    def linked(artifacts: list[int], kind: int) -> list[int]:
        """The executions that have made some artifacts, or have taken them."""
        return [event.execution_id for event in store.get_events_by_artifact_ids(artifacts) if event.type == kind]

    def taken(execution: int) -> dict[str, int]:
        events = store.get_events_by_execution_ids([execution])
        return {event.path.steps[0].key: event.artifact_id for event in events if event.type == mlmd.Event.INPUT}

    pushed = [
        artifact.id
        for artifact in store.get_artifacts_by_type("PushedModel")
        if artifact.custom_properties["digest"].string_value == digest
    ]
    for pusher in linked(pushed, mlmd.Event.OUTPUT) if pushed else ():
        for judge in linked([taken(pusher)["model"]], mlmd.Event.INPUT):
            if examples := taken(judge).get("examples"):
                return Path(store.get_artifacts_by_id([examples])[0].uri)
    return None


def records_of_file(path: str, metadata: Mapping[str, Any], limit: int) -> list[bytes]:
    """The rows of a file that is written as the pipeline's own are, with their labels, as serialized Examples."""
    from bertline.components.ingest.executor import make_example
    from bertline.components.ingest.readers.records import BadRow
    from bertline.components.ingest.readers.registry import check_inputs, needed_columns, read
    from bertline.components.ingest.rows import KeptExample, sort_example
    from bertline.models.tasks.base.task import get_task
    from bertline.pipeline.core import events

    task = get_task(metadata["task"])
    if task.preprocessing.number_keys:
        raise BertlineError(
            f"--data: the task {task.name} is evaluated on examples that its pipeline has made from documents; leave it"
            " out, and give the --workspace of the pipeline."
        )
    data, lists = (
        _how_read(path, metadata, has_label=task.preprocessing.label is not None),
        list(task.preprocessing.list_keys),
    )
    columns = list(needed_columns(data, (), lists))
    rows = (row for file in check_inputs(data, (), lists) for row in read(file, data, columns))
    kept: list[bytes] = []
    left_out = 0
    for row in rows:
        result = (
            row if isinstance(row, BadRow) else sort_example(row, data, "eval", (), task.preprocessing.label or "class")
        )
        if isinstance(result, KeptExample):
            kept.append(make_example(result.features))
        left_out += not isinstance(result, KeptExample)
        if len(kept) == limit:
            break
    if left_out:
        events.emit(events.Note(f"{left_out:,} examples of {path} were left out: unreadable or excluded"))
    if not kept:
        raise BertlineError(f"{path}: no usable example; `bertline new {path}` says what is in it.")
    return kept


def _how_read(path: str, metadata: Mapping[str, Any], *, has_label: bool) -> DataConfig:
    """By the settings in the metadata; older metadata names no more than the columns of the texts."""
    columns = metadata.get("columns", {"text": "text"})
    texts = [column for name, column in columns.items() if name != CHOICES]
    known = {"text": texts, "choices": columns.get(CHOICES, ()), "label": "label" if has_label else None}
    return DataConfig.model_validate({**known, **metadata.get("data", {}), "path": path})
