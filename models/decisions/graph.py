"""How a model's logits become an answer in the graph: `models/decisions/decision.py` in TensorFlow, and how it is tuned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import tensorflow as tf

from bertline.models.data.batching import padded
from bertline.models.decisions.decision import EVEN, NONE
from bertline.models.decisions.tuning import MIN_EXAMPLES, gathered, tune
from bertline.models.tasks.base.task import Context, Task, Tensors, expanded
from bertline.models.training.epoch_metrics import traced_once


def calibrated(logits: tf.Tensor, context: Context) -> tf.Tensor:
    return logits / context.decision.temperature


def answered_class(logits: tf.Tensor, probabilities: tf.Tensor, context: Context) -> tf.Tensor:
    """[batch, classes] -> [batch] names: of classes, or that it is none of them."""
    decision, names = context.decision, tf.constant([*context.labels, NONE])
    chosen = tf.argmax(logits, axis=-1)
    if decision.threshold is not None and len(context.labels) == 2:
        positive = decision.positive % 2
        chosen = tf.where(
            probabilities[:, positive] > decision.threshold, *(tf.constant(at, tf.int64) for at in (positive, 1 - positive))
        )
    if decision.confidence is not None:
        confidence = tf.gather(probabilities, chosen, axis=1, batch_dims=1)
        chosen = tf.where(confidence >= decision.confidence, chosen, len(context.labels))
    return tf.gather(names, chosen)


def threshold_of(context: Context) -> float:
    """Of each of several labels."""
    threshold = context.decision.threshold
    return EVEN if threshold is None else threshold


def tune_decision(task: Task, model: Any, context: Context, rows: Iterable[Tensors]) -> dict[str, float]:
    """What `Context.deciding` asks for, chosen on the evaluation examples.

    Args:
      rows: their features, in batches.
    """
    settings, output = context.deciding, next(iter(task.evaluation.outputs.values()))
    if not settings.calibration and settings.decision == "argmax" and not settings.abstain:
        return {}
    batches = list(rows)
    if sum(int(task.evaluation.targets(batch)[output.weight].shape[0] or 0) for batch in batches) < MIN_EXAMPLES:
        return {}  # without a look at the model, which takes a while to be traced
    untuned = replace(context, tuned={})

    def ask(features: Tensors) -> Tensors:
        batch = task.evaluation.prepare(padded(expanded(task, features, untuned)))
        return {
            **task.evaluation.measure(task.serving.predict(model, batch, untuned), batch, untuned),
            **task.evaluation.targets(features),
        }

    def answers() -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        asked = traced_once(ask)
        for features in batches:
            found = asked(features)
            yield tuple(found[name].numpy() for name in (output.prediction, output.label, output.weight))

    return tune(*gathered(answers()), settings, context.decision.positive)
