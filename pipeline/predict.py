"""`bertline predict`: asks a pushed SavedModel, loaded here."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pipeline import environment, summary
from pipeline.errors import BertlineError
from serving.contract import DEFAULT_SIGNATURE, read_card

_BATCH = 64


def answers(
    rows: Sequence[Sequence[bytes]], model: str | None, workspace: str, *, as_json: bool, task_name: str | None = None
) -> Iterator[str]:
    """What the model says of each row of texts, for a person or as JSON; `task_name` is the task that it must have."""
    folder = Path(model) if model else _last_pushed(workspace)
    if not (folder / "saved_model.pb").is_file():
        raise BertlineError(f"{folder}: there is no SavedModel here.")
    environment.prepare()
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  the ops inside the model

    from models.task import get_task

    card = read_card(folder)
    if task_name and card.get("task") != task_name:
        raise BertlineError(f"{folder}: its task is {card.get('task')}, not {task_name}; name another model by --model.")
    task = get_task(card["task"])
    text_keys = card.get("input_names") or card.get("text_keys", ["text"])
    for number, row in enumerate(rows, 1):
        if len(row) != len(text_keys):
            raise BertlineError(_wrong_texts(folder, len(text_keys), len(row), number))
    serve = tf.saved_model.load(str(folder)).signatures[DEFAULT_SIGNATURE]
    for begin in range(0, len(rows), _BATCH):
        batch = rows[begin : begin + _BATCH]
        columns = {key: tf.constant(texts) for key, texts in zip(text_keys, zip(*batch, strict=True), strict=True)}
        found = {name: value.numpy() for name, value in serve(**columns).items()}
        for number, row in enumerate(batch):
            given = {name: value[number] for name, value in found.items()}
            texts = {key: text.decode("utf-8", errors="replace") for key, text in zip(text_keys, row, strict=True)}
            shown = {**texts, **_plain(given)}
            yield json.dumps(shown, ensure_ascii=False) if as_json else task.readable(given)


def _wrong_texts(folder: Path, wanted: int, given: int, row: int) -> str:
    if wanted == 1:
        return f"{folder}: the model reads one text, and row {row} has {given}; leave out --second and --pairs."
    return f"{folder}: the model reads two texts, and row {row} has {given}; give both as TEXT --second TEXT, or --pairs."


def _last_pushed(workspace: str) -> Path:
    last = summary.read(workspace)
    if not last or not last.get("pushed_path"):
        raise BertlineError(f"no run in {workspace} has pushed a model yet; `bertline run` does, or name one by --model.")
    return Path(last["pushed_path"])


def _plain(value: Any) -> Any:
    """Numpy's values as JSON has them."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, np.ndarray | list):
        return [_plain(item) for item in value]
    return value.decode("utf-8", errors="replace") if isinstance(value, bytes) else value.item()
