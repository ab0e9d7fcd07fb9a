"""What a look at the data came to: settings for a config, each with its reason."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from bertline.models.tasks.base.task import get_task, is_task

CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff]")
FROM_SCRATCH = "from scratch; or checkpoint: FOLDER of a Hugging Face BERT"
NEEDS_CHECKPOINT = "from scratch, which hardly learns this; better checkpoint: FOLDER of a Hugging Face BERT"


LONGEST = 512
"""Tokens that BERT has positions for."""
_TOKENS_PER_WORD = 1.4
_FEW = 0.05
"""Texts that may need more tokens than the others."""
_SAMPLED = 500


class Room(int):
    """Tokens for a text, with how many texts need more of them: what is said of the number has to be true of the data."""

    longer: int
    texts: int
    sample: tuple[str, ...]
    """Some of the texts, by which an encoder is chosen."""

    def __new__(cls, tokens: int, *, longer: int, texts: int, sample: Iterable[str] = ()) -> Room:
        made = super().__new__(cls, tokens)
        made.longer, made.texts, made.sample = longer, texts, tuple(sample)
        return made

    def why(self, task: str) -> str:
        """
        >>> Room(512, longer=7, texts=9).why("choice")
        'tokens, the limit of the model; at 1.4 a word, 7 of 9 texts are longer and cut'
        """
        most = ", the limit of the model" if self >= LONGEST else ""
        if not self.longer:
            return f"tokens{most}; at {_TOKENS_PER_WORD} a word, every text fits"
        become = "read in windows" if not _ways(task) else "not read whole" if self.why_long(task) else "cut"
        longer = f"{self.longer:,} of {self.texts:,} texts {'is' if self.longer == 1 else 'are'} longer and {become}"
        return f"tokens{most}; at {_TOKENS_PER_WORD} a word, {longer}"

    def why_long(self, task: str) -> str | None:
        """What is said of `text.long`; nothing where texts are short, or the task has no choice."""
        if "auto" not in _ways(task) or self < LONGEST or self.longer <= _FEW * self.texts:
            return None
        return "start and end (head_tail) or windows over all of it, by the lengths of all training examples"


def _ways(task: str) -> tuple[str, ...]:
    """To read a text that is longer than the encoder."""
    return get_task(task).preprocessing.long if is_task(task) else ("cut",)  # GLUE's layouts are no tasks of their own


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
    evaluation: str | None = None
    test: str | None = None
    """To be measured by at the end, and to choose nothing by; it may turn out to have no labels."""
    query: str | None = None
    """What is asked of a database, whose address is the path."""
    sheet: Setting | None = None
    """Which of several sheets of a workbook it is."""

    @property
    def settings(self) -> list[Setting]:
        if self.evaluation is None:
            of_file = [self.sheet] if self.sheet else [Setting("query", self.query)] if self.query else []
            return [Setting("path", self.path), *of_file]
        return [Setting("train", self.path), Setting("eval", self.evaluation)]


@dataclass(frozen=True, kw_only=True)
class Guess:
    """A config, as far as the data says it."""

    task: str
    why: str
    """Reason for the task."""
    seen: str
    """What was looked at, as `300 rows of a.csv`."""
    data: tuple[Setting, ...]
    seq_len: Room | None = None
    """Tokens; None leaves it to the task's default."""
    thresholds: dict[str, float]
    why_thresholds: str
    from_scratch: tuple[dict[str, float], str] | None = None
    """Bounds and their reason where no checkpoint is used, if they are others."""
    model: str = FROM_SCRATCH
    """What is said of an encoder from scratch."""
    texts: tuple[str, ...] = ()
    """Some of the texts, where `seq_len` does not bring them along."""

    @property
    def sample(self) -> tuple[str, ...]:
        return self.texts or (self.seq_len.sample if self.seq_len else ())


def room_for(texts: Iterable[str]) -> Room:
    """Tokens that 19 of 20 texts fit in: a word makes about 1.4 tokens, a Chinese or Japanese character one."""
    texts = list(texts)
    words = sorted(max(len(text.split()), len(CJK.findall(text))) for text in texts)
    tokens = [count * _TOKENS_PER_WORD + 2 for count in words]
    room = min(LONGEST, max(16, 8 * math.ceil(tokens[math.ceil((1 - _FEW) * len(words)) - 1] / 8)))
    sample = texts[:: max(1, len(texts) // _SAMPLED)][:_SAMPLED]
    return Room(room, longer=sum(count > room for count in tokens), texts=len(words), sample=sample)


def one_line(text: str) -> str:
    """Fit for a comment: a class or a column may be named anything."""
    text = "".join(char if char.isprintable() else " " for char in text)
    return text if len(text) <= 120 else f"{text[:119]}…"
