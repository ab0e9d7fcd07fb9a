"""Characters as TF-IDF sees them, as tables: an exported model goes on seeing them as the Python that made it has."""

from __future__ import annotations

import re
import sys
from functools import cache
from typing import NamedTuple

import numpy as np

_ALONE = r"\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
WORD = re.compile(rf"[{_ALONE}]|[^\W_{_ALONE}]+|_")
"""A word of a lowered text; of Chinese and Japanese, which have no spaces, a character."""
NEITHER, OF_WORD, WORD_ALONE, SPACE = range(4)
"""What a character is."""


def lowered(text: str) -> str:
    """Small letters, one for one and whatever stands beside them: no final sigma, and no dot left over of İ.

    >>> lowered("ΟΔΟΣ İzmir")
    'οδοσ izmir'
    """
    return text.replace("İ", "i").lower().replace("ς", "σ")


class Characters(NamedTuple):
    """All of Unicode in a few thousand numbers."""

    starts: np.ndarray
    """The first code points of ranges of one kind, from 0 on."""
    kinds: np.ndarray
    """What each of these ranges is."""
    capitals: np.ndarray
    """Code points that have a small letter, rising."""
    smalls: np.ndarray
    """Their small letters."""

    def kind_of_each(self) -> np.ndarray:
        """By code point."""
        return np.repeat(self.kinds, np.diff([*self.starts, sys.maxunicode + 1]))

    def small_of_each(self) -> np.ndarray:
        """By code point."""
        found = np.arange(sys.maxunicode + 1)
        found[self.capitals] = self.smalls
        return found


@cache
def characters() -> Characters:
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    codes, small = np.arange(len(every)), np.asarray(list(map(ord, lowered(every))))
    kinds = np.full(len(every), NEITHER, np.int64)
    for kind, pattern in ((OF_WORD, r"[^\W_]+"), (WORD_ALONE, rf"[{_ALONE}_]+"), (SPACE, r"\s+")):
        for found in re.finditer(pattern, every):
            kinds[found.start() : found.end()] = kind
    starts = np.flatnonzero(np.diff(kinds, prepend=-1))
    capitals = np.flatnonzero(small != codes)
    return Characters(starts, kinds[starts], capitals, small[capitals])
