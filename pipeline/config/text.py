"""How text becomes pieces."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, field_validator, model_validator

from pipeline.config.base import Frozen

Reading = Literal["original", "huggingface"]
Long = Literal["auto", "cut", "head_tail", "windows"]


class TextConfig(Frozen):
    """How text becomes WordPiece ids."""

    vocab: str | None = None
    """A `vocab.txt`, one piece a line. By default the checkpoint's own; without either one is learned from the text."""
    target_vocab: str | None = None
    """Of the task translation, with `separate`: the `vocab.txt` of the language that is translated into; `vocab` is then
    that of the other. Without, it is learned from the text."""
    vocab_size: int = Field(default=8000, ge=100, le=200_000)
    """Size of a learned vocabulary; of each, where two are learned."""
    reserved: tuple[str, ...] = Field(default=(), max_length=25)
    """Further pieces in brackets, such as [URL], that a learned vocabulary has after the special ones. The reading
    `huggingface` keeps them whole in a text."""
    lower: bool = True
    """Uncased text: lower-cased, accents dropped. A checkpoint's `tokenizer_config.json` sets the default."""
    strip_accents: bool | None = None
    """Drop accents or keep them, whatever `lower` says. A checkpoint's `tokenizer_config.json` sets the default."""
    reading: Reading = "original"
    """Which reference tokenizer is matched where the two differ; a checkpoint folder sets `huggingface`."""
    seq_len: int = Field(default=128, ge=8, le=512)
    """Tokens that are read at once, [CLS] and [SEP] included; `long` says what becomes of longer texts."""
    long: Long = "auto"
    """How a text is read that is longer than `seq_len`: `cut`, its first tokens; `head_tail`, a quarter of the tokens from
    its begin and the others from its end; `windows`, in overlapping windows, whose vectors are put together by their
    maximum. `auto` chooses by the lengths of the training examples. Of the tasks classification, multilabel and regression
    (two texts: no windows), similarity and matching (no windows, and `auto` cuts). Tagging and answering always read
    windows, all others cut."""
    joined: bool = False
    """Keep in the pieces which words stood together without a space, so that a text can be written again as it was; set for
    a task that writes texts."""
    separate: bool = False
    """Of the task translation: a vocabulary of its own for each of the two languages, in place of one for both."""
    window_step: int | None = Field(default=None, ge=1, le=512)
    """Tokens from one window of a long text to the next; half of a window by default."""
    max_windows: int = Field(default=8, ge=2, le=64)
    """Windows that `long: windows` reads of a text at most, which bounds memory and time; what a longer text has in its
    middle is left out. A training works through a batch of them in parts, see `training.accumulate`."""

    @model_validator(mode="after")
    def _second_is_separate(self) -> TextConfig:
        if self.target_vocab is not None and not self.separate:
            raise ValueError("`target_vocab` is one of two vocabularies; set `separate: true` as well, or leave it out")
        return self

    @field_validator("reserved")
    @classmethod
    def _in_brackets(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for piece in value:
            if not re.fullmatch(r"\[[A-Za-z0-9_-]{1,30}\]", piece):
                raise ValueError(f"{piece!r} is not letters, digits, - and _ in brackets, such as [URL]")
        if len(set(value)) < len(value):
            raise ValueError("name each piece once")
        return value
