"""How texts are read that are longer than the encoder: which ways a task has, and which of them suits the data.

`models/tokenization/tokenizer.py` shortens texts, `models/heads/pooled.py` reads them in windows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bertline.models.tasks.base.task import Task
from bertline.models.tokenization.packing import Sliding
from bertline.pipeline.config import Long, TextConfig
from bertline.pipeline.core.errors import BertlineError

_FEW = 0.05
"""Examples that may be longer than the encoder without anybody minding."""
_MANY = 0.5
"""Examples of more than two encoders' length from which windows are worth their time: below, a head and a tail show most of
a text, and were better than windows for Sun et al. (arXiv 1905.05583) on texts of about 300 and 740 words."""


class Way(NamedTuple):
    long: Long
    why: str
    """Empty where there was nothing to choose, and nobody wants to know."""


def left_open(task: Task, text: TextConfig) -> bool:
    """Whether Transform is to keep so much of a text that the Trainer can still choose, or count what is left out."""
    return "auto" in task.preprocessing.long and text.long in ("auto", "windows")


def check_long(task: Task, text: TextConfig, texts: int, *, xla: bool = False) -> None:
    """Refuses a way to read long texts that the task does not have, before the run starts.

    Args:
      texts: of an example.
      xla: whether the training step is compiled.
    """
    way = text.long
    if way == "auto":
        return
    if not task.preprocessing.long:
        raise BertlineError(f"text.long: the task {task.name} reads long texts in windows in any case; leave it out.")
    if way not in task.preprocessing.long:
        known = " or ".join(name for name in task.preprocessing.long if name != "auto")
        raise BertlineError(f"text.long: {way} is not for the task {task.name}; leave it out, or choose {known}.")
    if way == "windows" and texts > 1:
        raise BertlineError(
            f"text.long: windows are of one text, and an example has {texts} (data.text); choose head_tail, which shortens"
            " each of them."
        )
    if way == "windows" and xla:
        raise BertlineError(
            "text.long: windows differ in number from batch to batch, and training.xla compiles for one number; leave one"
            " of them out."
        )


def choose_long(lengths: np.ndarray, text: TextConfig, *, windows: bool) -> Way:
    """How long texts are read.

    Args:
      lengths: [training examples] tokens with [CLS] and [SEP], counted up to more than all windows of a text show.
      windows: whether an example may be read in windows.
    """
    longer, much_longer = (int((lengths > times * text.seq_len).sum()) for times in (1, 2))
    room = Sliding.over(text.seq_len, text.window_step, text.max_windows).room
    beyond = int((lengths - 2 > room).sum())
    counted = f"of {len(lengths):,} training examples {'has' if longer == 1 else 'have'} more than"
    few = f"{longer:,} {counted} {text.seq_len} tokens"
    if text.long == "auto":
        if longer <= _FEW * len(lengths):
            return Way("cut", f"{few}, and their first ones are read" if longer else "")
        if not windows or much_longer <= _MANY * len(lengths):
            return Way("head_tail", f"{few}; a quarter of what is read is their begin, the rest their end")
        few = f"{much_longer:,} {counted} {2 * text.seq_len} tokens"
    elif text.long != "windows":
        return Way(text.long, "")
    gone = f"; of {beyond:,} longer than {text.max_windows} windows the middle is not read" if beyond else ""
    return Way("windows", f"{few}; each is read in windows of {text.seq_len}{gone}")
