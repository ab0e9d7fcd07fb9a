"""A model of every task, untrained and small enough to be exported and served in a moment."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path
from typing import NamedTuple

from shared import process_folder
from wordpiece import VOCAB, write_vocab

from bertline.models.encoders.bert.backbone import Encoder, EncoderSize
from bertline.models.tasks.base.task import Context, get_task
from bertline.models.tokenization.tokenizer import TextEncoder
from bertline.pipeline.config import CHOICES, ModelConfig, TextConfig
from bertline.serving.export.saved_model import ServedModel, export

CLASSES = ("bad", "good", "très bon")
TAGS = ("O", "B-PER", "I-PER")


class Tiny(NamedTuple):
    task: str
    texts: tuple[str, ...]
    """The texts of a row."""


EVERY = (
    Tiny("classification", ("text",)),
    Tiny("classification", ("text", "text_2")),
    Tiny("multilabel", ("text",)),
    Tiny("multilabel", ("text", "text_2")),
    Tiny("regression", ("text",)),
    Tiny("regression", ("text", "text_2")),
    Tiny("similarity", ("text", "text_2")),
    Tiny("matching", ("text", "text_2")),
    Tiny("choice", ("text", CHOICES)),
    Tiny("choice", ("text", "text_2", CHOICES)),
    Tiny("tagging", ("text",)),
    Tiny("answering", ("text", "text_2")),
    Tiny("pretraining", ("text",)),
    Tiny("translation", ("text",)),
)


def labels_of(tiny: Tiny) -> tuple[str, ...]:
    return TAGS if tiny.task == "tagging" else CLASSES


def text_of(tiny: Tiny) -> TextConfig:
    reading = "huggingface" if tiny.task == "pretraining" else "original"  # the former keeps [MASK] whole
    return TextConfig(tokenizer_variant=reading, seq_len=96 if tiny.task == "answering" else 16)


def make(tiny: Tiny, folder: Path) -> ServedModel:
    """Args: folder: for the vocabulary, which the export needs as well."""
    task = get_task(tiny.task)
    text = TextEncoder.from_config(write_vocab(folder, VOCAB), text_of(tiny))
    context = Context(
        text, labels_of(tiny), text_keys=tiny.texts, target=text if task.preprocessing.label == "text" else None
    )
    sizes = {"layers": 1, "hidden": 8, "heads": 2, "intermediate": 16}
    if task.model.make_encoder:
        encoder = task.model.make_encoder(ModelConfig(**sizes), context, 1)
    else:
        encoder = Encoder(EncoderSize(vocab_size=len(VOCAB), **sizes), seed=1)
    model = task.model.build(encoder, context, 0.0, 1)
    if hasattr(model, "head"):
        model.head.kernel.assign(model.head.kernel * 50)  # so that answers differ visibly
    return ServedModel(task, context, model)


def push(tiny: Tiny, base: Path, version: int = 1) -> Path:
    """Leaves it as a version that a server finds under `base`; with the metadata that a run would write."""
    return Path(shutil.copytree(_exported(tiny), base / str(version)))


@cache  # an export takes seconds, and a copy none
def _exported(tiny: Tiny) -> Path:
    folder = process_folder() / f"{tiny.task}-{len(tiny.texts)}"
    (folder / "vocabulary").mkdir(parents=True)
    task = get_task(tiny.task)
    metadata = {
        "task": tiny.task,
        "text_keys": list(task.preprocessing.input_names or tiny.texts),
        "labels": list(labels_of(tiny)),
        "text": text_of(tiny).model_dump(exclude={"vocab", "target_vocab"}),
    }
    export(make(tiny, folder / "vocabulary"), str(folder / "model"), metadata)
    return folder / "model"
