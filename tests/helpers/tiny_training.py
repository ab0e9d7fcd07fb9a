"""A training of seconds on rows that can be learned, for tests of what surrounds it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bertline.models.data.batching import Corpus
from bertline.models.encoders.bert.backbone import Encoder, EncoderSize
from bertline.models.tasks.base.task import Context, get_task
from bertline.pipeline.config import TrainingConfig

TASK = get_task("classification")
CONTEXT = Context(None, ("no", "yes"))
SIZE = EncoderSize(vocab_size=40, layers=2, hidden=16, heads=2, intermediate=32)


def build(dropout: float = 0.1) -> Any:
    encoder = Encoder(replace(SIZE, dropout=dropout, attention_dropout=dropout), seed=3)
    return TASK.model.build(encoder, CONTEXT, dropout, 3)


def rows(count: int = 96, seed: int = 0) -> Corpus:
    """A row is of class 1 when the token 7 stands in it: something that can be learned."""
    random = np.random.default_rng(seed)
    lengths = random.integers(4, 20, count)
    values = random.integers(8, 40, lengths.sum()).astype(np.int32)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    labels = random.integers(0, 2, count)
    for start, label in zip(starts, labels, strict=False):
        values[start], values[start + 1] = 2, 7 if label else 6
    return Corpus(values, starts, {"label_id": labels.astype(np.int64)})


def settings(**changes: Any) -> TrainingConfig:
    return TrainingConfig(**{"epochs": 2, "batch_size": 16, "learning_rate": 3e-3, "buckets": (8, 16), **changes})


def losses(result: Any) -> list[float]:
    return [record["loss"] for record in result.history if "loss" in record]
