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
    texts: Sequence[bytes], model: str | None, workspace: str, *, as_json: bool, task_name: str | None = None
) -> Iterator[str]:
    """What the model says of each text, for a person or as JSON; `task_name` is the task that it must have."""
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
    serve = tf.saved_model.load(str(folder)).signatures[DEFAULT_SIGNATURE]
    for begin in range(0, len(texts), _BATCH):
        batch = texts[begin : begin + _BATCH]
        found = {name: value.numpy() for name, value in serve(**{task.text_keys[0]: tf.constant(batch)}).items()}
        for row, text in enumerate(batch):
            given = {name: value[row] for name, value in found.items()}
            shown = {"text": text.decode("utf-8", errors="replace"), **_plain(given)}
            yield json.dumps(shown, ensure_ascii=False) if as_json else task.readable(given)


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
    return value.decode() if isinstance(value, bytes) else float(value)
