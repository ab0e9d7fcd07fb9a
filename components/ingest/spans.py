"""Files that arrive one after the other, numbered by {SPAN} in the pattern of a config, as TFX has it."""

from __future__ import annotations

import re

from bertline.pipeline.core import storage

SPAN = "{SPAN}"


def files_of_spans(pattern: str, newest: int | None = None) -> list[str]:
    """The files of all spans, or of the newest ones, in the order of their numbers.

    Args:
      pattern: a glob with {SPAN} once, or several times where the number must be the same: in/{SPAN}/rows-{SPAN}.csv.
      newest: how many spans; the others are left alone.
    """
    found: dict[int, list[str]] = {}
    for path in storage.find(pattern.replace(SPAN, "*")):
        number = _span_of(path, pattern)
        if number is not None:
            found.setdefault(number, []).append(path)
    wanted = sorted(found)[-newest:] if newest else sorted(found)
    return [path for number in wanted for path in sorted(found[number])]


def _span_of(path: str, pattern: str) -> int | None:
    first, *rest = (_as_regex(part) for part in pattern.split(SPAN))
    wanted = first + r"(?P<span>\d+)" + r"(?P=span)".join(rest)
    matched = re.fullmatch(wanted, path)
    return int(matched["span"]) if matched else None


def _as_regex(part: str) -> str:
    """A piece of a glob; `**` may stand for folders."""
    pieces = re.split(r"(\*\*|\*|\?)", part)
    return "".join({"**": ".*", "*": "[^/]*", "?": "[^/]"}.get(piece, re.escape(piece)) for piece in pieces)
