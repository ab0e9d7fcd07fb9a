"""How it is trained."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from pipeline.config.base import Frozen

Sampling = Literal["natural", "square_root", "balanced"]


RECIPE = ("epochs", "batch_size", "learning_rate", "keep", "early_stopping", "best_by")
"""Settings that follow from the data where a config does not give them."""


class TrainingConfig(Frozen):
    """One loop for every task and strategy."""

    recipe: tuple[Literal["epochs", "batch_size", "learning_rate", "keep", "early_stopping", "best_by"], ...] = ()
    """Settings that the Trainer chooses by the data, and prints with its reasons: all of these that a config leaves out
    which says nothing of `epochs`, or `training: auto`. Not for pre-training and translation."""
    epochs: int = Field(default=2, ge=1, le=1000)
    """Times that every training example is seen; without it, the recipe chooses."""
    batch_size: int = Field(default=32, ge=1, le=65536)
    """Examples a step, over all devices together."""
    batch_tokens: int | None = Field(default=None, ge=64, le=2**24)
    """Of the task translation: tokens a step, those of source and target together and padding included, in place of
    `batch_size`; rows of like lengths share a batch."""
    accumulate: int = Field(default=1, ge=1, le=4096)
    """Parts that a step's examples are worked through in, one after the other, to save memory. The gradients are those of
    the whole batch. Where long texts are read in windows, 1 leaves it to how many there are."""
    optimizer: Literal["adamw", "adam_reference", "lamb"] = "adamw"
    """`adamw`; `adam_reference`, the original BERT's, which does not correct the bias of young moments; or `lamb`, for
    large batches."""
    learning_rate: float | None = Field(default=None, gt=0, lt=1)
    """Peak learning rate; by default 5e-5 from a checkpoint, 5e-4 from scratch, and 1e-3 for the task translation."""
    warmup: float = Field(default=0.1, ge=0, lt=1)
    """Share of the steps over which the learning rate rises; afterwards it follows `schedule`."""
    schedule: Literal["linear", "cosine", "inverse_sqrt", "constant"] = "linear"
    """The learning rate after the warm-up: `linear` and `cosine` fall to 0 at the last step."""
    layer_decay: float = Field(default=1.0, gt=0, le=1)
    """Factor of the learning rate from one encoder layer to the one below: 1 for the head, then smaller and smaller down
    to the embeddings."""
    beta_2: float = Field(default=0.999, gt=0, lt=1)
    """How slowly Adam's mean of the squared gradients changes; 0.98 for the task translation."""
    weight_decay: float = Field(default=0.01, ge=0)
    """Decoupled decay, not on biases and layer norms."""
    clip_norm: float = Field(default=1.0, gt=0)
    """Bound of the global gradient norm."""
    lora: int | None = Field(default=None, ge=1, le=1024)
    """Rank of low-rank adapters on queries and values. Only they and the head are trained, beside a checkpoint's frozen
    encoder, and they are added up into its weights before the export."""
    lora_alpha: float = Field(default=16.0, gt=0)
    """Strength of the adapters: their product is multiplied by alpha / rank."""
    label_smoothing: float = Field(default=0.0, ge=0, lt=1)
    """Share of each target that is dealt out to all classes alike, so that the model is less sure of itself."""
    class_weights: Literal["balanced"] | dict[str, Annotated[float, Field(gt=0, le=10_000)]] | None = None
    """How much what is learned from each class counts, for skewed data: `balanced`, by how rare a class is, or
    {seldom: 5, often: 1}. Held-out rows are measured as they are."""
    sampling: Sampling = "natural"
    """How often the rows of each class are drawn in an epoch: as they are, by the square root of how many there are, or
    equally often."""
    early_stopping: int | None = Field(default=None, ge=1)
    """Stop after so many epochs in a row that were not the best on the held-out rows."""
    keep: Literal["last", "best"] = "last"
    """Which weights are exported: those of the last step, or of the epoch that was best on the held-out rows."""
    best_by: str = "loss"
    """What the best epoch is chosen by, for `keep` and `early_stopping`: `loss`, or a metric of the task that is measured
    after each epoch, as bleu."""
    average: int = Field(default=1, ge=1, le=100)
    """Take the mean of the weights after the last N epochs, which is often better than any of them. It is what is measured
    on the held-out rows, and exported."""
    seed: int = Field(default=42, ge=0, lt=2**31)
    """Seeds weights, order and dropout."""
    buckets: tuple[int, ...] = (*range(8, 48, 4), *range(48, 96, 8), *range(96, 192, 16), *range(192, 513, 32))
    """Lengths that batches are padded to; an example goes to the smallest that holds it."""
    checkpoint_steps: int | None = Field(default=None, ge=1)
    """Write a checkpoint each N steps; by default at the end of each epoch."""
    devices: tuple[str, ...] = ()
    """Devices of the MirroredStrategy, for example [GPU:0, GPU:1]; by default every GPU, or the CPU."""
    scaling: Literal["none", "linear", "square_root"] = "none"
    """What more devices change: with `none` the batch is dealt out to them, and the training is the same on any number.
    Else each takes a batch of `batch_size` of its own, and the learning rate is multiplied by their number, or by its
    square root."""
    xla: bool = False
    """Compile the step with XLA, once a bucket length: for long trainings, with few `buckets`."""
    precision: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Numbers that a step computes with; weights, and the exported model, are float32 in any case. `auto` is bfloat16 on
    GPUs that have it, and else float32."""
    gradient_checkpointing: bool = False
    """Compute each encoder layer a second time for its gradients instead of keeping it: less memory, more time. Chosen so
    where long texts are read in windows and a part of a batch would keep more than 3 GB."""
    probe: bool | None = None
    """Before a checkpoint's encoder is fine-tuned, learn a linear model on its frozen vectors, which takes seconds: it
    chooses the pooling, initialises the head, and is what is exported if fine-tuning does not beat it. By default where the
    recipe chooses the epochs."""
    fallback: Literal["auto", "never"] = "auto"
    """Of a model from scratch that reads one text, for the tasks classification, multilabel and regression: `auto` learns
    TF-IDF with a linear model too, and exports that where it is better on 50 or more evaluation examples, so that a model
    can be pushed; not where `evaluation.must_beat_baselines` is false, nor in a search or a run over several `seeds`, which
    compare what was trained. `never` exports the encoder, whatever it reaches."""
    tensorboard: bool = False
    """Write the learning curves as TensorBoard events too, to a folder `tensorboard` beside the checkpoints."""

    @field_validator("buckets")
    @classmethod
    def _rising(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if not value or list(value) != sorted(set(value)) or value[0] < 4:
            raise ValueError("bucket lengths must rise, from 4 tokens on")
        return value

    @model_validator(mode="after")
    def _parts_are_equal(self) -> TrainingConfig:
        if self.batch_tokens and self.sampling != "natural":
            raise ValueError("batch_tokens takes every row once an epoch; leave it out, or sampling")
        if not self.batch_tokens and self.batch_size % self.accumulate:
            raise ValueError(f"batch_size={self.batch_size} cannot be worked through in {self.accumulate} equal parts")
        return self
