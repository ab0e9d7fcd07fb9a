"""TF-IDF with a linear model as a candidate: what is exported where an encoder that was trained from scratch is worse.

It is the Evaluator's baseline of that name, learned from the same examples; compared by the metric that decides about the
model, on the evaluation examples that chose its best epoch too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from bertline.components.baselines.data import MIN_EXAMPLES, read_examples
from bertline.components.baselines.layers import Lesson
from bertline.models.data.batching import padded
from bertline.models.data.example_parsing import features_of, read_records
from bertline.models.kinds import ENCODER, TF_IDF, without_encoder
from bertline.models.tasks.base.task import Context, Task, Tensors, expanded, raw_features
from bertline.models.tfidf.model import TfIdfModel, answered_by
from bertline.models.tfidf.vocabulary import learn
from bertline.models.training.epoch_metrics import scorer, traced_once
from bertline.models.training.loop import TrainingResult
from bertline.models.training.probing import Linear
from bertline.pipeline.core import events

MAX_WEIGHTS = 16_000_000
"""Features times classes: 64 MB of an export."""
_AT_ONCE = 64
_EQUAL = 1e-6
"""By which two scores of the same answers may differ."""


@dataclass(frozen=True)
class Candidate:
    """A model that may be exported."""

    task: Task
    model: Any
    rows: Callable[[], Iterable[Tensors]]
    """The evaluation examples as it reads them, each time that it is called."""
    why: str = ""
    """Why it is this one, where it is not the one that was trained."""

    @property
    def metadata(self) -> dict[str, str]:
        kind = TF_IDF if isinstance(self.model, TfIdfModel) else ENCODER
        return {"kind": kind, **({"kind_why": self.why} if self.why else {})}


def better_one(
    trained: Candidate,
    context: Context,
    result: TrainingResult,
    by: Sequence[str],
    train: Sequence[str],
    evaluation: Sequence[str],
) -> Candidate:
    """The trained model, or TF-IDF where that is better.

    Args:
      by: the metric that both are compared by: the first of these that was measured after the kept epoch.
      train, evaluation: files of raw Examples.
    """
    of_epochs = [record for record in result.history if "eval_loss" in record]
    record = next((one for one in reversed(of_epochs) if one["step"] == result.kept_step), dict[str, Any]())
    metric = next((name for name in (*by, "loss") if f"eval_{name}" in record), None)
    records = read_records(evaluation) if metric and evaluation else []
    if metric is None or len(records) < MIN_EXAMPLES:
        return trained
    model = _learned(trained.task, context, train)
    if model is None:
        return trained
    task, name = answered_by(trained.task, model), without_encoder(TF_IDF, trained.task.name)
    rows = partial(_batches, records, task, context)
    value, of_encoder = _measured(task, context, model, rows)[metric], float(record[f"eval_{metric}"])
    lower = metric == "loss" or task.evaluation.metrics[metric].better == "lower"
    ahead = of_encoder - value if lower else value - of_encoder
    if not (ahead > _EQUAL or (math.isnan(of_encoder) and not math.isnan(value))):
        told = f"fallback {name} is not better: {metric} {value:.4f}, the encoder {of_encoder:.4f}"
        events.emit(events.Note(told))
        return trained
    why = f"{metric} {value:.4f} on the evaluation examples, against {of_encoder:.4f} of the encoder trained from scratch"
    events.emit(events.Note(f"fallback {name} is exported  ({why}; training.fallback: never exports the encoder)"))
    return Candidate(task, model, rows, why)


def _learned(task: Task, context: Context, files: Sequence[str]) -> TfIdfModel | None:
    """None where there is nothing to learn, or too much to export."""
    read = read_examples(files, raw_features(task, context.text_keys))
    found: Lesson | None = task.model.fallback.lesson(read, context.labels) if task.model.fallback else None
    texts = found.examples.texts(context.text_keys[0]) if found else []
    vocabulary = learn([texts])
    if found is None or vocabulary is None:
        return None
    weights = vocabulary.features * found.outputs
    if weights > MAX_WEIGHTS:
        why = f"{vocabulary.features:,} features of {found.outputs:,} classes have {weights:,} weights"
        name = without_encoder(TF_IDF, task.name)
        events.emit(events.Note(f"fallback {name} was not tried: {why}, above the limit of {MAX_WEIGHTS:,}"))
        return None
    learned = found.fit(vocabulary.table(texts))
    layer = Linear(*(values.astype(np.float32) for values in learned.layer))
    return TfIdfModel(vocabulary, layer, one_against_rest=learned.one_against_rest)


def _batches(records: Sequence[bytes], task: Task, context: Context) -> Iterator[Tensors]:
    for begin in range(0, len(records), _AT_ONCE):
        yield features_of(tf.constant(records[begin : begin + _AT_ONCE], tf.string), task, context)


def _measured(
    task: Task, context: Context, model: TfIdfModel, rows: Callable[[], Iterable[Tensors]]
) -> Mapping[str, float]:
    """The metrics that are measured after an epoch, with `loss` and `accuracy`."""
    weight = next(iter(task.evaluation.outputs.values())).weight

    def judge(features: Tensors) -> Tensors:
        batch = padded(expanded(task, features, context))
        outputs = task.serving.predict(model, batch, context)
        return {
            "loss": task.objective.loss(outputs, batch),
            "accuracy": task.objective.accuracy(outputs, batch),
            **task.evaluation.targets(features),
        }

    judged = traced_once(judge)
    sums = np.zeros(3)
    for features in rows():
        found = {name: value.numpy() for name, value in judged(features).items()}
        counted = found[weight] > 0  # a row without a label has no loss
        weights = found[weight][counted]
        sums += [*(float(found[name][counted] @ weights) for name in ("loss", "accuracy")), float(weights.sum())]
    score = scorer(task, context, rows)
    loss, accuracy, count = sums.tolist()
    means = {"loss": loss / count, "accuracy": accuracy / count} if count else {"loss": math.nan, "accuracy": math.nan}
    return {**means, **(score(model) if score else {})}
