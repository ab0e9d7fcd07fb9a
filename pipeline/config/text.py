"""How text becomes tokens."""

from __future__ import annotations

import re
from typing import ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from bertline.pipeline.config.base import Frozen

TokenizerVariant = Literal["original", "huggingface"]
Long = Literal["auto", "cut", "head_tail", "windows"]


class TextConfig(Frozen):
    """How text becomes WordPiece ids."""

    config_section: ClassVar[str] = "text"

    vocab: str | None = None
    """A `vocab.txt`, one token a line. By default the checkpoint's own; without either one is learned from the text."""
    target_vocab: str | None = None
    """Of the task translation, with `separate_vocabularies`: the `vocab.txt` of the target language; `vocab` is then that
    of the source. By default it is learned from the text."""
    vocab_size: int = Field(default=8000, ge=100, le=200_000)
    """Size of a learned vocabulary; of each, where two are learned."""
    reserved_tokens: tuple[str, ...] = Field(default=(), max_length=25)
    """Further tokens in brackets, such as [URL], that a learned vocabulary has after the special ones. The tokenizer
    variant `huggingface` keeps them whole in a text."""
    lowercase: bool = True
    """Uncased text: lower-cased, accents dropped. A checkpoint's `tokenizer_config.json` sets the default."""
    strip_accents: bool | None = None
    """Drop accents or keep them, whatever `lowercase` says. A checkpoint's `tokenizer_config.json` sets the default."""
    tokenizer_variant: TokenizerVariant = "original"
    """Which reference tokenizer is matched where the two differ: `original` (Google's) or `huggingface`, which the
    `tokenizer_config.json` of a checkpoint sets."""
    seq_len: int = Field(default=128, ge=8, le=512)
    """Tokens of one sequence, [CLS] and [SEP] included; `long` says how longer texts are handled."""
    long: Long = "auto"
    """How a text longer than `seq_len` is handled: `cut`, truncated to its first tokens; `head_tail`, a quarter of the
    tokens from its start and the others from its end; `windows`, in overlapping windows, whose vectors are max-pooled.
    `auto` chooses by the lengths of the training examples. Of the tasks classification, multilabel and regression (two
    texts: no windows), similarity and matching (no windows, and `auto` cuts). Tagging and answering always use windows, all
    others cut."""
    preserve_whitespace: bool = False
    """Keep in the tokens where words were joined without a space, so that a text can be detokenized as it was; set for a
    task that generates text."""
    separate_vocabularies: bool = False
    """Of the task translation: a separate vocabulary for each of the two languages, instead of a shared one."""
    window_step: int | None = Field(default=None, ge=1, le=512)
    """Tokens from one window of a long text to the next; half of a window by default."""
    max_windows: int = Field(default=8, ge=2, le=64)
    """Limit of windows that `long: windows` takes of a text, which limits memory and time; the middle of a longer text is
    left out. Training divides a batch of them into parts, see `training.gradient_accumulation_steps`."""

    @model_validator(mode="after")
    def _second_is_separate(self) -> TextConfig:
        if self.target_vocab is not None and not self.separate_vocabularies:
            raise ValueError(
                "`target_vocab` is one of two vocabularies; set `separate_vocabularies: true` as well, or leave it out"
            )
        return self

    @field_validator("reserved_tokens")
    @classmethod
    def _in_brackets(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for token in value:
            if not re.fullmatch(r"\[[A-Za-z0-9_-]{1,30}\]", token):
                raise ValueError(f"{token!r} is not letters, digits, - and _ in brackets, such as [URL]")
        if len(set(value)) < len(value):
            raise ValueError("name each token once")
        return value
