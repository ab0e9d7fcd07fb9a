"""The SavedModel at the end of the pipeline: raw strings in, answers out, the tokenizer inside.

A server needs TensorFlow and tensorflow_text to load it, and nothing of ours.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from bertline.models.data.batching import TOKENS, padded
from bertline.models.data.example_parsing import features_of
from bertline.models.explain.exported import Explaining, read_by_model
from bertline.models.tasks.base.task import Context, Signature, Task, expanded
from bertline.pipeline.config import CHOICES, TEXT_KEYS
from bertline.serving.contract import (
    DEFAULT_SIGNATURE,
    EXAMPLES_SIGNATURE,
    TARGETS_SIGNATURE,
    TOKENIZE_SIGNATURE,
    write_metadata,
)


class ServedModel(tf.Module):
    """Text encoder and trained model in one graph."""

    def __init__(self, task: Task, context: Context, model: Any) -> None:
        super().__init__(name="served")
        self.text_encoder, self.target_encoder = context.text, context.target  # tracked, and so exported
        # Of the model TensorFlow's own variables: Keras's are exported as copies beside those that the graph reads, and a
        # server that restores by names, as TensorFlow Serving does, then finds no values in the latter.
        self.weights = [variable.value for variable in model.variables]
        self._model = lambda: model  # a function is not tracked
        self._task, self._context = task, context
        names = zip(task.preprocessing.input_names or context.text_keys, context.text_keys, strict=True)
        texts = [tf.TensorSpec([None, None] if key == CHOICES else [None], tf.string, name=name) for name, key in names]
        records = [tf.TensorSpec([None], tf.string, name="examples")]
        # Signatures share what they have in common: a function is traced and saved once, however many call it.
        request = tf.function(self._request_of, input_signature=texts, autograph=False)
        features = tf.function(self._features_of, input_signature=records, autograph=False)
        self._request, self._features = (lambda *texts: request(*texts)), (lambda records: features(records))
        self.predict = tf.function(self._predict, input_signature=texts, autograph=False)
        self.tokenize = tf.function(self._tokenize, input_signature=texts, autograph=False)
        self.predict_examples = tf.function(self._predict_examples, input_signature=records, autograph=False)
        self.evaluation_targets = tf.function(self._evaluation_targets, input_signature=records, autograph=False)
        self.explaining: Explaining | None = None
        self._further = {name: self._of_one_text(signature) for name, signature in task.serving.signatures.items()}

    def add_explaining(self) -> None:
        """For an export alone: it traces the model twice more. A model without vectors of tokens has nothing to open."""
        if self._task.inspection is None:
            return
        empty = [tf.fill([1] * spec.shape.rank, "") for spec in self.predict.input_signature]
        batch = padded(expanded(self._task, self._request(*empty), self._context))
        specs = {name: tf.TensorSpec([None] * value.shape.rank, value.dtype) for name, value in batch.items()}
        self.explaining = Explaining(self._task.inspection, self._model(), read_by_model(specs))

    def settle(self) -> None:
        """For an export alone: its functions are as they were traced for callers of this process.

        TensorFlow would trace them once more while it saves, where it keeps variables in another way if it is asked to.
        """
        for name in ("predict", "tokenize", "predict_examples", "evaluation_targets"):
            setattr(self, name, getattr(self, name).get_concrete_function())
        self._further = {name: function.get_concrete_function() for name, function in self._further.items()}

    def signatures(self) -> dict[str, Any]:
        return {
            DEFAULT_SIGNATURE: self.predict,
            EXAMPLES_SIGNATURE: self.predict_examples,
            TARGETS_SIGNATURE: self.evaluation_targets,
            TOKENIZE_SIGNATURE: self.tokenize,
            **self._further,
        }

    def _of_one_text(self, signature: Signature) -> Any:
        inputs = {TEXT_KEYS[0]: "string", **signature.numbers}

        def called(*given: tf.Tensor) -> dict[str, tf.Tensor]:
            return signature.answer(self._model(), dict(zip(inputs, given, strict=True)), self._context)

        specs = [tf.TensorSpec([None], tf.as_dtype(dtype), name=name) for name, dtype in inputs.items()]
        return tf.function(called, input_signature=specs, autograph=False)

    def _request_of(self, *texts: tf.Tensor) -> dict[str, Any]:
        return self._task.preprocessing.request(dict(zip(self._context.text_keys, texts, strict=True)), self._context)

    def _predict(self, *texts: tf.Tensor) -> dict[str, tf.Tensor]:
        batch = padded(expanded(self._task, self._request(*texts), self._context))
        return self._task.serving.signature(
            self._task.serving.predict(self._model(), batch, self._context), batch, self._context
        )

    def _tokenize(self, *texts: tf.Tensor) -> dict[str, tf.Tensor]:
        tokens = self._request(*texts)[TOKENS]
        return {TOKENS: tokens.to_tensor(), "lengths": tokens.row_lengths()}

    def _features_of(self, records: tf.Tensor) -> dict[str, Any]:
        return features_of(records, self._task, self._context)

    def _predict_examples(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        batch = self._task.evaluation.prepare(padded(expanded(self._task, self._features(examples), self._context)))
        return self._task.evaluation.measure(
            self._task.serving.predict(self._model(), batch, self._context), batch, self._context
        )

    def _evaluation_targets(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        return self._task.evaluation.targets(self._features(examples))


def export(served: ServedModel, folder: str, metadata: dict[str, Any]) -> None:
    """Writes the SavedModel, with what explains its answers, and beside it the metadata that says what it is.

    Args:
      served: it is exported once, for its functions are settled by that.
    """
    served.add_explaining()
    served.settle()
    tf.saved_model.save(served, folder, signatures=served.signatures())
    write_metadata(folder, metadata)
