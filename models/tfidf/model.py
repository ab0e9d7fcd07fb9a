"""The linear layer over TF-IDF as a Keras model, and a task that is answered by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import keras
import tensorflow as tf

from bertline.models.tasks.base.task import Context, Task, Tensors
from bertline.models.tfidf.graph import counts_of
from bertline.models.tfidf.vocabulary import Vocabulary
from bertline.models.training.probing import Linear

PLACES, VALUES = "ngrams", "ngram_values"
"""Features of a text: which n-grams it has, and their numbers."""


class TfIdfModel(keras.Model):
    """What scikit-learn has learned, as a model that any task's head could stand for.

    Args:
      layer: over the vocabulary's features.
      one_against_rest: whether each class was learned for itself: its probability is then its share of all their
        probabilities.
    """

    def __init__(self, vocabulary: Vocabulary, layer: Linear, *, one_against_rest: bool = False) -> None:
        super().__init__(name="tf_idf")
        self.one_against_rest = one_against_rest
        self._read = [(block.kind, block.characters) for block in vocabulary.blocks]
        # All of them variables: a graph is read as a whole, and stays small without them.
        self._keys = [self._fixed("keys", block.keys) for block in vocabulary.blocks]
        self._idf = [self._fixed("idf", block.idf) for block in vocabulary.blocks]
        self.kernel, self.bias = self._fixed("kernel", layer.kernel), self._fixed("bias", layer.bias)
        self.built = True

    def _fixed(self, name: str, values: Any) -> Any:
        made = self.add_weight(name=name, shape=values.shape, dtype=values.dtype.name, trainable=False, initializer="zeros")
        made.assign(values)
        return made

    def read(self, texts: tf.Tensor) -> Tensors:
        """[batch] -> their features, which are ragged."""
        places, values, offset = [], [], 0
        for (kind, characters), keys, idf in zip(self._read, self._keys, self._idf, strict=True):
            found = counts_of(texts, kind, characters, keys.value, idf.value)
            places.append(found.places + offset)
            values.append(found.values)
            offset += keys.shape[0]
        return {PLACES: tf.concat(places, axis=1), VALUES: tf.concat(values, axis=1)}

    def call(self, batch: Mapping[str, tf.Tensor], training: bool = False) -> tf.Tensor:  # [batch, outputs]
        there = batch[f"{PLACES}_mask"]
        rows, places = tf.where(there)[:, 0], tf.boolean_mask(batch[PLACES], there)
        shape = tf.stack([tf.shape(there, tf.int64)[0], tf.constant(self.kernel.shape[0], tf.int64)])
        table = tf.SparseTensor(tf.stack([rows, places], axis=1), tf.boolean_mask(batch[VALUES], there), shape)
        found = tf.sparse.sparse_dense_matmul(table, self.kernel.value) + self.bias.value
        return tf.math.log_sigmoid(found) if self.one_against_rest else found


def answered_by(task: Task, model: TfIdfModel) -> Task:
    """The task for this model, which reads the text itself beside its tokens."""
    given = task.preprocessing

    def read(columns: Mapping[str, Any], context: Context) -> Tensors:
        return model.read(columns[context.text_keys[0]])

    return replace(
        task,
        preprocessing=replace(
            given,
            features=lambda columns, context: {**given.features(columns, context), **read(columns, context)},
            request=lambda columns, context: {**given.request(columns, context), **read(columns, context)},
        ),
        inspection=None,  # it has no vectors of tokens
    )
