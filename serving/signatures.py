"""The SavedModel at the end of the line: raw strings in, answers out, the tokenizer inside.

A server needs TensorFlow and tensorflow_text to load it, and nothing of ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from models.inputs import pad
from models.task import Task
from serving.contract import DEFAULT_SIGNATURE, EXAMPLES_SIGNATURE, TARGETS_SIGNATURE, TOKENIZE_SIGNATURE, write_card


class ServedModel(tf.Module):
    """Text encoder and trained model in one graph."""

    def __init__(self, task: Task, text_encoder: Any, model: Any, labels: Sequence[str]) -> None:
        super().__init__(name="served")
        self.text_encoder, self.model = text_encoder, model
        self._task, self._labels = task, tuple(labels)
        texts = [tf.TensorSpec([None], tf.string, name=key) for key in task.text_keys]
        records = [tf.TensorSpec([None], tf.string, name="examples")]
        self.predict = tf.function(self._predict, input_signature=texts, autograph=False)
        self.tokenize = tf.function(self._tokenize, input_signature=texts, autograph=False)
        self.predict_examples = tf.function(self._predict_examples, input_signature=records, autograph=False)
        self.evaluation_targets = tf.function(self._evaluation_targets, input_signature=records, autograph=False)

    def signatures(self) -> dict[str, Any]:
        return {
            DEFAULT_SIGNATURE: self.predict,
            EXAMPLES_SIGNATURE: self.predict_examples,
            TARGETS_SIGNATURE: self.evaluation_targets,
            TOKENIZE_SIGNATURE: self.tokenize,
        }

    def _features(self, *texts: tf.Tensor, label: tf.Tensor | None = None) -> dict[str, Any]:
        columns = dict(zip(self._task.text_keys, texts, strict=True))
        columns["label"] = tf.fill(tf.shape(texts[0]), "") if label is None else label
        return self._task.features(columns, self.text_encoder, self._labels)

    def _predict(self, *texts: tf.Tensor) -> dict[str, tf.Tensor]:
        tokens = self._features(*texts)["token_ids"]
        length = tf.maximum(tf.cast(tokens.bounding_shape()[1], tf.int32), 1)  # 1 for a request without any text
        batch = {"token_ids": pad(tokens, length), "mask": tf.sequence_mask(tokens.row_lengths(), length)}
        return self._task.answer(self.model(batch, training=False), self._labels)

    def _tokenize(self, *texts: tf.Tensor) -> dict[str, tf.Tensor]:
        tokens = self._features(*texts)["token_ids"]
        return {"token_ids": tokens.to_tensor(), "lengths": tokens.row_lengths()}

    def _columns(self, records: tf.Tensor) -> dict[str, tf.Tensor]:
        names = (*self._task.text_keys, "label")
        return tf.io.parse_example(records, {name: tf.io.FixedLenFeature([], tf.string, "") for name in names})

    def _predict_examples(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        columns = self._columns(examples)
        return self._predict(*(columns[key] for key in self._task.text_keys))

    def _evaluation_targets(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        """The targets of raw Examples as numbers; a row without a usable label has no weight."""
        columns = self._columns(examples)
        features = self._features(*(columns[key] for key in self._task.text_keys), label=columns["label"])
        usable = features["label_id"] >= 0
        return {"label_id": tf.maximum(features["label_id"], 0), "label_weight": tf.cast(usable, tf.float32)}


def export(served: ServedModel, folder: str, card: dict[str, Any]) -> None:
    """Writes the SavedModel, and beside it the card that says what it is."""
    tf.saved_model.save(served, folder, signatures=served.signatures())
    write_card(folder, card)
