"""A language of fifteen letters, for encoder-decoders that learn in seconds: say it again, or backwards."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf
from wordpiece import write_vocab

from bertline.models.data.batching import Corpus
from bertline.models.seq2seq.config import Seq2SeqSize
from bertline.models.seq2seq.model import Seq2Seq
from bertline.models.tasks.base.task import Context, get_task
from bertline.models.tokenization.tokenizer import TextEncoder
from bertline.models.tokenization.vocabulary import SPECIAL_TOKENS
from bertline.pipeline.config import TrainingConfig, TranslationConfig

TASK = get_task("translation")
LETTERS = "abcdefghijklmno"


def context(folder: Path, **settings: Any) -> Context:
    text = TextEncoder(write_vocab(folder, [*SPECIAL_TOKENS, *LETTERS]), lower=False, preserve_whitespace=True, seq_len=32)
    return Context(text, (), target=text, translation=TranslationConfig(**settings))


def texts(count: int, seed: int = 0, least: int = 2, most: int = 8) -> list[str]:
    """No two are equal."""
    chance = random.Random(seed)
    found: dict[str, None] = {}
    while len(found) < count:
        found[" ".join(chance.choice(LETTERS) for _ in range(chance.randint(least, most)))] = None
    return list(found)


def backwards(text: str) -> str:
    return " ".join(reversed(text.split()))


def features(sources: Sequence[str], targets: Sequence[str], given: Context) -> dict[str, Any]:
    return TASK.preprocessing.features({"text": tf.constant(sources), "label": tf.constant(targets)}, given)


def corpus(sources: Sequence[str], targets: Sequence[str], given: Context) -> Corpus:
    found = TASK.preprocessing.expand(features(sources, targets, given), given, True)
    ids, written = found["token_ids"], found["target_ids"]
    return Corpus(ids.flat_values.numpy(), ids.row_splits.numpy(), {}, {"target_ids": written}, counted="target_ids")


def build(hidden: int = 64, dropout: float = 0.0, **changes: Any) -> Seq2Seq:
    tokens = len(SPECIAL_TOKENS) + len(LETTERS)
    size = {
        "source_pieces": tokens, "target_pieces": tokens, "layers": 2, "decoder_layers": 2, "hidden": hidden, "heads": 4,
        "intermediate": 2 * hidden, "max_positions": 32, "dropout": dropout,
    }  # fmt: skip
    return Seq2Seq(Seq2SeqSize(**{**size, **changes}), begin_id=SPECIAL_TOKENS.index("[CLS]"), seed=1)


def settings(**changes: Any) -> TrainingConfig:
    plain = {"batch_tokens": 1024, "learning_rate": 3e-3, "schedule": "cosine", "weight_decay": 0.0, "beta_2": 0.98}
    return TrainingConfig(**{**plain, "epochs": 2, **changes})
