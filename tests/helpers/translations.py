"""A stand-in for a model of the task translation: a model that shouts.

serving_default    text [n]                             translation, score [n], n_best, n_best_scores [n, 3]
greedy             text [n]                             translation, score
sample             text, temperature, top_k, top_p,     translation: the text with the numbers that it was asked with
                   seed [n]                             score
align              text [n]                             translation [n], source_pieces [n, s], target_pieces [n, t],
                                                        alignment [n, t, s]: the words, and each looks at its own
serving_examples   examples [n]                         translation and greedy_translation: the text, and in capitals
evaluation_targets examples [n]                         reference: the label

A translation is the text in capitals. The second best is the text itself, and the third there is none of.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import tensorflow as tf

from bertline.models.tasks.base.task import get_task
from bertline.serving.contract import write_metadata

TASK = get_task("translation")


class Shouting(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def translate(self, text):
        given, score = tf.strings.upper(text, "utf-8"), self._score(text)
        best = tf.stack([given, text, tf.fill(tf.shape(text), "")], axis=1)
        scores = tf.stack([score, score - 1, tf.fill(tf.shape(text), -math.inf)], axis=1)
        return {"translation": given, "score": score, "n_best": best, "n_best_scores": scores}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def greedy(self, text):
        return {"translation": tf.strings.upper(text, "utf-8"), "score": self._score(text)}

    @tf.function(
        input_signature=[
            tf.TensorSpec([None], tf.string, "text"),
            tf.TensorSpec([None], tf.float32, "temperature"),
            tf.TensorSpec([None], tf.int32, "top_k"),
            tf.TensorSpec([None], tf.float32, "top_p"),
            tf.TensorSpec([None], tf.int64, "seed"),
        ]
    )
    def sample(self, text, temperature, top_k, top_p, seed):
        numbers = [tf.strings.as_string(temperature, 2), tf.strings.as_string(top_k), tf.strings.as_string(top_p, 2)]
        given = tf.strings.join([text, *numbers, tf.strings.as_string(seed)], " ")
        return {"translation": given, "score": self._score(text)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def align(self, text):
        source = tf.strings.split(text).to_tensor()
        target = tf.concat([tf.strings.upper(source, "utf-8"), tf.fill(tf.shape(source)[:1], "")[:, tf.newaxis]], axis=1)
        there = tf.cast(source != "", tf.float32)
        own = tf.linalg.diag(there * 0.75)
        alignment = tf.pad(own, [[0, 0], [0, 1], [0, 0]])
        return {
            "translation": tf.strings.upper(text, "utf-8"),
            "source_pieces": source,
            "target_pieces": target,
            "alignment": alignment,
        }

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")])
    def predict_examples(self, examples):
        text = self._parsed(examples)["text"]
        words = tf.cast(tf.strings.length(text), tf.float32)
        return {
            "translation": text,
            "greedy_translation": tf.strings.upper(text, "utf-8"),
            "token_loss": words / 10,
            "token_right": 1 / (1 + words),
        }

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")])
    def evaluation_targets(self, examples):
        parsed = self._parsed(examples)
        ones = tf.ones(tf.shape(examples))
        weight = ones * tf.cast(parsed["label"] != "", tf.float32)
        return {
            "reference": parsed["label"],
            "row_weight": weight,
            "zero": 0 * ones,
            "token_weight": tf.cast(tf.strings.length(parsed["label"]), tf.float32),
        }

    def _parsed(self, examples):
        spec = {name: tf.io.FixedLenFeature([], tf.string, "") for name in ("text", "label")}
        return tf.io.parse_example(examples, spec)

    def _score(self, text):
        return -0.125 * tf.cast(tf.strings.length(text), tf.float32)

    def signatures(self):
        return {
            "serving_default": self.translate,
            "greedy": self.greedy,
            "sample": self.sample,
            "align": self.align,
            "serving_examples": self.predict_examples,
            "evaluation_targets": self.evaluation_targets,
        }


def push(base: Path, version: int = 1) -> Path:
    """As a version that a server finds under `base`, with the metadata that a run would write."""
    folder, model = base / str(version), Shouting()
    tf.saved_model.save(model, str(folder), signatures=model.signatures())
    write_metadata(folder, {"task": "translation", "text_keys": ["text"], "columns": {"text": "english"}})
    return folder


def random_outputs(count: int, asked: np.random.Generator, chance: np.random.Generator, skill: float) -> dict[str, tuple]:
    """Label, prediction and weight of rows, by the names of the outputs: a word is kept as often as the skill says."""
    words = np.asarray(["the", "cat", "sat", "on", "a", "mat.", "Café", "北京", "🎬", "it's", "not", "so"])
    references = [list(asked.choice(words, size=asked.integers(1, 20))) for _ in range(count)]

    def translated(skill: float) -> list[str]:
        return [
            " ".join(word if chance.random() < skill else str(chance.choice(words)) for word in reference)
            for reference in references
        ]

    labels, weights = [" ".join(reference) for reference in references], (asked.random(count) > 0.1).astype(np.float32)
    tokens, zeros = np.asarray([len(reference) for reference in references], np.float32), np.zeros(count)
    return {
        "": (labels, translated(skill), weights),
        "greedy": (labels, translated(0.8 * skill), weights),
        "token_loss": (zeros, chance.random(count) * 3, tokens),
        "token_right": (zeros, chance.random(count) * skill, tokens),
    }
