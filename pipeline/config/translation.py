"""What the task translation has of its own: the shape of its model, and how it is decoded."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from pipeline.config.base import Frozen


class TranslationConfig(Frozen):
    """The encoder-decoder of the task translation; its sizes are those of `model`."""

    decoder_layers: int | None = Field(default=None, ge=1, le=96)
    """Layers of the decoder; as many as the encoder has by default."""
    positions: Literal["sinusoidal", "learned"] = "sinusoidal"
    """How a model from scratch knows where a token stands."""
    norm: Literal["post", "pre"] = "post"
    """Whether each part of a layer is normalised after it is added to its input, as in the paper, or before; the latter is
    easier to train when there are many layers."""
    activation: Literal["relu", "gelu"] = "relu"
    """Of the feed-forward parts."""
    share_embeddings: bool = True
    """One table of vectors for both languages, where they have one vocabulary."""
    tie_output: bool = True
    """Use the decoder's table of vectors as the output's weights too."""
    attention_dropout: float = Field(default=0.0, ge=0, lt=1)
    """Dropout of the attention probabilities; `model.dropout` is that of everything else."""
    search: Literal["beam", "greedy"] = "beam"
    """How the served model looks for the best translation, and how the evaluator judges it."""
    beam: int = Field(default=4, ge=1, le=64)
    """Translations that a beam search keeps in view."""
    n_best: int = Field(default=1, ge=1, le=64)
    """Translations that the served model gives, the best first; no more than `beam`."""
    length_penalty: float = Field(default=0.6, ge=0, le=5)
    """How much a beam search favours longer translations: scores are divided by ((5 + length) / 6) to this power."""
    max_ratio: float = Field(default=1.5, gt=0, le=20)
    """A translation has at most so many pieces for each piece of its source, …"""
    max_more: int = Field(default=10, ge=1, le=512)
    """… and so many more; and never more than `text.seq_len`."""

    @model_validator(mode="after")
    def _as_many_as_are_looked_at(self) -> TranslationConfig:
        found = self.beam if self.search == "beam" else 1
        if self.n_best > found:
            raise ValueError(f"n_best={self.n_best}, and search={self.search} finds {found}; raise beam, or lower n_best")
        return self
