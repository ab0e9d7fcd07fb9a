"""JSON from a stranger: the bytes of a request as a document, or an error in TensorFlow Serving's words."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from json.encoder import encode_basestring as quoted
from typing import Any

import numpy as np

from bertline.serving.embedded.errors import RequestError
from bertline.serving.settings import Limits

MAX_DEPTH = 400
"""Whatever the limit is: Python's parser recurses, and gives up at about 1,000."""
SHOWN = 256
"""So much of a faulty value an error message quotes."""

_QUOTE = ord('"')
_BRACKETS, _VALUES = b"[]{}", b"[{,:"
_SURROGATES = re.compile(
    r"""(?:[^\\]++ | \\[^u] | \\u(?![dD][89a-fA-F])
         | \\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})*+""",
    re.VERBOSE,
)
"""Matches up to the first half of a pair that stands alone."""
_FAULTS = (
    ("Expecting value", "Invalid value."),
    ("Expecting property name", "Missing a name for object member."),
    ("Expecting ':'", "Missing a colon after a name of object member."),
    ("Unterminated string", "Missing a closing quotation mark in string."),
    ("Invalid control character", "Invalid encoding in string."),
    ("Invalid \\uXXXX escape", "Incorrect hex digit after \\u escape in string."),
    ("Invalid \\escape", "Invalid escape character in string."),
)
"""What Python's parser says, and what TensorFlow Serving's says."""
_TYPES = {type(None): "Null", dict: "Object", list: "Array", str: "String"}


class Infinite(float):
    """What the token Infinity gives. A plain float that is infinite was a number too big to be one."""


def parse(body: bytes, limits: Limits) -> dict[str, Any]:
    """The object that the body is, within the limits. As in TensorFlow Serving, what follows it is not read."""
    _check_count(body, limits.json_values)
    _check_depth(body, min(limits.json_depth, MAX_DEPTH))
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _unparsed("Invalid encoding in string.", error.start) from None
    start = len(text) - len(text.lstrip(" \t\r\n"))
    if start == len(text):
        raise invalid("JSON Parse error: The document is empty")
    try:
        document, end = _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        before = text[: error.pos].encode()
        raise _unparsed(_fault(error.msg, before), len(before)) from None
    except ValueError:  # an integer of thousands of digits
        raise too_big() from None
    if "\\u" in text:
        _check_surrogates(text, end)
    if type(document) is not dict:
        raise ill_formed(document, "Is not object")
    return document


def invalid(message: str) -> RequestError:
    return RequestError("INVALID_ARGUMENT", message)


def ill_formed(value: Any, message: str) -> RequestError:
    return invalid(f"JSON Value: {shown(value)} {message}")


def too_big() -> RequestError:
    return invalid("JSON Parse error: Number too big to be stored in double.")


def type_of(value: Any) -> str:
    """The name of a value's JSON type."""
    return str(value) if type(value) is bool else _TYPES.get(type(value), "Number")


def shown(value: Any) -> str:
    """The value as the real server quotes it; of a long one, the beginning."""
    text, size = [], 0
    for piece in _pieces(value, 0, ""):
        if size >= SHOWN:
            break
        text.append(piece)
        size += len(piece)
    return "".join(text)


def line(level: int) -> str:
    """The start of a new line so many brackets deep."""
    return "\n" + "    " * level


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of two values under one key, parsers differ on which counts: so neither does."""
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise invalid(f"JSON Parse error: Duplicate key: {quoted(twice[:SHOWN])}")
    return found


_CONSTANTS = {"NaN": math.nan, "Infinity": Infinite("inf"), "-Infinity": Infinite("-inf")}
_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_CONSTANTS.__getitem__)


def _check_count(body: bytes, limit: int) -> None:
    """Before anything parses it: each value is the first of a list or an object, or follows a comma; a key is a text as
    well. Empty lists and objects, which cost the most, so count twice."""
    if sum(body.count(mark) for mark in (b"[", b"{", b",", b":")) <= limit:
        return
    if len(_outside_strings(body, _VALUES)) > limit:
        raise invalid(f"JSON Parse error: The document has more than {limit} values, which is the limit; gRPC has none")


def _check_depth(body: bytes, limit: int) -> None:
    """Before anything parses it: a parser that recurses is what deep JSON is sent for."""
    if body.count(b"[") + body.count(b"{") <= limit:
        return
    steps = _steps(_outside_strings(body, _BRACKETS))
    if steps.size and int(steps.cumsum(dtype=np.int32).max()) > limit:
        raise invalid(f"JSON Parse error: The document is nested deeper than {limit} levels")


def _outside_strings(body: bytes, marks: bytes) -> bytes:
    """All of these marks in their order, but for those in strings. A body may be megabytes of them: hence arrays."""
    unescaped = body.replace(rb"\\", b"").replace(rb"\"", b"")
    codes = np.frombuffer(unescaped.translate(None, bytes(set(range(256)) - {*marks, _QUOTE})), np.uint8)
    in_string = np.logical_xor.accumulate(codes == _QUOTE)
    return codes[~in_string & (codes != _QUOTE)].tobytes()


def _steps(brackets: bytes) -> np.ndarray:
    """1 for each that opens, -1 for each that closes."""
    codes = np.frombuffer(brackets, np.uint8)
    return np.where((codes == ord("[")) | (codes == ord("{")), np.int8(1), np.int8(-1))


def _check_surrogates(text: str, end: int) -> None:
    """Python takes half a pair for a character, which no encoding then has."""
    paired = _SURROGATES.match(text, 0, end)
    if paired and paired.end() < end:
        raise _unparsed("The surrogate pair in string is invalid.", len(text[: paired.end()].encode()))


def _fault(said: str, before: bytes) -> str:
    if said.startswith("Expecting ','"):
        brackets = _outside_strings(before, _BRACKETS)
        steps = _steps(brackets)
        depths = steps.cumsum(dtype=np.int32)
        innermost = np.flatnonzero((steps == 1) & (depths == depths[-1]))[-1]
        inside = "'}' after an object member" if brackets[innermost] == ord("{") else "']' after an array element"
        return f"Missing a comma or {inside}."
    return next((ours for theirs, ours in _FAULTS if said.startswith(theirs)), "Unspecific syntax error.")


def _unparsed(fault: str, offset: int) -> RequestError:
    return invalid(f"JSON Parse error: {fault} at offset: {offset}")


def _pieces(value: Any, level: int, before: str) -> Iterator[str]:
    if type(value) is dict:
        yield before + "{"
        for place, (key, item) in enumerate(value.items()):
            yield ("," if place else "") + line(level + 1) + quoted(key[:SHOWN])
            yield from _pieces(item, level + 1, ": ")
        yield (line(level) if value else "") + "}"
    elif type(value) is list:
        yield before + "["
        for place, item in enumerate(value):
            yield from _pieces(item, level + 1, ", " if place else "")
        yield "]"
    else:
        yield before + (quoted(value[:SHOWN]) if type(value) is str else json.dumps(value)[:SHOWN])
