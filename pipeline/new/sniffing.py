"""The format of a file: by its ending, and by its first lines where an ending stands for several or for none."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence

from components.ingest.conll import DOCUMENT
from components.ingest.files import format_by_ending, open_bytes, readable, uncompressed
from models import tags
from pipeline.errors import BertlineError

_LOOKED_AT = 1 << 16
_MOST = 0.9
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_FOREIGN = {  # first bytes -> what they tell, and what to do
    b"PK": "an archive or a workbook; unpack it, or save the sheet as CSV",
    b"\x1f\x8b": "compressed; give it an ending .gz, or unpack it",
    b"BZh": "compressed; give it an ending .bz2, or unpack it",
    b"%PDF": "a PDF; save its text",
}


def find_format(path: str) -> str:
    """How a file is written; raises BertlineError if it is nothing that can be read."""
    named = format_by_ending(path)
    if named in ("csv", "jsonl", "parquet", "conll"):
        return named
    with readable(path), open_bytes(path) as stream:
        start = stream.read(_LOOKED_AT)
    if start.startswith(b"PAR1"):
        return "parquet"
    _refuse_foreign(path, start)
    text = start.decode("utf-16" if start[:2] in _UTF16 else "utf-8-sig", "replace")
    if not text.strip():
        raise BertlineError(f"{path}: the file is empty; name one with rows.")
    # Of what was cut off, the last line is not whole.
    lines = text.splitlines()[: -1 if len(start) == _LOOKED_AT else None]
    if named is None and text.lstrip()[0] in "{[":
        return _kind_of_json(path, text, lines)
    if _is_conll(lines):
        return "conll"
    if named is None or named == "documents":
        return "tsv" if _has_tabs(lines) else "documents"
    return named


def _refuse_foreign(path: str, start: bytes) -> None:
    for mark, what in _FOREIGN.items():
        if start.startswith(mark):
            raise BertlineError(f"{path}: the file is {what}.")
    if b"\0" in start and start[:2] not in _UTF16:
        raise BertlineError(f"{path}: the file is not text; name a CSV, TSV, JSONL, Parquet, CoNLL, SQuAD or text file.")


def _kind_of_json(path: str, text: str, lines: Sequence[str]) -> str:
    if text.lstrip()[0] == "[":
        raise _list_instead(path, lines)
    try:
        first = json.loads(lines[0])
    except (ValueError, IndexError):  # one object over many lines, or one line that is longer than what was read
        return "squad"
    whole = [line for line in lines if line.strip()]
    return "squad" if "data" in first and len(whole) == 1 else "jsonl"


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
    return bool(told) and sum(map(_is_tagged, told)) >= _MOST * len(told)


def _is_tagged(line: str) -> bool:
    cells = line.rstrip().split("\t") if "\t" in line else line.split()
    # The word of a text with a label for its second column has spaces.
    return 2 <= len(cells) <= 4 and " " not in cells[0].strip() and tags.parse(cells[-1].strip()) is not None


def _has_tabs(lines: Sequence[str]) -> bool:
    """Every line has as many tabs as the first: what is called .txt is a table all the same."""
    counts = {line.count("\t") for line in lines if line.strip()}
    return len(counts) == 1 and counts != {0}
