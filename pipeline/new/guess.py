"""What a look at the data came to: settings for a config, each with its reason."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff]")
FROM_SCRATCH = "from scratch; or checkpoint: FOLDER of a Hugging Face BERT"
NEEDS_CHECKPOINT = "from scratch, which hardly learns this; rather checkpoint: FOLDER of a Hugging Face BERT"


class Setting(NamedTuple):
    key: str
    value: Any
    """None is not written."""
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class Source:
    """Whose rows are looked at."""

    path: str
    """A file, or a pattern, whose first file stands for all; to train on, if another is held out."""
    held_out: str | None = None

    @property
    def settings(self) -> list[Setting]:
        if self.held_out is None:
            return [Setting("path", self.path)]
        return [Setting("train", self.path), Setting("eval", self.held_out)]


@dataclass(frozen=True, kw_only=True)
class Guess:
    """A config, as far as the data says it."""

    task: str
    why: str
    """Reason for the task."""
    seen: str
    """What was looked at, as `300 rows of a.csv`."""
    data: tuple[Setting, ...]
    seq_len: int | None = None
    """Tokens; None leaves it to the task's default."""
    bounds: dict[str, float]
    why_bounds: str
    model: str = FROM_SCRATCH
    """What is said of an encoder from scratch."""


def room_for(texts: Iterable[str]) -> int:
    """Tokens that 19 of 20 texts fit in: a word makes about 1.4 pieces, a Chinese or Japanese character one."""
    words = sorted(max(len(text.split()), len(CJK.findall(text))) for text in texts)
    pieces = words[math.ceil(0.95 * len(words)) - 1] * 1.4 + 2
    return min(512, max(16, 8 * math.ceil(pieces / 8)))


def one_line(text: str) -> str:
    """Fit for a comment: a class or a column may be named anything."""
    text = "".join(char if char.isprintable() else " " for char in text)
    return text if len(text) <= 120 else f"{text[:119]}…"
