"""A folder of data: GLUE's files by their layout, or one file to train on and one to hold out."""

from __future__ import annotations

import itertools
from pathlib import Path

from bertline.components.ingest.readers.records import Row
from bertline.components.ingest.readers.registry import check_inputs, read
from bertline.components.ingest.rows import as_number, is_excluded
from bertline.pipeline.config import DataConfig
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.new.guess import FROM_SCRATCH, NEEDS_CHECKPOINT, Guess, Setting, Source, room_for
from bertline.pipeline.new.tables.table import LOOKED_AT, seen_rows
from bertline.pipeline.settings import glue

_CHECKED = 500
TRAIN = ("train",)
EVALUATION = ("dev", "valid", "val", "eval", "test")
TEST = ("test",)
"""What the file's name has in it; a test file is held out where there is no other."""


def guess_glue(folder: Path, task: str | None) -> Guess | None:
    """The task of GLUE whose files these are; None if they are none's.

    Args:
      folder: that is looked at.
      task: as glue/rte, where several fit and the user has said which.
    """
    if task and not task.startswith(glue.PREFIX):
        return None
    named = task.removeprefix(glue.PREFIX) if task else ""
    task = f"{glue.PREFIX}{glue.ALIASES.get(named, named)}" if task else None
    fits = [f"{glue.PREFIX}{name}" for name in glue.LAYOUTS if _fits(name, folder)]
    if task and task not in fits:
        others = f"; they would be of {' or '.join(fits)}" if fits else ""
        raise BertlineError(f"{folder}: the files do not have the layout of {task}{others}.")
    if not task and len(fits) > 1:
        raise BertlineError(f"{folder}: the files fit {' and '.join(fits)}; say which it is, as --task {fits[0]}.")
    return _guess(task or fits[0], folder) if fits else None


def files_of(folder: Path) -> Source:
    """The files of a folder that is none of GLUE's: to train on, to hold out and perhaps to test; or the only one."""
    names = sorted(path.name for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    if len(names) == 1:
        return Source(path=str(folder / names[0]))
    train = named(names, TRAIN)
    evaluation = named([name for name in names if name not in train], EVALUATION)
    if len(train) != 1 or len(evaluation) != 1:
        shown = f"it has {', '.join(names[:8])}{' …' if len(names) > 8 else ''}" if names else "it has no files"
        raise BertlineError(
            f"{folder}: a folder needs one file with train in its name and one with dev, valid, eval or test, or the files"
            f" of a task of GLUE; {shown}. Or name one file."
        )
    test = named([name for name in names if name not in (*train, *evaluation)], TEST)
    return Source(
        path=str(folder / train[0]),
        evaluation=str(folder / evaluation[0]),
        test=str(folder / test[0]) if len(test) == 1 else None,
    )


def files_beside(path: Path) -> Source:
    """A file that is called train, with those beside it to hold out and to test; any other file stands alone."""
    stem, _, ending = path.name.partition(".")
    if stem.lower() not in TRAIN:
        return Source(path=str(path))

    def beside(names: tuple[str, ...]) -> str | None:
        files = (path.with_name(f"{name}.{ending}") for name in names)
        return next((str(file) for file in files if file.is_file()), None)

    return Source(
        path=str(path), evaluation=beside(tuple(name for name in EVALUATION if name not in TEST)), test=beside(TEST)
    )


def named(names: list[str], parts: tuple[str, ...]) -> list[str]:
    """The names with the first part that any has."""
    found = ([name for name in names if part in name.lower()] for part in parts)
    return next((matching for matching in found if matching), [])


def _data(name: str, folder: Path) -> DataConfig:
    return DataConfig.model_validate(glue.settings_of(name, folder)["data"])


def _fits(name: str, folder: Path) -> bool:
    """The files are there, with the columns and with no labels but those of the task."""
    try:
        data = _data(name, folder)
        files = check_inputs(data)
    except BertlineError:
        return False
    for file in files:
        for row in itertools.islice(read(file, data), _CHECKED):
            if not isinstance(row, Row):
                return False
            label = row.values.get(data.label or "") or ""
            known = label in data.labels if data.labels else as_number(label) is not None
            if not known and not is_excluded(row, data):
                return False
    return True


def _guess(task: str, folder: Path) -> Guess:
    name = task.removeprefix(glue.PREFIX)
    settings = glue.settings_of(name, folder)
    data = _data(name, folder)
    rows = [row for row in itertools.islice(read(check_inputs(data)[0], data), LOOKED_AT) if isinstance(row, Row)]
    texts = list(data.text_columns.values())
    train, evaluation = Path(str(data.train)).name, Path(str(data.eval)).name
    kinds = f"the classes {', '.join(data.labels)}" if data.labels else "numbers"
    return Guess(
        task=task,
        why=f"{train} and {evaluation} are laid out as its files, and their labels are {kinds}",
        seen=seen_rows(len(rows), "examples", str(data.train)),
        data=(Setting("folder", str(folder), f"text: {', '.join(texts)}; label: {data.label}"),),
        seq_len=room_for(" ".join(row.values.get(column) or "" for column in texts) for row in rows),
        thresholds=settings["evaluation"]["thresholds"],
        why_thresholds="above a prediction that ignores the text on GLUE's files",
        model=NEEDS_CHECKPOINT if len(texts) == 2 else FROM_SCRATCH,
    )
