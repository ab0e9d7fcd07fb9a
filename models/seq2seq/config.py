"""The numbers that shape an encoder-decoder, checked at once."""

from __future__ import annotations

from dataclasses import dataclass

from bertline.pipeline.core.errors import BertlineError


@dataclass(frozen=True, kw_only=True)
class Seq2SeqSize:
    """The numbers that shape an encoder-decoder; the defaults are the paper's."""

    source_pieces: int
    target_pieces: int
    layers: int = 6
    decoder_layers: int = 6
    hidden: int = 512
    heads: int = 8
    intermediate: int = 2048
    max_positions: int = 512
    """Tokens that a text has at most, on either side."""
    dropout: float = 0.1
    attention_dropout: float = 0.0
    activation: str = "relu"
    positions: str = "sinusoidal"
    """Or `learned`."""
    norm: str = "post"
    """Whether a part is normalised after it was added to its input, or before (`pre`)."""
    share_embeddings: bool = True
    """One table of vectors for both sides, which must then have one vocabulary."""
    tie_output: bool = True
    """The decoder's table of vectors is the output's matrix as well."""
    layer_norm_eps: float = 1e-6

    def __post_init__(self) -> None:
        if self.hidden % self.heads:
            raise BertlineError(f"model: hidden must be a multiple of heads. Received: {self.hidden} and {self.heads}")
        if self.share_embeddings and self.source_pieces != self.target_pieces:
            raise BertlineError(
                "translation.share_embeddings: needs one vocabulary for both languages."
                f" Received: {self.source_pieces} and {self.target_pieces} tokens"
            )

    @property
    def head_size(self) -> int:
        return self.hidden // self.heads

    @property
    def embedding_width(self) -> int:
        return self.hidden
