"""The format of a file: by its ending, and by its first lines where an ending stands for several or for none."""

from __future__ import annotations

import json
import shlex
import zipfile
from collections.abc import Sequence
from itertools import islice
from typing import Any

from bertline.components.ingest.files import format_by_ending, open_bytes, open_text, readable, uncompressed
from bertline.components.ingest.readers import jsonl
from bertline.components.ingest.readers.annotations import examples as annotated
from bertline.components.ingest.readers.annotations import prodigy
from bertline.components.ingest.readers.conll import DOCUMENT
from bertline.components.ingest.readers.json_items import ItemReader
from bertline.components.ingest.readers.records import MAX_RECORD_CHARS
from bertline.models.data import tag_schemes
from bertline.pipeline.config import DataConfig
from bertline.pipeline.core.errors import BertlineError

_LOOKED_AT = 1 << 16
_LIMIT = 0.9
_LINES = 100
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_FOREIGN = {  # first bytes -> what they tell, and what to do
    b"PK": "an archive or a workbook; unpack it, or save the sheet as CSV",
    b"\xd0\xcf\x11\xe0": "a workbook of an old Excel, or one with a password; save it as .xlsx without one",
    b"\x1f\x8b": "compressed; give it an ending .gz, or unpack it",
    b"BZh": "compressed; give it an ending .bz2, or unpack it",
    b"%PDF": "a PDF; save its text",
}


def find_format(path: str) -> str:
    """How a file is written; raises BertlineError if it is nothing that can be read."""
    named = format_by_ending(path)
    if named == "jsonl":
        return _kind_of_lines(path)
    if named in ("csv", "parquet", "conll") or named == "xlsx" and _is_archive(path):
        return named
    with readable(path), open_bytes(path) as stream:
        start = stream.read(_LOOKED_AT)
    if start.startswith(b"PAR1"):
        return "parquet"
    _refuse_foreign(path, start)
    text = start.decode("utf-16" if start[:2] in _UTF16 else "utf-8-sig", "replace")
    if not text.strip():
        raise BertlineError(f"{path}: the file is empty; give one with examples.")
    # Of what was cut off, the last line is not whole.
    lines = text.splitlines()[: -1 if len(start) == _LOOKED_AT else None]
    if named is None and text.lstrip()[0] in "{[":
        return _kind_of_json(path, text, lines)
    if _is_conll(lines):
        return "conll"
    if named is None or named == "documents":
        return "tsv" if _has_tabs(lines) else "documents"
    return named


def _is_archive(path: str) -> bool:
    """As a workbook is one; a damaged one is told of as what it begins like."""
    with readable(path), open_bytes(path) as stream:
        return zipfile.is_zipfile(stream)


def _refuse_foreign(path: str, start: bytes) -> None:
    for mark, what in _FOREIGN.items():
        if start.startswith(mark):
            raise BertlineError(f"{path}: the file is {what}.")
    if b"\0" in start and start[:2] not in _UTF16:
        raise BertlineError(f"{path}: the file is not text; name a CSV, TSV, JSONL, Parquet, CoNLL, SQuAD or text file.")


def _kind_of_lines(path: str) -> str:
    """Which tool has written JSON Lines, by the fields of the first object that tells."""
    data = DataConfig(path=path)
    with readable(path):
        for _, _, found in islice(jsonl.objects(path, data), _LINES):
            if isinstance(found, dict) and isinstance(found.get("text"), str):
                if found.get("answer") in ("accept", *prodigy.LEFT_OUT):
                    return "prodigy"
                if _is_doccano(found):
                    return "doccano"
    return "jsonl"


def _is_doccano(found: dict[str, Any]) -> bool:
    listed = [name for name in ("label", "labels", "entities", "cats") if isinstance(found.get(name), list)]
    if any(annotated.kind_of(found[name]) == "spans" for name in listed):
        return True
    # Other files have lists of classes, too, or a tag for each character: those of doccano are beside an id.
    is_tagged = any(len(found[name]) == len(found["text"]) and all(map(_is_tag, found[name])) for name in listed)
    return bool(listed) and isinstance(found.get("id"), int) and not is_tagged


def _is_tag(name: Any) -> bool:
    return isinstance(name, str) and tag_schemes.parse(name) is not None


def _is_label_studio(path: str) -> bool:
    """A list whose first item is a task with its data, or, in the short form, one that says who has annotated it."""
    try:
        with open_text(path, "utf-8", newline="") as stream:
            first = next(iter(ItemReader(path, stream, None, MAX_RECORD_CHARS))).value
    except (BertlineError, StopIteration):
        return False
    if not isinstance(first, dict):
        return False
    is_task = isinstance(first.get("data"), dict) and bool({"annotations", "completions"} & set(first))
    return is_task or {"id", "annotation_id"} <= set(first)


def _kind_of_json(path: str, text: str, lines: Sequence[str]) -> str:
    if text.lstrip()[0] == "[":
        if _is_label_studio(path):
            return "label-studio"
        raise _list_instead(path, lines)
    try:
        first = json.loads(lines[0])
    except (ValueError, IndexError):  # one object over many lines, or one line that is longer than what was read
        return "squad"
    whole = [line for line in lines if line.strip()]
    return "squad" if "data" in first and len(whole) == 1 else _kind_of_lines(path)


def _list_instead(path: str, lines: Sequence[str]) -> BertlineError:
    """What to do with JSON whose rows have no names for what is in them, or are all in one list."""
    wanted = "write one object a line (JSON Lines)"
    try:
        if len(lines) > 1 and isinstance(json.loads(lines[0]), list):
            example = '{"words": ["Ada", "wrote"], "tags": ["B-PER", "O"]}'
            return BertlineError(f"{path}: each line is a JSON list; {wanted}, with names for its values, as {example}.")
    except ValueError:  # one list over several lines
        pass
    target = shlex.quote(uncompressed(path).with_suffix(".jsonl").name)
    script = "import json,sys; [print(json.dumps(row, ensure_ascii=False)) for row in json.load(sys.stdin)]"
    return BertlineError(
        f"{path}: the file is one JSON list; {wanted}. This command writes {target}:\n"
        f"  python3 -c '{script}' < {shlex.quote(path)} > {target}"
    )


def _is_conll(lines: Sequence[str]) -> bool:
    """Most lines are a word and, in the last of two to four columns, a tag."""
    told = [line for line in lines if line.strip() and not line.startswith(("#", DOCUMENT))]
    return bool(told) and sum(map(_is_tagged, told)) >= _LIMIT * len(told)


def _is_tagged(line: str) -> bool:
    cells = line.rstrip().split("\t") if "\t" in line else line.split()
    # The word of a text with a label for its second column has spaces.
    return 2 <= len(cells) <= 4 and " " not in cells[0].strip() and tag_schemes.parse(cells[-1].strip()) is not None


def _has_tabs(lines: Sequence[str]) -> bool:
    """Every line has as many tabs as the first: what is called .txt is a table all the same."""
    counts = {line.count("\t") for line in lines if line.strip()}
    return len(counts) == 1 and counts != {0}
