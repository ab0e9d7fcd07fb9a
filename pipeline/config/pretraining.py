"""Pre-training on text alone."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from bertline.pipeline.config.base import Frozen


class PhaseConfig(Frozen):
    """A part of a pre-training, on pairs of one length."""

    seq_len: int = Field(ge=8, le=512)
    epochs: int = Field(default=1, ge=1, le=1000)
    batch_size: int = Field(default=32, ge=1, le=65536)


class PretrainingConfig(Frozen):
    """Masked-language modelling and next-sentence prediction, for the task `pretraining`."""

    config_section: ClassVar[str] = "pretraining"

    phases: tuple[PhaseConfig, ...] = Field(default=(), max_length=8)
    """Trainings one after the other, on longer and longer pairs, as the original's 128 and then 512 tokens:
    [{seq_len: 128, epochs: 9, batch_size: 64}, {seq_len: 512, epochs: 1, batch_size: 16}]. They replace
    `text.seq_len`, `training.epochs` and `training.batch_size`; the learning-rate schedule spans all of them."""
    pack: bool = True
    """Pack several short examples into one sequence of `seq_len` tokens, without attention between them, instead of padding
    them. `training.batch_size` then counts sequences."""
    masking: Literal["token", "word", "span"] = "token"
    """What is masked together: single tokens, whole words, or spans of words."""
    mask_probability: float = Field(default=0.15, gt=0, lt=1)
    """Probability that a token is to be predicted."""
    max_predictions_per_seq: int | None = Field(default=None, ge=1, le=512)
    """Masked tokens in one example at most; by default `mask_probability` of the longest example."""
    static_masking: bool = False
    """Keep the masks that were drawn with the pairs (static masking), instead of new ones in every epoch (dynamic
    masking)."""
    next_sentence: bool = True
    """Also learn whether the second half of an example follows the first."""
    dupe_factor: int = Field(default=1, ge=1, le=100)
    """How often the training documents are cut into pairs, each time in another way."""
    short_seq_probability: float = Field(default=0.1, ge=0, le=1)
    """Probability that a document is cut into shorter pairs."""
    seed: int = Field(default=42, ge=0, lt=2**31)
    """Seeds the pairs and the masks that are drawn with them."""
