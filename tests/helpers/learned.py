"""A model of every task that has no whole pipeline in `make test`, trained in seconds: no step of TFX is run.

The rows are raw Examples as Ingest writes them, so easy that a few epochs of a tiny encoder are enough, and so made that
who overlooks a text, a choice or a label learns nothing. What is written is what a line leaves.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tiny_models import CLASSES, Tiny
from wordpiece import VOCAB, write_vocab

from bertline.components.trainer.model import make_model
from bertline.components.trainer.rows import phases_of
from bertline.models.data import batching
from bertline.models.data.example_parsing import features_of, read_records
from bertline.models.tasks.base.task import Context, Task, expanded, get_task
from bertline.models.tokenization.tokenizer import TextEncoder
from bertline.models.training.epoch_metrics import scorer
from bertline.models.training.loop import train
from bertline.pipeline.config import CHOICES, ModelConfig, PretrainingConfig, TextConfig, TrainingConfig
from bertline.serving.export.exporter import export_whole
from bertline.serving.export.samples import choose_examples

Row = dict[str, list[Any]]

SIGNS = (("dreadful", "boring"), ("superb", "moving"), ("fine", "solid"))
"""Words of each of CLASSES."""
THINGS, DEEDS = "cat dog bird cow bee owl".split(), "meows barks sings moos hums hoots".split()
COLOURS = "red blue green grey".split()
FILLING = "the un a abc cafe".split()
WORDS = [word for words in (*SIGNS, THINGS, DEEDS, COLOURS) for word in words]
TOKENS = [*VOCAB, *WORDS, "what", "colour"]

PAIR = ("text", "text_2")
PRETRAINED = TOKENS.index(THINGS[0])


def phrase(chance: random.Random, *words: str) -> str:
    """The words in their order, with others between them."""
    filled = [chance.choice(FILLING) for _ in range(chance.randint(0, 2))]
    for word in words:
        filled += [word, *(chance.choice(FILLING) for _ in range(chance.randint(0, 1)))]
    return " ".join(filled)


def _classified(chance: random.Random) -> Row:
    kind = chance.randrange(3)
    return {"text": [phrase(chance, "a")], "text_2": [phrase(chance, chance.choice(SIGNS[kind]))], "label": [CLASSES[kind]]}


def _several(chance: random.Random) -> Row:
    kinds = [kind for kind in range(3) if chance.random() < 0.5]
    signs = " ".join(SIGNS[kind][0] for kind in kinds) or "the"
    return {"text": [phrase(chance, "a")], "text_2": [signs], "label": [CLASSES[kind] for kind in kinds]}


def _numbered(chance: random.Random) -> Row:
    row = _classified(chance)
    return {**row, "label": [float(CLASSES.index(row["label"][0]))]}


def _scored(chance: random.Random) -> Row:
    kind, same = chance.randrange(len(THINGS)), chance.random() < 0.5
    other = kind if same else (kind + chance.randint(1, len(THINGS) - 1)) % len(THINGS)
    return {**_matched(chance, kind, other), "label": [float(same)]}


def _matched(chance: random.Random, kind: int | None = None, other: int | None = None) -> Row:
    kind = chance.randrange(len(THINGS)) if kind is None else kind
    second = DEEDS[kind if other is None else other]
    return {"text": [phrase(chance, THINGS[kind])], "text_2": [phrase(chance, second)]}


def _chosen(chance: random.Random) -> Row:
    right = chance.randrange(3)
    endings = [phrase(chance, chance.choice(SIGNS[1] if at == right else SIGNS[0])) for at in range(3)]
    return {"text": [phrase(chance, "the")], "text_2": [phrase(chance, "un")], CHOICES: endings, "label": [right]}


def _answered(chance: random.Random) -> Row:
    """One text in four has no answer."""
    row = {"text": ["what colour ?"], "text_2": [phrase(chance, chance.choice(THINGS))], "answers": [], "answer_starts": []}
    if chance.random() < 0.75:
        colour = chance.choice(COLOURS)
        text = phrase(chance, chance.choice(THINGS), colour)
        row |= {"text_2": [text], "answers": [colour], "answer_starts": [text.index(colour)]}
    return row


def _halves(chance: random.Random) -> Row:
    """Halves that are one word again and again, as SentencePairs writes them: what is masked follows from its neighbours,
    and that the second half is another text's from its word."""
    first, is_random = chance.randrange(6), chance.random() < 0.5
    second = (first + chance.randint(1, 5)) % 6 if is_random else first
    words = [PRETRAINED + first] * chance.randint(3, 5), [PRETRAINED + second] * chance.randint(3, 5)
    ids = [VOCAB.index("[CLS]"), *words[0], VOCAB.index("[SEP]"), *words[1], VOCAB.index("[SEP]")]
    begin = len(words[0]) + 2
    places = [chance.randrange(1, begin - 1), chance.randrange(begin, len(ids) - 1)]
    return {
        "token_ids": ids, "segment_ids": [0] * begin + [1] * (len(ids) - begin), "masked_positions": places,
        "masked_ids": [VOCAB.index("[MASK]")] * 2, "phase": [0], "label": [("next", "random")[is_random]],
    }  # fmt: skip


@dataclass(frozen=True)
class Lesson:
    """What a task learns here, and how well."""

    tiny: Tiny
    make: Callable[[random.Random], Row]
    bounds: Mapping[str, float]
    """Of the Evaluator's metrics; none is reached without learning."""
    labels: tuple[str, ...] = ()
    epochs: int = 4


LESSONS = {
    lesson.tiny.task: lesson
    for lesson in (
        Lesson(Tiny("classification", PAIR), _classified, {"accuracy": 0.9}, CLASSES, epochs=8),
        Lesson(Tiny("multilabel", PAIR), _several, {"micro_f1": 0.9, "subset_accuracy": 0.7}, CLASSES, epochs=16),
        Lesson(Tiny("regression", PAIR), _numbered, {"pearson": 0.9, "mean_squared_error": 0.3}, epochs=6),
        Lesson(Tiny("similarity", PAIR), _scored, {"spearman": 0.7}),
        Lesson(Tiny("matching", PAIR), _matched, {"mrr": 0.2, "recall_at_10": 0.6}),
        Lesson(Tiny("choice", (*PAIR, CHOICES)), _chosen, {"accuracy": 0.9}),
        Lesson(Tiny("answering", PAIR), _answered, {"f1": 0.9, "no_answer_exact_match": 0.8}),
        Lesson(Tiny("pretraining", ("text",)), _halves, {"mlm_accuracy": 0.6}, ("next", "random"), epochs=14),
    )
}
ROWS, EVALUATED = 320, 64
VERSION = 3
_MODEL = ModelConfig(num_layers=1, hidden_dim=64, num_heads=4, intermediate_dim=128, dropout=0.0)


def text_of(task: str) -> TextConfig:
    reading = "huggingface" if task == "pretraining" else "original"  # the former keeps [MASK] whole
    return TextConfig(tokenizer_variant=reading, seq_len=96 if task == "answering" else 24 if task == "pretraining" else 16)


def learn(name: str, folder: Path) -> None:
    """Trains, and writes `NAME/3`, the model as a line leaves it; the rows and `history.json` are beside it."""
    lesson, task, text = LESSONS[name], get_task(name), text_of(name)
    for split, count, seed in (("train", ROWS, 1), ("eval", EVALUATED, 2)):
        chance = random.Random(seed)
        write_examples(folder / f"{split}.gz", [lesson.make(chance) for _ in range(count)])
    vocab = write_vocab(folder, TOKENS)
    keys = lesson.tiny.texts
    context = Context(TextEncoder.from_config(vocab, text), lesson.labels, PretrainingConfig(), keys)
    settings = TrainingConfig(epochs=lesson.epochs, batch_size=16, learning_rate=2e-3, buckets=(24, 96))
    rows, evaluation = (_corpus(folder / f"{split}.gz", task, context, split == "train") for split in ("train", "eval"))

    @cache  # it is asked for after each epoch
    def features() -> list[Any]:
        return [features_of(tf.constant(read_records([str(folder / "eval.gz")])), task, context)]

    result = train(
        lambda: make_model(task, context, _MODEL, 1), task, settings, phases_of(rows, settings, text, context.pretraining),
        evaluation, checkpoint_folder=folder / "checkpoints", score=scorer(task, context, features),
    )  # fmt: skip
    if task.evaluation.tune:
        context = replace(context, tuned=task.evaluation.tune(task, result.model, context, features()))
    names = list(task.preprocessing.input_names or keys)
    metadata = {
        "pipeline": name, "task": name, "labels": list(lesson.labels), "text_keys": names,
        "columns": dict(zip(names, keys, strict=True)), "tuned": dict(context.tuned),
        "text": text.model_dump(exclude={"vocab", "target_vocab"}),
    }  # fmt: skip
    asked = choose_examples(task, context, [str(folder / "eval.gz")], 2)
    export_whole(
        task, context, result.model, str(folder / name / str(VERSION)), metadata, rows=asked, name=name, vocab_path=vocab
    )
    (folder / "history.json").write_text(json.dumps(result.history))


def _corpus(path: Path, task: Task, context: Context, training: bool) -> batching.Corpus:
    features = features_of(tf.constant(read_records([str(path)])), task, context)
    found = expanded(task, features, context, training=True)
    ids = found.pop("token_ids")
    ragged = {name: value for name, value in found.items() if isinstance(value, tf.RaggedTensor)}
    dense = {name: value.numpy() for name, value in found.items() if name not in ragged}
    prepare = task.preprocessing.prepare(context, training) if task.preprocessing.prepare else None
    return batching.Corpus(
        ids.flat_values.numpy(), ids.row_splits.numpy(), dense, ragged, prepare=prepare, counted=task.objective.counted_key
    )


def write_examples(path: Path, rows: list[Row]) -> None:
    with tf.io.TFRecordWriter(str(path), "GZIP") as writer:
        for row in rows:
            words = sum(len(str(text).split()) for name in PAIR for text in row.get(name, ()))
            feature = {name: _feature(values) for name, values in {**row, "words": [words]}.items() if values}
            writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())


def _feature(values: list[Any]) -> tf.train.Feature:
    if isinstance(values[0], str):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.encode() for value in values]))
    if isinstance(values[0], float):
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=np.asarray(values, np.int64)))


def evaluation(name: str) -> list[Row]:
    """The rows of `eval.gz`."""
    chance = random.Random(2)
    return [LESSONS[name].make(chance) for _ in range(EVALUATED)]
