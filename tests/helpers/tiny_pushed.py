"""A pushed model of every task whose encoder is BERT's, two layers of four heads, and evaluation examples for it."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from shared import process_folder
from tiny_models import CLASSES, TAGS
from wordpiece import VOCAB, write_vocab

from bertline.models.encoders.bert.backbone import Encoder, EncoderSize
from bertline.models.tasks.base.task import Context, get_task
from bertline.models.tokenization.tokenizer import TextEncoder
from bertline.pipeline.config import CHOICES, PretrainingConfig, TextConfig
from bertline.serving.export.exporter import export_whole

SIZE = EncoderSize(vocab_size=len(VOCAB), layers=2, hidden=16, heads=4, intermediate=24, max_positions=96)
TEXTS = {
    "classification": ("text",),
    "multilabel": ("text", "text_2"),
    "regression": ("text",),
    "similarity": ("text", "text_2"),
    "matching": ("text", "text_2"),
    "choice": ("text", CHOICES),
    "tagging": ("text",),
    "answering": ("text", "text_2"),
    "pretraining": ("text",),
}
"""The texts of a row, by the task."""
PHRASES = (
    "a good film",
    "bad",
    "the film is bad and long",
    "a film",
    "très bon",
    "un bon film a day",
    "good good",
    "the the",
)


def built(name: str, folder: Path, size: EncoderSize = SIZE, **changes: Any) -> tuple[Any, Context, Any]:
    """Task, context and a model whose weights are far enough from 0 that a mistake anywhere shows."""
    task = get_task(name)
    folder.mkdir(parents=True, exist_ok=True)
    text = text_settings(name)
    context = Context(
        TextEncoder.from_config(write_vocab(folder, VOCAB), text),
        {"tagging": TAGS, "pretraining": ("next", "random")}.get(name, CLASSES),
        PretrainingConfig(),
        TEXTS[name],
        **changes,
    )
    model = task.model.build(Encoder(size, seed=1), context, 0.1, 1)
    random = np.random.default_rng(5)
    for weight in model.trainable_variables:
        weight.assign(weight.numpy() + random.normal(0, 0.4, weight.shape))
    return task, context, model


def text_settings(name: str) -> TextConfig:
    reading = "huggingface" if name == "pretraining" else "original"  # which keeps [MASK] whole
    return TextConfig(tokenizer_variant=reading, seq_len=96 if name == "answering" else 16)


def push(name: str, folder: Path) -> Path:
    """Leaves such a model there as a line does."""
    return Path(shutil.copytree(_exported(name), folder))


@cache  # an export takes seconds, and a copy none
def _exported(name: str) -> Path:
    folder = process_folder() / f"pushed-{name}"
    task, context, model = built(name, folder.with_name(f"{folder.name}-vocabulary"))
    keys = list(task.preprocessing.input_names or TEXTS[name])
    metadata = {
        "pipeline": "tiny",
        "task": name,
        "labels": list(context.labels),
        "text_keys": keys,
        "columns": dict(zip(keys, TEXTS[name], strict=True)),
        "tuned": {},
        "text": text_settings(name).model_dump(exclude={"vocab", "target_vocab"}),
    }
    asked = [b"a [MASK] film" if name == "pretraining" else b"a good film", b"bad"]
    rows = [{key: [text, b"film"] if key == CHOICES else text for key in keys} for text in asked]
    vocab = str(context.text.vocab_asset.asset_path.numpy().decode())
    export_whole(task, context, model, str(folder), metadata, rows=rows, name="tiny", vocab_path=vocab)
    return folder


def records(name: str, count: int = 24) -> list[bytes]:
    """Raw Examples as Ingest (or SentencePairs) writes them."""
    return [_example(_row(name, number)) for number in range(count)]


def _row(name: str, number: int) -> dict[str, list[Any]]:
    first, second = (PHRASES[(number * step + 1) % len(PHRASES)] for step in (1, 3))
    row: dict[str, list[Any]] = {"text": [first], "text_2": [second]}
    if name == "classification":
        return {**row, "label": [CLASSES[number % 3]]}
    if name == "multilabel":
        return {**row, "label": list(CLASSES[: number % 4])}
    if name in ("regression", "similarity"):
        return {**row, "label": [number % 5 / 2]}
    if name == "choice":
        return {**row, CHOICES: [first, second, "film"], "label": [number % 3]}
    if name == "tagging":
        return {**row, "label": [TAGS[(number + place) % 3] for place in range(len(first.split()))]}
    if name == "answering":
        word = second.split()[-1]
        return {**row, "answers": [word], "answer_starts": [second.rindex(word)]}
    if name == "pretraining":
        length = 8 + number % 5
        random = np.random.default_rng(number)
        ids = random.integers(5, len(VOCAB), length)
        ids[[0, 4, -1]] = 2, 3, 3
        masked = {"masked_positions": [1, 5], "masked_ids": [4, int(ids[5])], "phase": [0]}
        segments = [0] * 5 + [1] * (length - 5)
        return {"token_ids": ids.tolist(), "segment_ids": segments, **masked, "label": [("next", "random")[number % 2]]}
    return row


def _example(row: dict[str, list[Any]]) -> bytes:
    def feature(values: list[Any]) -> tf.train.Feature:
        if values and isinstance(values[0], str):
            return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.encode() for value in values]))
        if values and isinstance(values[0], float):
            return tf.train.Feature(float_list=tf.train.FloatList(value=values))
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))

    made = {name: feature(values) for name, values in row.items() if values}
    return tf.train.Example(features=tf.train.Features(feature=made)).SerializeToString()
