"""The plain layers an encoder is made of, each built at once and seeded by its place."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from typing import Any

import keras
import tensorflow as tf

_CHANCES = 2**16


class Dropout(keras.layers.Layer):
    """Dropout with other noise on each replica of a strategy (Keras' gives all of them the same), in half the time.

    The time is that of drawing: 16 random bits a unit are enough, where Keras draws a float of 32. The rate is so rounded
    to 1 / 65,536, and what is kept is scaled by the rounded one, so that its mean is exact.
    """

    def __init__(self, rate: float, seed: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.rate = rate
        with keras.name_scope(self.name):
            self.seeds = _ReplicaSeeds(seed, name="seeds")
        self.state = self.seeds.state  # seen by tf.train.Checkpoint only as an attribute of the layer
        self.built = True

    def call(self, inputs: Any, training: bool = False) -> Any:
        return self.drop(inputs, self.draw(inputs)) if training and self.rate else inputs

    def draw(self, inputs: Any) -> tf.Tensor:
        """Which of the inputs are kept: bool of their shape."""
        drawn = tf.bitcast(_random_words(self.seeds.next(), tf.size(inputs)), tf.int16)
        chance = tf.reshape(tf.reshape(drawn, [-1])[: tf.size(inputs)], tf.shape(inputs))
        return chance >= tf.constant(self._dropped - _CHANCES // 2, tf.int16)

    def drop(self, inputs: Any, kept: tf.Tensor) -> Any:
        """The inputs that are kept, scaled up, and 0 in the place of the others."""
        return inputs * (tf.cast(kept, inputs.dtype) * (_CHANCES / (_CHANCES - self._dropped)))

    @property
    def _dropped(self) -> int:
        return round(self.rate * _CHANCES)


class Embedding(keras.layers.Embedding):
    """Vectors of ids; given vectors, it hands them on: gradients are taken with respect to those."""

    def call(self, inputs: Any) -> Any:
        return inputs if tf.as_dtype(inputs.dtype).is_floating else super().call(inputs)


def _random_words(seed: Any, units: tf.Tensor) -> tf.Tensor:
    """64 random bits for every four units."""
    return tf.random.stateless_uniform([(units + 3) // 4], seed, minval=None, maxval=None, dtype=tf.uint64)


class _ReplicaSeeds(keras.random.SeedGenerator):
    """A counter that is equal on all replicas, so that it can be saved and restored; each adds its own number to it."""

    def next(self, ordered: bool = True) -> Any:
        context = tf.distribute.get_replica_context()  # None while a strategy is open but no replica runs
        replica = 0 if context is None else tf.cast(context.replica_id_in_sync_group, self.state.dtype)
        return super().next(ordered) + replica


@dataclass(frozen=True)
class Parts:
    """Makes the built layers of one part of a model; each has a seed that comes from its place, not its turn."""

    size: Any
    """An EncoderSize, or what has its fields that are asked for here and in `Attention`."""
    seed: int
    dtype: Any
    name: str = ""
    scaled: bool = False
    """Whether weights are drawn by the size of their layer, as the original Transformer's are, or all alike, as BERT's."""

    def inside(self, name: str) -> Parts:
        return replace(self, seed=self._seed_of(name), name=name)

    def dense(self, name: str, inputs: int, outputs: int, activation: Any = None) -> keras.layers.Dense:
        layer = keras.layers.Dense(
            max(1, outputs), activation=activation, kernel_initializer=self._kernel(name), dtype=self.dtype, name=name
        )
        layer.units = outputs  # Keras refuses 0 at first; a layer that lost all its heads has projections of that width
        layer.build((None, inputs))
        return layer

    def embedding(self, name: str, rows: int) -> Embedding:
        width = self.size.embedding_width
        drawn = keras.initializers.RandomNormal(stddev=width**-0.5, seed=self._seed_of(name))
        layer = Embedding(
            rows, width, embeddings_initializer=drawn if self.scaled else self._normal(name), dtype=self.dtype, name=name
        )
        layer.build()
        return layer

    def norm(self, name: str, width: int) -> keras.layers.LayerNormalization:
        layer = keras.layers.LayerNormalization(epsilon=self.size.layer_norm_eps, dtype=self.dtype, name=name)
        layer.build((None, width))
        return layer

    def dropout(self, name: str, rate: float) -> Dropout:
        return Dropout(rate, self._seed_of(name), dtype=self.dtype, name=name)

    def _kernel(self, name: str) -> keras.initializers.Initializer:
        return keras.initializers.GlorotUniform(seed=self._seed_of(name)) if self.scaled else self._normal(name)

    def _normal(self, name: str) -> keras.initializers.Initializer:
        return keras.initializers.TruncatedNormal(stddev=0.02, seed=self._seed_of(name))

    def _seed_of(self, name: str) -> int:
        return zlib.crc32(f"{self.seed}/{name}".encode()) >> 1  # 31 bits: Keras folds larger seeds
