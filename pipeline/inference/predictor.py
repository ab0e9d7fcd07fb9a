"""`bertline predict`: asks a model, a pushed SavedModel that is loaded here or one that a server has."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bertline.models.kinds import describe_kind
from bertline.models.responses.base import Answer, ResponseSpec, plain
from bertline.models.responses.likeliest import likeliest
from bertline.models.responses.translation import Sampling, n_best
from bertline.models.tasks.base.task import kind_for
from bertline.pipeline.config import CHOICES
from bertline.pipeline.console import summary
from bertline.pipeline.core import environment
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.core.storage import local_copy
from bertline.serving.contract import DEFAULT_SIGNATURE, read_metadata

BATCH = 64

Texts = Mapping[str, bytes | Sequence[bytes]]
"""The texts of a row by their names in the model's signature; the choices are a list of texts."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is wanted of a model beside answers to texts."""

    task: str | None = None
    """The task that it must have."""
    signature: str = DEFAULT_SIGNATURE
    """What it is asked by; any but the default one takes one text."""
    sample: Sampling | None = None
    """How translations are drawn, by a signature that draws them."""
    n_best: int | None = None
    """So many translations of a text, in place of the best alone."""
    top: int | None = None
    """Of classes, so many of the likeliest, with the score of the label; None gives just what the signature does."""

    @property
    def further(self) -> str | None:
        """The signature, if it is not the default one."""
        return None if self.signature == DEFAULT_SIGNATURE else self.signature

    def rows(self, rows: Sequence[Texts]) -> Sequence[Mapping[str, Any]]:
        """What is sent: the texts, and numbers beside them where the signature takes any."""
        return rows if self.sample is None else [{**row, **self.sample.numbers()} for row in rows]

    def shown_as(self, kind: ResponseSpec[Any]) -> ResponseSpec[Any]:
        if self.n_best is not None:
            return n_best(self.n_best)
        return kind if self.top is None else likeliest(kind, self.top)


ANY = Wanted()


@dataclass(frozen=True)
class Loaded:
    """A model that answers."""

    ask: Callable[[Sequence[Texts]], list[dict[str, Any]]]
    """Rows -> the answer to each, as numpy's values under the names of the signature's outputs."""
    readable: Callable[[Mapping[str, Any]], str]
    plain: Callable[[Mapping[str, Any]], dict[str, Any]]
    """One answer as JSON has it."""
    at_once: int = 1
    """So many threads may ask together."""
    close: Callable[[], None] = lambda: None
    """Gives up what is being asked as well."""
    read: Callable[[Mapping[str, Any]], Answer] = lambda given: Answer()
    """One answer as the client gives it."""


@dataclass(frozen=True)
class Found:
    """A model that is there, and not loaded yet."""

    place: str
    """Where it is, for a person."""
    text_keys: Sequence[str]
    """The texts of a row, in their order."""
    load: Callable[[], Loaded]
    columns: Mapping[str, str | list[str]] = field(default_factory=dict)
    """The columns that its texts had in the training files, by key; empty where that is not known."""
    note: str = ""
    """What a person should know of the choice."""


def find(model: str | None, workspace: str, wanted: Wanted = ANY) -> Found:
    """The model in a folder, or the one that was pushed last."""
    served = None if model else _last_pushed(workspace)
    folder = Path(local_copy(str(model or (served and served.path))))
    if not (folder / "saved_model.pb").is_file():
        raise BertlineError(f"{folder}: no SavedModel here.")
    metadata = read_metadata(folder)
    task = metadata.get("task")
    if not isinstance(task, str):
        raise BertlineError(f"{folder}: no task in its model metadata, so it was not exported by Bertline.")
    if wanted.task and task != wanted.task:
        raise BertlineError(f"{folder}: its task is {task}, not {wanted.task}; name another model by --model.")
    kind = kind_for(task, wanted.further)
    if kind is None and kind_for(task):
        raise BertlineError(f"{folder}: its task is {task}, not one with the signature {wanted.signature}.")
    if kind is None:
        unknown = f"its task is {task}, which this version of Bertline does not know"
        raise BertlineError(f"{folder}: {unknown}; use the version that trained it.")
    keys = ["text"] if wanted.further else metadata.get("text_keys", ["text"])
    note = "; ".join(filter(None, [served.instead if served else "", describe_kind(metadata)]))
    return Found(str(folder), keys, lambda: _load(folder, wanted.shown_as(kind), wanted), metadata.get("columns", {}), note)


def _load(folder: Path, kind: ResponseSpec[Any], wanted: Wanted) -> Loaded:
    environment.prepare()
    from bertline.serving.client.rows import columns_of
    from bertline.serving.embedded.lifecycle.servable import Servable

    servable = Servable(folder)
    if wanted.signature not in servable.signatures:
        servable.close()
        raise BertlineError(f"{folder}: no signature {wanted.signature}; name another model by --model.")
    signature = servable.signatures[wanted.signature]
    outputs = tuple(signature.outputs)
    fetches = tuple(signature.outputs[name].name for name in outputs)

    def ask(rows: Sequence[Texts]) -> list[dict[str, Any]]:
        asked = columns_of(wanted.rows(rows))
        given = servable.run(tuple(signature.inputs[name].name for name in asked), fetches, tuple(asked.values()))
        return [{name: value[number] for name, value in zip(outputs, given, strict=True)} for number in range(len(rows))]

    return Loaded(ask, kind.readable, kind.plain, close=servable.close, read=kind.read)


def answers(rows: Sequence[Texts], found: Found, *, as_json: bool) -> Iterator[str]:
    """What the model says of each row of texts, for a person or as JSON."""
    for number, row in enumerate(rows, 1):
        if set(row) != set(found.text_keys):
            raise BertlineError(f"{found.place}: {_wrong_texts(found.text_keys, row, number)}.")
    batches = [rows[begin : begin + BATCH] for begin in range(0, len(rows), BATCH)]
    with closing(found.load()) as model:
        for batch, answered in zip(batches, ask_each(model, batches), strict=True):
            for row, given in zip(batch, answered, strict=True):
                if as_json:
                    yield json.dumps({**plain(row), **model.plain(given)}, ensure_ascii=False)
                else:
                    yield model.readable(given)


def ask_each(model: Loaded, batches: Iterable[Sequence[Texts]]) -> Iterator[list[dict[str, Any]]]:
    """The answers to each batch, in their order; a model that takes several at once is kept busy."""
    if model.at_once == 1:
        yield from map(model.ask, batches)
        return
    with ThreadPoolExecutor(model.at_once, "bertline-predict") as pool:
        try:
            yield from pool.map(model.ask, batches)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            model.close()  # or else those under way are waited for
            raise


def ask_all(model: Loaded, rows: Sequence[Texts]) -> list[dict[str, Any]]:
    """The answer to each row, in the order of the rows; those of like length are asked together, because a batch is padded
    to its longest text."""
    answers: list[dict[str, Any]] = [{}] * len(rows)
    by_size = sorted(range(len(rows)), key=lambda number: size_of(rows[number]))
    batches = [by_size[begin : begin + BATCH] for begin in range(0, len(by_size), BATCH)]
    for batch, found in zip(
        batches, ask_each(model, [[rows[number] for number in batch] for batch in batches]), strict=True
    ):
        for number, given in zip(batch, found, strict=True):
            answers[number] = given
    return answers


def size_of(texts: Texts) -> int:
    return sum(sum(map(len, text)) if isinstance(text, list) else len(text) for text in texts.values())


def _wrong_texts(keys: Sequence[str], row: Texts, number: int) -> str:
    if CHOICES in keys and CHOICES not in row:
        return f"the model chooses between endings, and example {number} has none; give --choice TEXT, twice or more"
    if CHOICES not in keys and CHOICES in row:
        return "the model does not choose between endings; leave out --choice"
    wanted, given = (len(names) - (CHOICES in names) for names in (keys, row))
    if wanted == 1:
        return f"the model reads one text, and example {number} has {given}; leave out --second and --pairs"
    return f"the model reads two texts, and example {number} has {given}; give both as TEXT --second TEXT, or --pairs"


def _last_pushed(workspace: str) -> summary.Served:
    found = summary.served(workspace)
    if found is None:
        raise BertlineError(
            f"no run in {workspace} has pushed a model yet; run `bertline run`, or name a model by --model."
        )
    return found
