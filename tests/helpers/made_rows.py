"""Evaluation examples of every task as an Evaluator would leave them, made up: no model is asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import translations

from bertline.components.evaluator.predictions.rows import ID, Description, EvaluationPredictions, column_name
from bertline.models.tasks.base.task import get_task
from bertline.pipeline.config import CHOICES, task_names

CLASSES = ("bad", "fair", "good")
TAGS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
PHRASES = ("the cat", "a dog.", "Café 北京", "🎬", "", "old cat")
TASKS = tuple(task_names())


def make(
    task: str,
    outputs: Mapping[str, tuple[Any, Any, Any]],
    texts: Mapping[str, list] | None = None,
    labels: tuple[str, ...] = (),
    ids: list[str] | None = None,
) -> EvaluationPredictions:
    """Args: outputs: label, prediction and weight of the rows, by the names of the task's outputs."""
    count = len(next(iter(outputs.values()))[0])
    texts = {"text": [f"text {row}" for row in range(count)]} if texts is None else texts
    columns: dict[str, Any] = {ID: ids or [f"{row:016x}" for row in range(count)], **texts}
    for name, values in outputs.items():
        for what, column in zip(("label", "prediction", "weight"), values, strict=True):
            columns[column_name(name, what)] = [one.tolist() if isinstance(one, np.ndarray) else one for one in column]
    described = get_task(task)
    return EvaluationPredictions(pa.table(columns), Description.of(described, labels, tuple(texts)))


def random_predictions(task: str, count: int, seed: int = 0, skill: float = 0.6) -> EvaluationPredictions:
    """Answers that are better than chance, the more the skill; what is asked depends on the count alone."""
    asked, chance = np.random.default_rng(count), np.random.default_rng(seed + 1)
    ones = np.ones(count, np.float32)
    some = (asked.random(count) > 0.1).astype(np.float32)
    knows = chance.random(count) < skill
    two = {name: [f"{name} {row}" for row in range(count)] for name in ("text", "text_2")}
    if task == "classification":
        label = asked.integers(3, size=count)
        probabilities = chance.dirichlet(np.ones(3), size=count) + np.eye(3)[label] * skill
        return make(task, {"": (label, probabilities / (1 + skill), some)}, labels=CLASSES)
    if task == "multilabel":
        flags = asked.integers(2, size=(count, 3))
        probabilities = np.clip(skill * flags + chance.random((count, 3)) * (1 - skill / 2), 0, 1)
        return make(task, {"": (flags, probabilities, ones)}, labels=CLASSES)
    if task in ("regression", "similarity"):
        label = np.round(asked.normal(3, 2, count), 1)
        return make(task, {"": (label, skill * label + chance.normal(0, 1, count), some)}, two)
    if task == "matching":
        second = asked.integers(2**31, size=count)
        vectors = asked.normal(size=(count, 8))
        first = skill * vectors + chance.normal(size=(count, 8)) * 0.4
        return make(task, {"": (second, np.concatenate([first, vectors], axis=1), ones)}, two)
    if task == "choice":
        choices, label = [["x", "y", "z"]] * count, asked.integers(3, size=count)
        index = np.where(knows, label, (label + 1) % 3)
        loss = np.where(knows, 0.2, 1.5) + chance.random(count) * 0.1
        right = (index == label).astype(np.float32)
        zeros = np.zeros(count)
        outputs = {"right": (zeros, right, some), "row_loss": (zeros, loss, some), "index": (label, index, some)}
        return make(task, outputs, {"text": two["text"], CHOICES: choices})
    if task == "tagging":
        true = [asked.integers(5, size=asked.integers(1, 12)) for _ in range(count)]
        given = [
            np.where(chance.random(len(tags)) < skill, tags, chance.integers(5, size=len(tags))).tolist() + [0]
            for tags in true
        ]
        texts = {"text": [" ".join("abcdefghijkl"[: len(tags)]) for tags in true]}
        return make(task, {"": ([[*tags.tolist(), -1] for tags in true], given, some)}, texts, TAGS)
    if task == "answering":
        golds = [list(asked.choice(PHRASES, size=asked.integers(0, 3))) for _ in range(count)]
        given = [
            str(chance.choice(right or [""])) if knew else str(chance.choice(PHRASES))
            for knew, right in zip(knows, golds, strict=True)
        ]
        return make(task, {"": ([[str(text) for text in right] for right in golds], given, ones)}, two)
    if task == "translation":
        return make(task, translations.random_outputs(count, asked, chance, skill), {"text": two["text"]})
    assert task == "pretraining"
    guesses = asked.integers(0, 8, size=count).astype(np.float32)
    right, loss, zeros = chance.random(count) * skill, chance.random(count) * 3, np.zeros(count)
    probabilities = chance.dirichlet(np.ones(2), size=count)
    outputs = {
        "follows": (asked.integers(2, size=count), probabilities, ones),
        "guess_loss": (zeros, loss, guesses),
        "guess_right": (zeros, right, guesses),
    }
    return make(task, outputs, {}, ("next", "other"))
