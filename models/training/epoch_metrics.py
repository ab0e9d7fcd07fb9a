"""The task's own scores on evaluation examples, while a model is trained: what TFMA will measure at the end.

What is tuned after the training, as the margin of an answer, is not known yet: scores that depend on it may still rise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np
import tensorflow as tf

from bertline.models.data.batching import padded
from bertline.models.metrics.accumulators import families, family_of
from bertline.models.tasks.base.task import Context, Task, Tensors, expanded


def scorer(task: Task, context: Context, rows: Callable[[], Iterable[Tensors]]) -> Callable[[Any], dict[str, float]] | None:
    """(model) -> its scores on the rows, by their names in the task; None for a task that has no scores of ours.

    Args:
      rows: gives the features of the evaluation examples, in batches, each time that it is called.
    """
    outputs = sorted(
        {metric.output for name, metric in task.evaluation.metrics.items() if name in _ours(task, context.labels)}
    )
    if not outputs:
        return None

    of_model = families(context.decision)

    @cache  # traced once, not after each epoch
    def asked(model: Any) -> Callable[[Tensors], Tensors]:
        def ask(features: Tensors) -> Tensors:
            batch = task.evaluation.prepare(padded(expanded(task, features, context)))
            return {
                **task.evaluation.measure(task.serving.predict(model, batch, context), batch, context),
                **task.evaluation.targets(features),
            }

        return traced_once(ask)

    def score(model: Any) -> dict[str, float]:
        ask = asked(model)
        sums = {(output, of): of_model[of].none(context.labels) for output in outputs for of in _families(task, output)}
        # Of what TFMA means only what another metric follows from: the loss itself is known already.
        means = {metric.of: np.zeros(2) for metric in task.evaluation.metrics.values() if metric.of}
        for features in rows():
            answers = {name: value.numpy() for name, value in ask(features).items()}
            for name, total in means.items():
                named = task.evaluation.outputs[task.evaluation.metrics[name].output]
                weights = answers[named.weight].astype(np.float64)
                total += [answers[named.prediction] @ weights, weights.sum()]
            for (output, of), found in sums.items():
                named = task.evaluation.outputs[output]
                columns = (answers[named.label], answers[named.prediction], answers[named.weight])
                for label, prediction, weight in zip(*columns, strict=True):
                    if weight > 0:
                        found = of_model[of].add(found, label, prediction, context.labels)
                sums[output, of] = found
        wholes = {key: of_model[key[1]].whole(found) for key, found in sums.items()}
        scores = {}
        for name in _ours(task, context.labels):
            metric, of = task.evaluation.metrics[name], str(family_of(task.evaluation.metrics[name].tfma))
            scores[name] = of_model[of].scores[metric.tfma](wholes[metric.output, of])
        for name, metric in task.evaluation.metrics.items():
            if metric.function:
                total, weight = means[metric.of]
                scores[name] = metric.function(total / weight) if weight else float("nan")
        return scores

    return score


def traced_once(function: Callable[[Tensors], Tensors]) -> Callable[[Tensors], Tensors]:
    """A function of the features of some rows, traced when it is first called, and for any number of rows."""

    @cache
    def traced(names: tuple[str, ...], specs: tuple[Any, ...]) -> Any:
        return tf.function(function, input_signature=[dict(zip(names, specs, strict=True))], autograph=False)

    def called(features: Tensors) -> Tensors:
        return traced(tuple(features), tuple(map(_of_any_rows, features.values())))(features)

    return called


def _of_any_rows(value: Any) -> Any:
    if isinstance(value, tf.RaggedTensor):
        shape = [None] * (1 + value.ragged_rank) + value.flat_values.shape[1:]
        return tf.RaggedTensorSpec(shape, value.dtype, value.ragged_rank, value.row_splits.dtype)
    value = tf.convert_to_tensor(value)
    return tf.TensorSpec([None, *value.shape[1:]], value.dtype)


def _ours(task: Task, labels: Sequence[str]) -> list[str]:
    return [
        name
        for name, metric in task.evaluation.metrics.items()
        if family_of(metric.tfma) and metric.is_measured(len(labels))
    ]


def _families(task: Task, output: str) -> list[str]:
    found = (family_of(metric.tfma) for metric in task.evaluation.metrics.values() if metric.output == output)
    return sorted({family for family in found if family})
