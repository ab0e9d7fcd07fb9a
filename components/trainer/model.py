"""The model that is trained, before its first step."""

from __future__ import annotations

from typing import Any

from bertline.models import checkpoints
from bertline.models.encoders.bert.backbone import Encoder, EncoderSize
from bertline.models.tasks.base.task import Context, Task
from bertline.pipeline.config import ModelConfig
from bertline.pipeline.core import events
from bertline.pipeline.core.storage import local_copy


def make_model(task: Task, context: Context, model: ModelConfig, seed: int) -> Any:
    """The task's model on the configured encoder, with the checkpoint's heads where the task has the same."""
    of_task = task.model.make_encoder
    encoder = of_task(model, context, seed) if of_task else make_encoder(model, context.text.vocab_size, seed)
    made = task.model.build(encoder, context, model.dropout, seed)
    if model.checkpoint and task.model.take_heads:
        for note in task.model.take_heads(made, checkpoints.load_heads(local_copy(model.checkpoint))):
            events.emit(events.Note(note))
    return made


def make_encoder(model: ModelConfig, vocab_size: int, seed: int) -> Encoder:
    """The checkpoint's encoder, or a fresh one of the configured size."""
    if model.checkpoint:
        encoder, report = checkpoints.load_encoder(local_copy(model.checkpoint), dropout=model.dropout, seed=seed)
        if report.fresh:
            events.emit(events.Note(f"the checkpoint has no {', '.join(report.fresh)}: it starts from scratch"))
        return encoder
    size = EncoderSize(
        vocab_size=vocab_size,
        layers=model.num_layers or 1,
        hidden=model.hidden_dim or 1,
        heads=model.num_heads or 1,
        intermediate=model.intermediate_dim or 1,
        dropout=model.dropout,
        attention_dropout=model.dropout,
    )
    return Encoder(size, seed=seed)
