"""How things are put in messages and records."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence


def without_password(uri: str) -> str:
    """An address as it may be shown.

    >>> without_password("https://me:secret@host/x")
    'https://…@host/x'
    """
    return re.sub(r"//[^/\s]+@", "//…@", uri)  # up to the last @: a password may hold one


def nearest(word: str, known: Sequence[str]) -> str:
    """`; did you mean X?`, or nothing where no known word is like it."""
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else ""
