"""What is trained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, model_validator

from pipeline.config.base import Frozen

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
    """The encoder: somebody's checkpoint, or a size that starts from nothing."""

    checkpoint: str | None = None
    """What to start from: a folder of Hugging Face (safetensors or .bin), of the original BERT (TF1) or of Keras; a name on
    a hub, hf://ORGANISATION/NAME (with @REVISION, if you like) or a KerasHub preset as bert_tiny_en_uncased; or a model
    that the task `pretraining` has pushed: its folder, or runs:/ and the id of its MLflow run."""
    size: Literal["tiny", "mini", "small", "minilm", "base", "large", "transformer"] = "tiny"
    """Size of an encoder from scratch; the numbers below override it one by one. `transformer` is the original's, for the
    task translation."""
    layers: int | None = Field(default=None, ge=1, le=96)
    hidden: int | None = Field(default=None, ge=2, le=8192)
    heads: int | None = Field(default=None, ge=1, le=256)
    intermediate: int | None = Field(default=None, ge=2)
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Dropout of embeddings, attention and head."""
    pooling: Pooling | None = None
    """The vector that a class or a number is read from: `pooler`, [CLS] through the pooler, as BERT was pre-trained, `cls`,
    [CLS] itself, or `mean`, the mean of all tokens, as most sentence-transformers. Of two texts `pair` reads each by itself
    and compares: their means u and v, |u - v| and u * v; the others read both at once. By default what the probe finds
    best, of `pair` and what the checkpoint says of itself (`1_Pooling/config.json`) where it does; else the pooler."""
    crf: bool = False
    """Of the task `tagging`: choose the tags of a text together, by a linear-chain CRF that learns how they follow each
    other (Viterbi decoding), instead of each word's by itself."""

    @model_validator(mode="after")
    def _fill_in_size(self) -> ModelConfig:
        sizes = dict(zip(("layers", "hidden", "heads"), SIZES[self.size], strict=True))
        given = {name: getattr(self, name) for name in (*sizes, "intermediate")}
        if self.checkpoint is not None:
            named = [name for name, value in given.items() if value is not None]
            if named:
                raise ValueError(f"a checkpoint has its own sizes; leave out {', '.join(named)}")
            return self
        for name, value in sizes.items():
            if given[name] is None:
                object.__setattr__(self, name, value)
        if self.intermediate is None:
            object.__setattr__(self, "intermediate", 4 * self.hidden)  # type: ignore[operator]
        if self.hidden % self.heads:  # type: ignore[operator]
            raise ValueError(f"hidden={self.hidden} is not a multiple of heads={self.heads}")
        return self
