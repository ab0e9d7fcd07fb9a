"""Learning from text alone."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pipeline.config.base import Frozen


class PhaseConfig(Frozen):
    """A part of a pre-training, on pairs of one length."""

    seq_len: int = Field(ge=8, le=512)
    epochs: int = Field(default=1, ge=1, le=1000)
    batch_size: int = Field(default=32, ge=1, le=65536)


class PretrainingConfig(Frozen):
    """Masked-language modelling and next-sentence prediction, for the task `pretraining`."""

    phases: tuple[PhaseConfig, ...] = Field(default=(), max_length=8)
    """Trainings one after the other, on longer and longer pairs, as the original's 128 and then 512 tokens:
    [{seq_len: 128, epochs: 9, batch_size: 64}, {seq_len: 512, epochs: 1, batch_size: 16}]. They take the place of
    `text.seq_len`, `training.epochs` and `training.batch_size`; the learning rate goes through all of them once."""
    pack: bool = True
    """Put several short examples into a row of `seq_len` tokens, where they do not see each other, instead of padding
    them. `training.batch_size` then counts rows."""

    masking: Literal["piece", "word", "span"] = "piece"
    """What is masked together: single pieces, whole words, or runs of words."""
    mask_share: float = Field(default=0.15, gt=0, lt=1)
    """Share of the tokens to guess."""
    max_masked: int | None = Field(default=None, ge=1, le=512)
    """Tokens to guess in one example at most; by default `mask_share` of the longest example."""
    static: bool = False
    """Keep the masks that were drawn with the pairs, instead of drawing new ones in every epoch."""
    next_sentence: bool = True
    """Also learn whether the second half of an example follows the first."""
    duplicates: int = Field(default=1, ge=1, le=100)
    """How often the training documents are cut into pairs, each time in another way."""
    short_share: float = Field(default=0.1, ge=0, le=1)
    """Share of the documents that are cut into shorter pairs."""
    seed: int = Field(default=42, ge=0, lt=2**31)
    """Seeds the pairs and the masks that are drawn with them."""
