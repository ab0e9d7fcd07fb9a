"""Settings of the task translation: the shape of its model, and decoding."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from bertline.pipeline.config.base import Frozen


class TranslationConfig(Frozen):
    """The encoder-decoder of the task translation; its sizes are those of `model`."""

    config_section: ClassVar[str] = "translation"

    num_decoder_layers: int | None = Field(default=None, ge=1, le=96)
    """Layers of the decoder; as many as the encoder has by default."""
    positions: Literal["sinusoidal", "learned"] = "sinusoidal"
    """Position embeddings of a model from scratch."""
    norm: Literal["post", "pre"] = "post"
    """Layer normalisation after each residual connection, as in the paper, or before; the latter is easier to train when
    there are many layers."""
    activation: Literal["relu", "gelu"] = "relu"
    """Activation of the feed-forward parts."""
    share_embeddings: bool = True
    """One embedding table for both languages, where they share a vocabulary."""
    tie_output: bool = True
    """Use the decoder's embedding table as the output weights too."""
    attention_dropout: float = Field(default=0.0, ge=0, lt=1)
    """Dropout of the attention probabilities; `model.dropout` is that of everything else."""
    search: Literal["beam", "greedy"] = "beam"
    """Decoding of the served model and of the evaluation."""
    num_beams: int = Field(default=4, ge=1, le=64)
    """Beams of a beam search."""
    n_best: int = Field(default=1, ge=1, le=64)
    """Translations that the served model returns, the best first; no more than `num_beams`."""
    length_penalty: float = Field(default=0.6, ge=0, le=5)
    """How much beam search favours longer translations: scores are divided by ((5 + length) / 6) to this power."""
    max_length_ratio: float = Field(default=1.5, gt=0, le=20)
    """Limit of a translation's length: so many tokens for each token of its source, …"""
    max_extra_tokens: int = Field(default=10, ge=1, le=512)
    """… plus so many; and never more than `text.seq_len`."""

    @model_validator(mode="after")
    def _as_many_as_are_looked_at(self) -> TranslationConfig:
        found = self.num_beams if self.search == "beam" else 1
        if self.n_best > found:
            raise ValueError(
                f"n_best={self.n_best}, but search={self.search} finds only {found}; raise num_beams, or lower n_best"
            )
        return self
