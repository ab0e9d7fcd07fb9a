"""How it is trained."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from bertline.pipeline.config.base import Frozen

Sampling = Literal["natural", "square_root", "balanced"]


RECIPE = ("epochs", "batch_size", "learning_rate", "restore_best", "early_stopping_patience", "monitor")
"""Settings that follow from the data where a config does not give them."""


class TrainingConfig(Frozen):
    """One loop for every task and strategy."""

    config_section: ClassVar[str] = "training"

    recipe: tuple[
        Literal["epochs", "batch_size", "learning_rate", "restore_best", "early_stopping_patience", "monitor"], ...
    ] = ()
    """Settings that the Trainer chooses by the data, and prints with the reasons: those that a config leaves out, if it
    does not set `epochs`, or says `training: auto`. Not for pre-training and translation."""
    epochs: int = Field(default=2, ge=1, le=1000)
    """Passes over the training examples; without it, the recipe chooses."""
    batch_size: int = Field(default=32, ge=1, le=65536)
    """Examples per step, over all devices together."""
    batch_tokens: int | None = Field(default=None, ge=64, le=2**24)
    """Of the task translation: tokens per step, of source and target together and padding included, in place of
    `batch_size`; examples of similar length share a batch."""
    gradient_accumulation_steps: int = Field(default=1, ge=1, le=4096)
    """Parts that a batch is divided into, one after the other, to save memory. The gradients are those of the whole batch.
    Where long texts are read in windows, 1 means: chosen by the number of windows."""
    optimizer: Literal["adamw", "adam_reference", "lamb"] = "adamw"
    """`adamw`; `adam_reference`, the original BERT's, which does not correct the bias of young moments; or `lamb`, for
    large batches."""
    learning_rate: float | None = Field(default=None, gt=0, lt=1)
    """Peak learning rate; by default 5e-5 from a checkpoint, 5e-4 from scratch, and 1e-3 for the task translation."""
    warmup_ratio: float = Field(default=0.1, ge=0, lt=1)
    """Fraction of the steps over which the learning rate rises; afterwards it follows `schedule`."""
    schedule: Literal["linear", "cosine", "inverse_sqrt", "constant"] = "linear"
    """The learning rate after the warm-up: `linear` and `cosine` fall to 0 at the last step."""
    layer_decay: float = Field(default=1.0, gt=0, le=1)
    """Factor of the learning rate from one encoder layer to the one below: 1 for the head, decaying down to the
    embeddings."""
    beta_2: float = Field(default=0.999, gt=0, lt=1)
    """How slowly Adam's mean of the squared gradients changes; 0.98 for the task translation."""
    weight_decay: float = Field(default=0.01, ge=0)
    """Decoupled decay, not on biases and layer norms."""
    clip_norm: float = Field(default=1.0, gt=0)
    """Global gradient norm above which gradients are clipped."""
    lora_rank: int | None = Field(default=None, ge=1, le=1024)
    """Rank of low-rank adapters on queries and values. Only they and the head are trained, beside a checkpoint's frozen
    encoder, and they are merged into its weights before the export."""
    lora_alpha: float = Field(default=16.0, gt=0)
    """Strength of the adapters: their product is multiplied by alpha / rank."""
    label_smoothing: float = Field(default=0.0, ge=0, lt=1)
    """Fraction of each target that is distributed evenly over all classes, against overconfidence."""
    class_weights: Literal["balanced"] | dict[str, Annotated[float, Field(gt=0, le=10_000)]] | None = None
    """Weight of each class in the loss, for skewed data: `balanced`, inversely to its frequency, or {seldom: 5, often: 1}.
    Evaluation is unweighted."""
    sampling: Sampling = "natural"
    """How often the examples of each class are sampled in an epoch: as they are, by the square root of their number, or
    equally often."""
    early_stopping_patience: int | None = Field(default=None, ge=1)
    """Stop after so many epochs without a better evaluation score."""
    restore_best: bool = False
    """Export the weights of the epoch with the best evaluation score, instead of those of the last step."""
    monitor: str = "loss"
    """What the best epoch is chosen by, for `restore_best` and `early_stopping_patience`: `loss`, or a metric of the task
    that is measured after each epoch, as bleu."""
    average_epochs: int = Field(default=1, ge=1, le=100)
    """Average the weights of the last N epochs, which is often better than any of them. The average is what is evaluated
    and exported."""
    seed: int = Field(default=42, ge=0, lt=2**31)
    """Seeds weights, order and dropout."""
    buckets: tuple[int, ...] = (*range(8, 48, 4), *range(48, 96, 8), *range(96, 192, 16), *range(192, 513, 32))
    """Lengths that batches are padded to; an example goes to the smallest that holds it."""
    checkpoint_steps: int | None = Field(default=None, ge=1)
    """Write a checkpoint each N steps; by default at the end of each epoch."""
    devices: tuple[str, ...] = ()
    """Devices of the MirroredStrategy, for example [GPU:0, GPU:1]; by default every GPU, or the CPU."""
    scaling: Literal["none", "linear", "square_root"] = "none"
    """What more devices change: with `none` the batch is distributed over them, and the training is the same on any number.
    Otherwise each has its own batch of `batch_size`, and the learning rate is multiplied by their number, or by its
    square root."""
    xla: bool = False
    """Compile the step with XLA, once a bucket length: for long trainings, with few `buckets`."""
    precision: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Number format that a step computes with; weights, and the exported model, are float32 in any case. `auto` is bfloat16
    on GPUs that have it, and else float32."""
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
            raise ValueError("batch_tokens takes every example once an epoch; leave it out, or sampling")
        if not self.batch_tokens and self.batch_size % self.gradient_accumulation_steps:
            raise ValueError(
                f"batch_size={self.batch_size} cannot be divided into {self.gradient_accumulation_steps} equal parts"
            )
        return self
