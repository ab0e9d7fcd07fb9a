"""`bertline predict`: asks a pushed SavedModel, loaded here."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pipeline import environment, summary
from pipeline.config import CHOICES
from pipeline.errors import BertlineError
from serving.contract import DEFAULT_SIGNATURE, read_card

BATCH = 64

Texts = Mapping[str, bytes | Sequence[bytes]]
"""The texts of a row by their names in the model's signature; the choices are a list of texts."""


class Found(NamedTuple):
    """A model that is there, and not loaded yet."""

    folder: Path
    card: Mapping[str, Any]
    signature: str = DEFAULT_SIGNATURE
    """What it is asked by; any but the default one takes one text."""

    @property
    def text_keys(self) -> list[str]:
        return self.card.get("text_keys", ["text"]) if self.signature == DEFAULT_SIGNATURE else ["text"]

    @property
    def columns(self) -> Mapping[str, str | list[str]]:
        """The columns that its texts had in the training files, by key."""
        return self.card.get("columns", {})


class Loaded(NamedTuple):
    """A model that answers."""

    ask: Callable[[Sequence[Texts]], list[dict[str, Any]]]
    """Rows -> the answer to each, as numpy's values under the names of the signature's outputs."""
    readable: Callable[[Mapping[str, Any]], str]
    plain: Callable[[Mapping[str, Any]], dict[str, Any]]
    """One answer as JSON has it."""


def find(model: str | None, workspace: str, task_name: str | None = None, signature: str = DEFAULT_SIGNATURE) -> Found:
    """The model in a folder, or the one that was pushed last; `task_name` is the task that it must have."""
    folder = Path(model) if model else _last_pushed(workspace)
    if not (folder / "saved_model.pb").is_file():
        raise BertlineError(f"{folder}: there is no SavedModel here.")
    found = Found(folder, read_card(folder), signature)
    task = found.card.get("task")
    if not isinstance(task, str):
        raise BertlineError(f"{folder}: it does not say which task it is for, so no run of this line has exported it.")
    if task_name and task != task_name:
        raise BertlineError(f"{folder}: its task is {task}, not {task_name}; name another model by --model.")
    return found


def load(found: Found) -> Loaded:
    environment.prepare()
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  the ops inside the model

    from models.task import get_task

    loaded = tf.saved_model.load(str(found.folder))
    if found.signature not in loaded.signatures:
        task = found.card["task"]
        raise BertlineError(f"{found.folder}: its task {task} has no {found.signature}; name another model by --model.")
    serve = loaded.signatures[found.signature]

    def ask(rows: Sequence[Texts], loaded: Any = loaded) -> list[dict[str, Any]]:  # a signature alone does not keep it
        columns = {key: [row[key] for row in rows] for key in found.text_keys}
        if CHOICES in columns:  # empty texts after the last choice of a row that has fewer than another
            columns[CHOICES] = list(zip(*itertools.zip_longest(*columns[CHOICES], fillvalue=b""), strict=True))
        given = {name: value.numpy() for name, value in serve(**{k: tf.constant(v) for k, v in columns.items()}).items()}
        return [{name: value[number] for name, value in given.items()} for number in range(len(rows))]

    if found.signature != DEFAULT_SIGNATURE:
        return Loaded(ask, _numbers, plain)
    task = get_task(found.card["task"])
    return Loaded(ask, task.readable, task.plain or plain)


def answers(rows: Sequence[Texts], found: Found, *, as_json: bool) -> Iterator[str]:
    """What the model says of each row of texts, for a person or as JSON."""
    keys = found.text_keys
    for number, row in enumerate(rows, 1):
        if set(row) != set(keys):
            raise BertlineError(f"{found.folder}: {_wrong_texts(keys, row, number)}.")
    model = load(found)
    for begin in range(0, len(rows), BATCH):
        batch = rows[begin : begin + BATCH]
        for row, given in zip(batch, model.ask(batch), strict=True):
            yield json.dumps({**plain(row), **model.plain(given)}, ensure_ascii=False) if as_json else model.readable(given)


def _wrong_texts(keys: Sequence[str], row: Texts, number: int) -> str:
    if CHOICES in keys and CHOICES not in row:
        return f"the model chooses, and row {number} has nothing to choose from; give --choice TEXT, twice or more"
    if CHOICES not in keys and CHOICES in row:
        return "the model does not choose; leave out --choice"
    wanted, given = (len(names) - (CHOICES in names) for names in (keys, row))
    if wanted == 1:
        return f"the model reads one text, and row {number} has {given}; leave out --second and --pairs"
    return f"the model reads two texts, and row {number} has {given}; give both as TEXT --second TEXT, or --pairs"


def _numbers(given: Mapping[str, Any]) -> str:
    return " ".join(f"{number:.4f}" for value in given.values() for number in value)


def _last_pushed(workspace: str) -> Path:
    last = summary.read(workspace)
    if not last or not last.get("pushed_path"):
        raise BertlineError(f"no run in {workspace} has pushed a model yet; `bertline run` does, or name one by --model.")
    return Path(last["pushed_path"])


def plain(value: Any) -> Any:
    """Numpy's values as JSON has them."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, np.ndarray | list):
        return [plain(item) for item in value]
    return value.decode("utf-8", errors="replace") if isinstance(value, bytes) else value.item()
