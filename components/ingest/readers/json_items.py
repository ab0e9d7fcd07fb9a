"""One large JSON list, or an object with one, read item by item: no more than one item is held in memory."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple, TextIO

from bertline.pipeline.core.errors import BertlineError

_CHUNK = 1 << 16
_LONGEST_WORD = len("-Infinity")
_SPACE = re.compile(r"[ \t\r\n]*")


class Item(NamedTuple):
    line: int
    """On which it begins, from 1."""
    value: Any


class ItemReader:
    """Reads the list `[item, item, …]`, or the one in the object `{…, key: [item, item, …], …}`, from a stream of text.

    Args:
      path: of the file, for what is said of it.
      stream: decoded text, with its line ends as they are.
      key: of the list in the object; None of a list that is the whole file.
      max_chars: a longer item, or other value, is refused.
    """

    def __init__(self, path: str, stream: TextIO, key: str | None, max_chars: int) -> None:
        self._path, self._stream, self._key, self._max_chars = path, stream, key, max_chars
        self._list = "the list" if key is None else repr(key)
        self._decoder = json.JSONDecoder()
        self._text, self._at, self._ended = "", 0, False
        self._line, self._column = 1, 1  # of the text's begin

    def __iter__(self) -> Iterator[Item]:
        if self._key is None:
            yield from self._items()
            if self._peek():
                raise self._error("nothing belongs after the end of the list")
            return
        self._expect("{", "an object begins")
        found = False
        while self._peek() != "}":
            name = self._value("a key of the object").value
            if not isinstance(name, str):
                raise self._error("a key in quotes belongs here")
            self._expect(":", "the value of a key begins")
            if name == self._key:
                found = True
                yield from self._items()
            else:
                self._value("a value")
            if self._peek() != "}":
                self._expect(",", "the next key comes, or the object ends")
        self._expect("}", "the object ends")
        if self._peek():
            raise self._error("nothing belongs after the end of the object")
        if not found:
            raise BertlineError(f"{self._path}: the object has no list {self._key!r}; name a file of this format.")

    def _items(self) -> Iterator[Item]:
        self._expect("[", f"{self._list} begins" if self._key is None else f"the list {self._list} begins")
        while self._peek() != "]":
            yield self._value(f"an item of {self._list}")
            if self._peek() != "]":
                self._expect(",", "the next item comes, or the list ends")
        self._expect("]", "the list ends")

    def _expect(self, mark: str, why: str) -> None:
        if self._peek() != mark:
            raise self._error(f"{mark!r} belongs here, where {why}")
        self._at += 1

    def _peek(self) -> str:
        """The next character that is no space; none at the end."""
        while True:
            self._at = _SPACE.match(self._text, self._at).end()  # type: ignore[union-attr]
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def _value(self, what: str) -> Item:
        self._peek()
        self._forget()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, 0)
                # A number may go on in the next chunk.
                if end < len(self._text) or self._ended:
                    self._at = end
                    return Item(self._line, value)
            except RecursionError:
                raise self._error(f"{what} has brackets thousands deep") from None
            except ValueError as error:
                if self._ended or self._is_certain(error):
                    self._at = getattr(error, "pos", 0)
                    raise self._error(f"{getattr(error, 'msg', error)}, in {what}") from None
            if len(self._text) > self._max_chars:
                raise self._error(f"{what} is longer than {self._max_chars:,} characters, or not JSON")
            self._more()

    def _is_certain(self, error: ValueError) -> bool:
        """Whether more text could not mend it: what is only cut off is wrong at its end, or opens a string."""
        if not isinstance(error, json.JSONDecodeError):
            return True  # a number of thousands of digits
        return not error.msg.startswith("Unterminated") and error.pos < len(self._text) - _LONGEST_WORD

    def _more(self) -> bool:
        # As much again as there is: an item is then looked at a few times only, however long it is.
        chunk = self._stream.read(max(_CHUNK, len(self._text) - self._at))
        self._text += chunk
        self._ended = not chunk
        return bool(chunk)

    def _forget(self) -> None:
        """Drops what is read, and keeps count of the lines."""
        self._line, self._column = self._place()
        self._text, self._at = self._text[self._at :], 0

    def _place(self) -> tuple[int, int]:
        before = self._text[: self._at]
        lines = before.count("\n")
        return self._line + lines, len(before) - before.rfind("\n") if lines else self._column + len(before)

    def _error(self, reason: str) -> BertlineError:
        line, column = self._place()
        return BertlineError(f"{self._path}: not usable JSON at line {line}, column {column}: {reason}.")
