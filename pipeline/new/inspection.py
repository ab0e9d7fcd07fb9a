"""From a file or folder to a guess: which format it has, which kinds of rows fit, and which of them is taken."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from bertline.components.ingest.files import InputFile, find_files, format_by_ending
from bertline.components.ingest.readers.excel import sheets
from bertline.pipeline.config import DataConfig, format_names, nearest, task_names
from bertline.pipeline.config.databases import PASSWORD_VARIABLE, anchored, has_password, is_database
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.new.annotation_tools import TOOLS, guess_annotated
from bertline.pipeline.new.folders import files_beside, files_of, guess_glue
from bertline.pipeline.new.formats import find_format
from bertline.pipeline.new.guess import Guess, Setting, Source, one_line
from bertline.pipeline.new.recognition import formats, kinds
from bertline.pipeline.new.tables import columns
from bertline.pipeline.new.tables.table import Table, read_table
from bertline.pipeline.new.test_examples import with_test
from bertline.pipeline.new.translations import guess_parallel
from bertline.pipeline.settings import glue


def describe(path: str, *, format: str | None = None, task: str | None = None, query: str | None = None) -> Guess:
    """Looks at the first rows of a file and guesses what they mean.

    Where a folder has a file of test examples, its rows are to be like the others.

    Args:
      path: a CSV, TSV, JSONL, Parquet, CoNLL, SQuAD or text file, an export of Label Studio, doccano or Prodigy, a pattern
        of such, one of two parallel files, or a folder.
      format: how it is written, if it is not to be guessed.
      task: what is to be learned, if it is not to be guessed.
      query: what is asked of a database, whose address `path` then is.
    """
    if query is not None or is_database(path):
        return _guess_query(path, query, task)
    folder = Path(os.path.abspath(path))
    if folder.is_dir() and format is None and (guess := guess_glue(folder, task)):
        return guess
    if format in (None, "parallel") and task in (None, "translation"):
        if guess := guess_parallel(folder):
            return guess
        if format:
            raise _no_partner(path)
    source = files_of(folder) if folder.is_dir() else files_beside(folder)
    if task and task.startswith(glue.PREFIX):
        raise BertlineError(f"{path}: a GLUE task is read from the folder of its files; give the folder.")
    _known(task)
    return with_test(_guess(path, source, format, task), source.test)


def _guess_query(url: str, query: str | None, task: str | None) -> Guess:
    if has_password(url):
        raise BertlineError(f"the address has a password, which would be stored; give it in {PASSWORD_VARIABLE} instead.")
    if query is None:
        raise BertlineError(f"{url}: a database needs a query; give --query 'SELECT body, queue FROM tickets'.")
    source = Source(path=anchored(url, Path.cwd()), query=query)
    data = DataConfig(path=source.path, query=query)
    return _guess_table(source, find_files(data)[0], data, _known(task))


def _known(task: str | None) -> str | None:
    if task and task not in task_names():
        raise BertlineError(f"--task {task}: there is no such task{nearest(task, task_names())}.")
    return task


def _guess(path: str, source: Source, format: str | None, task: str | None) -> Guess:
    file = _first_file(source, format)
    if file.format == "documents" and task == "translation":
        raise _no_partner(path)
    data = DataConfig.model_validate({"path": source.path, "format": _written(file, format)})
    if file.format == "xlsx" and source.evaluation is None and len(names := sheets(file.path)) > 1:
        more = f"; or {', '.join(names[1:])}"
        source = replace(source, sheet=Setting("sheet", names[0], f"the first{more}"))
        data = data.model_copy(update={"sheet": names[0]})
    if file.format in TOOLS:
        return guess_annotated(source, file, data, task)
    telling = formats()
    if file.format not in telling:
        return _guess_table(source, file, data, task)
    guess = telling[file.format](source, file, data)
    if task and task != guess.task:
        raise BertlineError(f"{path}: a file of the format {file.format} is for the task {guess.task}, not for {task}.")
    return guess


def _no_partner(path: str) -> BertlineError:
    return BertlineError(
        f"{path}: no two files here are aligned line by line; a translation needs two whose names differ in the language,"
        " as train.en and train.de, or a table with a column for each."
    )


def _first_file(source: Source, format: str | None) -> InputFile:
    if format is not None and format not in format_names():
        raise BertlineError(f"--format {format}: known are {', '.join(format_names())}.")
    # Any format does here: which files there are does not depend on it.
    found = find_files(DataConfig.model_validate({"path": source.path, "format": "documents"}))[0].path
    return InputFile(found, format or find_format(found), None)


def _written(file: InputFile, format: str | None) -> str | None:
    """The format, if the ending does not say it."""
    return file.format if format or format_by_ending(file.path) != file.format else None


def _guess_table(source: Source, file: InputFile, data: DataConfig, task: str | None) -> Guess:
    table = read_table(source, file, data)
    if file.format in ("csv", "tsv") and columns.looks_headerless(table):
        # Name the columns by what they seem to be, and take the first line for the row that it is.
        named = table.data.model_copy(update={"columns": columns.names_for(table)})
        table = read_table(source, file, named)
    for kind in kinds():
        wanted = not kind.only_asked if task is None else kind.task == task
        if wanted and (guess := kind.guess(table)):
            return guess
    raise _nothing_fits(table, task)


def _nothing_fits(table: Table, task: str | None) -> BertlineError:
    texts = columns.main_texts(table)
    shown = f"Columns: {one_line(', '.join(table.columns))}"
    others = [kind.task for kind in kinds() if kind.guess(table)]
    if task:
        fitting = f"they look like {' or '.join(others)}" if others else "nor like those of another task"
        return BertlineError(f"{table.source.path}: the examples do not look like those of {task}; {fitting}. {shown}.")
    missing = "a label: few values that repeat, or decimals" if texts else "text: a column of words"
    pairs = f"; or, if the texts of an example match, give --task {others[0]}" if others else ""
    return BertlineError(f"{table.source.path}: no column looks like {missing}. {shown}. Write the config by hand{pairs}.")
