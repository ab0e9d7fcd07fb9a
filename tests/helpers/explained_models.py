"""A tiny model of every task that explains itself, without an export."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tiny_models import Tiny, labels_of, text_of
from wordpiece import VOCAB, write_vocab

from bertline.models.data.batching import padded
from bertline.models.encoders.bert.backbone import Encoder, EncoderSize
from bertline.models.explain.explainer import Explainer
from bertline.models.explain.exported import Explaining
from bertline.models.explain.request import Request, Texts
from bertline.models.tasks.base.task import Context, Task, expanded, get_task, kind_for
from bertline.models.tokenization.tokenizer import TextEncoder
from bertline.pipeline.config import ModelConfig, TranslationConfig

PAIR: Texts = {"text": "The café's naïve".encode(), "text_2": b"un abc"}
ASKED: dict[str, Texts] = {
    "choice": {**PAIR, "choices": [b"abc", b"the un a", b"cafe"]},
    "tagging": {"text": "the café, un abc the un un the abc cafe the a b c".encode()},
    "answering": {"question": b"the cafe?", "context": "un abc the 🙂 cafe a b c".encode()},
    "pretraining": {"text": b"the [MASK] abc [MASK]"},
    "translation": {"text": b"the cafe, abc un"},
}


def asked_of(tiny: Tiny) -> Texts:
    """A row for a model that reads these texts."""
    names = get_task(tiny.task).preprocessing.input_names or tiny.texts
    return {name: text for name, text in ASKED.get(tiny.task, PAIR).items() if name in names}


def context_of(tiny: Tiny, folder: Path, **settings: Any) -> Context:
    text = TextEncoder.from_config(write_vocab(folder, VOCAB), text_of(tiny))
    target = text if get_task(tiny.task).preprocessing.label == "text" else None
    shape = TranslationConfig(search="greedy", max_extra_tokens=2, max_length_ratio=1.0, activation="gelu")
    return Context(text, labels_of(tiny), text_keys=tiny.texts, target=target, translation=shape, **settings)


def model_of(task: Task, context: Context, **sizes: Any) -> Any:
    """Untrained, with weights so far from 0 that words matter."""
    sizes = {"layers": 1, "hidden": 16, "heads": 2, "intermediate": 32, **sizes}
    if task.model.make_encoder:
        encoder = task.model.make_encoder(ModelConfig(**sizes), context, 1)
    else:
        encoder = Encoder(EncoderSize(vocab_size=len(VOCAB), activation="gelu", **sizes), seed=1)
    model = task.model.build(encoder, context, 0.0, 1)
    random = np.random.default_rng(5)
    for weight in model.trainable_variables:
        weight.assign(weight.numpy() + random.normal(0, 0.4, weight.shape))
    return model


def explaining_of(task: Task, context: Context, model: Any, texts: Texts) -> Explaining:
    batch = Request(texts, task, replace(context, places=True)).batch
    specs = {name: tf.TensorSpec([None] * value.shape.rank, value.dtype) for name, value in batch.items()}
    assert task.inspection
    return Explaining(task.inspection, model, specs)


def answers_of(task: Task, context: Context, model: Any, texts: Texts) -> dict[str, Any]:
    """What the served signature gives for one row."""
    columns = {key: _column(text) for key, text in zip(context.text_keys, texts.values(), strict=True)}
    batch = padded(expanded(task, task.preprocessing.request(columns, context), context))
    given = task.serving.signature(task.serving.predict(model, batch, context), batch, context)
    return {name: value.numpy()[0] for name, value in given.items()}


def _column(text: Any) -> tf.Tensor:
    return tf.constant([text] if isinstance(text, bytes) else [list(text)])


def explainer_of(task: Task, context: Context, model: Any, texts: Texts) -> Explainer:
    """Args: texts: of a row, to know by what the model reads."""
    kind = kind_for(task.name)
    assert kind is not None

    def tokens(texts: Texts) -> list[int]:
        columns = {key: _column(text) for key, text in zip(context.text_keys, texts.values(), strict=True)}
        return task.preprocessing.request(columns, context)["token_ids"].to_list()[0]

    def written(texts: Texts) -> list[str]:
        columns = {key: _column(text) for key, text in zip(context.text_keys, texts.values(), strict=True)}
        found = task.serving.signatures["align"].answer(model, columns, context)
        return [token.decode() for token in found["target_pieces"].numpy()[0]]

    return Explainer(
        explaining_of(task, context, model, texts),
        task,
        context,
        ask=lambda texts: answers_of(task, context, model, texts),
        readable=kind.readable,
        tokenize=tokens,
        write=written if task.inspection.writes else None,
    )
