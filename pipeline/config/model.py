"""What is trained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from bertline.pipeline.config.base import Frozen

SIZES: Mapping[str, tuple[int, int, int]] = {  # layers, hidden, heads; the inner layer is four times as wide
    "tiny": (2, 128, 2),
    "mini": (4, 256, 4),
    "small": (4, 512, 8),
    "minilm": (6, 384, 12),
    "base": (12, 768, 12),
    "large": (24, 1024, 16),
    "transformer": (6, 512, 8),  # the original one, which has as many layers in its decoder
}


Pooling = Literal["pooler", "cls", "mean", "pair"]


class ModelConfig(Frozen):
    """The encoder: a pre-trained checkpoint, or a size that is trained from scratch."""

    config_section: ClassVar[str] = "model"

    checkpoint: str | None = None
    """What to start from: a folder of Hugging Face (safetensors or .bin), of the original BERT (TF1) or of Keras; a name on
    a hub, hf://ORGANISATION/NAME (with @REVISION, if you like) or a KerasHub preset as bert_tiny_en_uncased; or a model
    that the task `pretraining` has pushed: its folder, or runs:/ and the id of its MLflow run."""
    size: Literal["tiny", "mini", "small", "minilm", "base", "large", "transformer"] = "tiny"
    """Size of an encoder from scratch; the four settings below override it one by one. `transformer` is the original's, for
    the task translation."""
    num_layers: int | None = Field(default=None, ge=1, le=96)
    """Transformer layers of the encoder."""
    hidden_dim: int | None = Field(default=None, ge=2, le=8192)
    """Width of the encoder; a multiple of `num_heads`."""
    num_heads: int | None = Field(default=None, ge=1, le=256)
    """Attention heads of each layer."""
    intermediate_dim: int | None = Field(default=None, ge=2)
    """Width of the feed-forward parts; by default four times `hidden_dim`."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Dropout of embeddings, attention and head."""
    pooling: Pooling | None = None
    """The vector that a class or a number is predicted from: `pooler`, [CLS] through the pooler, as BERT was pre-trained,
    `cls`, [CLS] itself, or `mean`, the mean of all tokens, as most sentence-transformers. Of two texts `pair` encodes each
    by itself and compares their means u and v, |u - v| and u * v; the others encode both together. By default the best by
    the linear probe, of `pair` and what the checkpoint's `1_Pooling/config.json` says, where there is one; else the
    pooler."""
    crf: bool = False
    """Of the task `tagging`: predict the tags of a text jointly, by a linear-chain CRF (Viterbi decoding), instead of each
    word's by itself."""

    @model_validator(mode="after")
    def _fill_in_size(self) -> ModelConfig:
        sizes = dict(zip(("num_layers", "hidden_dim", "num_heads"), SIZES[self.size], strict=True))
        given = {name: getattr(self, name) for name in (*sizes, "intermediate_dim")}
        if self.checkpoint is not None:
            named = [name for name, value in given.items() if value is not None]
            if named:
                raise ValueError(f"a checkpoint has its own sizes; leave out {', '.join(named)}")
            return self
        for name, value in sizes.items():
            if given[name] is None:
                object.__setattr__(self, name, value)
        if self.intermediate_dim is None:
            object.__setattr__(self, "intermediate_dim", 4 * self.hidden_dim)  # type: ignore[operator]
        if self.hidden_dim % self.num_heads:  # type: ignore[operator]
            raise ValueError(f"hidden_dim={self.hidden_dim} is not a multiple of num_heads={self.num_heads}")
        return self
