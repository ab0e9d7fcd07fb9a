"""What a pushed model is: one with an encoder, or something simpler that was better."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bertline.pipeline.core.errors import BertlineError

ENCODER, TF_IDF = "encoder", "tf-idf"
"""What metadata says under `kind`; older metadata says nothing, and its model has an encoder."""


def has_fallback(task: str, texts: int) -> bool:
    """Whether TF-IDF may take the place of an encoder that was trained from scratch.

    Args:
      texts: that an example has.
    """
    from bertline.models.tasks.base.task import get_task  # brings numpy, which a command's help does without

    return get_task(task).model.fallback is not None and texts == 1


def without_encoder(kind: str | None, task: str | None) -> str:
    """What a model is that has no encoder, for a person; nothing of one that has.

    >>> without_encoder("tf-idf", "multilabel"), without_encoder("encoder", "multilabel")
    ('TF-IDF with logistic regression', '')
    """
    if kind != TF_IDF:
        return ""
    from bertline.models.tasks.base.task import get_task, is_task

    fallback = get_task(task).model.fallback if task and is_task(task) else None
    return f"TF-IDF with {fallback.name if fallback else 'a linear model'}"


def describe_kind(metadata: Mapping[str, Any]) -> str:
    """A sentence for who asks a model without an encoder; nothing of one that has one.

    >>> describe_kind({"kind": "tf-idf", "task": "multilabel", "kind_why": "accuracy 0.9 against 0.8"})
    'the model is TF-IDF with logistic regression and has no encoder: accuracy 0.9 against 0.8'
    """
    name, why = without_encoder(metadata.get("kind"), metadata.get("task")), metadata.get("kind_why")
    return f"the model is {name} and has no encoder{f': {why}' if why else ''}" if name else ""


def need_encoder(folder: str | Path, metadata: Mapping[str, Any], what: str) -> None:
    """Refuses a model without an encoder.

    Args:
      what: follows from that.
    """
    if name := without_encoder(metadata.get("kind"), metadata.get("task")):
        makes = "a run with a checkpoint (model.checkpoint) makes a model that has one"
        raise BertlineError(f"{folder}: this model is {name} and has no encoder, {what}; {makes}.")
