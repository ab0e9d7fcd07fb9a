"""What a SavedModel carries for those who explain its answers: its own graph, cut open at the vectors of the tokens.

These are functions of the SavedModel and no signatures: a server has no use for them. TensorFlow takes gradients through
a loaded function, so no second copy of the weights is needed to explain a model later.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from bertline.models.data.batching import TOKENS
from bertline.models.tasks.base.task import Inspection
from bertline.models.training.precision import in_float32

OF_MODEL = (
    TOKENS, "segment_ids", "blocks", "positions", "mask", "firsts", "firsts_mask", "masked_positions",
    "masked_positions_mask", "word_positions", "word_positions_mask", "target_ids",
)  # fmt: skip
"""What models read of a batch, one entry a row of it; a batch has other things too, which answers are made with."""
ONLY = "outputs"
"""The name of what a model gives that gives one thing."""


def read_by_model(batch: Mapping[str, Any]) -> dict[str, Any]:
    return {name: batch[name] for name in OF_MODEL if name in batch}


class Explaining(tf.Module):
    """The model, opened.

    `embed(token_ids)` gives the vectors of tokens, `run(vectors, batch)` the model's outputs from vectors in the place of
    token ids, and `attend(batch)` the attention weights of all heads. A batch of a model that writes has what it wrote too,
    as `target_ids`.

    Args:
      inspection: of the task.
      specs: of what the model reads of a batch, by its names.
    """

    def __init__(self, inspection: Inspection, model: Any, specs: Mapping[str, tf.TensorSpec]) -> None:
        super().__init__(name="explaining")
        self._inspection = inspection
        self._model = lambda: model  # a function is not tracked
        ids, batch = specs[TOKENS], dict(specs)
        if inspection.writes:
            batch |= {"target_ids": tf.TensorSpec([None, None], tf.int32)}
        vectors = tf.TensorSpec([None, None, inspection.vectors(model).output_dim], tf.float32)
        self.embed = tf.function(self._embed, input_signature=[ids], autograph=False)
        self.run = tf.function(self._run, input_signature=[vectors, batch], autograph=False)
        self.attend = tf.function(self._attend, input_signature=[batch], autograph=False)

    def _embed(self, token_ids: tf.Tensor) -> tf.Tensor:
        return self._inspection.vectors(self._model())(token_ids)

    def _run(self, vectors: tf.Tensor, batch: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        outputs = in_float32(self._model()({**batch, TOKENS: vectors}, training=False))
        return outputs if isinstance(outputs, dict) else {ONLY: outputs}

    def _attend(self, batch: Mapping[str, tf.Tensor]) -> dict[str, Any]:
        """`weights`: see `Inspection.attend`; `heads`: the numbers of each layer's heads."""
        model, kept = self._model(), self._inspection.heads(self._model())
        heads = {name: [tf.constant(numbers, tf.int32) for numbers in layers] for name, layers in kept.items()}
        return {"weights": self._inspection.attend(model, batch), "heads": heads}
