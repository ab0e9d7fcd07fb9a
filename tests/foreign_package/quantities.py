"""A package of somebody else's: a task, a reader and a metric for Bertline, in one file.

Its task answers a number and how far off that may be: both come from the model, and a label that is far from what the model
was sure of costs most (the likelihood of a normal distribution).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from bertline.models.heads import pooled
from bertline.plugins import (
    Answer,
    BadRow,
    Configuration,
    Context,
    DataConfig,
    Evaluation,
    ExtraMetric,
    Given,
    Inspection,
    Metric,
    Model,
    Objective,
    Outcome,
    Output,
    Preprocessing,
    Reader,
    ResponseSpec,
    Row,
    Serving,
    Task,
    Tensors,
    bad_row,
)


@dataclass(frozen=True)
class Quantity(Answer):
    value: float
    deviation: float

    @classmethod
    def of(cls, given: Given) -> Quantity:
        return cls(float(given["quantity"]), float(given["deviation"]))

    def __str__(self) -> str:
        return f"{self.value:.2f} ± {self.deviation:.2f}"


QUANTITY = ResponseSpec(call="quantity", inputs=("text",), optional=(), outputs=("quantity", "deviation"), read=Quantity.of)


def features(columns: Mapping[str, Any], context: Context) -> Tensors:
    return {**pooled.request(columns, context), "label_value": columns["label"]}


def build(encoder: Any, context: Context, dropout: float, seed: int) -> Any:
    return pooled.make_head(2, encoder, context, dropout, seed)


def loss(outputs: Any, batch: Mapping[str, Any]) -> Any:
    mean, log_variance = outputs[:, 0], outputs[:, 1]
    return (tf.math.squared_difference(mean, batch["label_value"]) / tf.exp(log_variance) + log_variance) / 2


def accuracy(outputs: Any, batch: Mapping[str, Any]) -> Any:
    return tf.fill(tf.shape(outputs)[:1], float("nan"))


def answer(outputs: Any, batch: Mapping[str, Any], context: Context) -> Tensors:
    return {"quantity": outputs[:, 0], "deviation": tf.exp(outputs[:, 1] / 2)}


def targets(features: Mapping[str, Any]) -> Tensors:
    value = features["label_value"]
    missing = tf.math.is_nan(value)
    return {"label_value": tf.where(missing, 0.0, value), "label_weight": tf.cast(~missing, tf.float32)}


def outcomes(rows: Any) -> Iterator[Outcome]:
    for value, label in zip(rows.prediction().tolist(), rows.label().tolist(), strict=True):
        yield Outcome(None, abs(value - label), f"{label:g}", f"{value:.2f}")


TASK = Task(
    name="quantity",
    preprocessing=Preprocessing(text_keys=("text",), label="number", features=features, request=pooled.request),
    model=Model(build=build),
    objective=Objective(loss=loss, accuracy=accuracy),
    evaluation=Evaluation(
        measure=answer,
        targets=targets,
        outputs={"": Output("quantity", "label_value", "label_weight")},
        metrics={"pearson": Metric("Pearson"), "mean_squared_error": Metric("MeanSquaredError", better="lower")},
        outcomes=outcomes,
    ),
    serving=Serving(signature=answer, response=QUANTITY),
    inspection=Inspection(attend=pooled.attend, target=lambda asked: []),
    config=Configuration(defaults=lambda raw: {"training": {"epochs": 3, "batch_size": 16}}),
)


def columns(path: str, data: DataConfig) -> list[str]:
    return ["text", "amount"]


def read(path: str, data: DataConfig, columns: Collection[str] | None = None) -> Iterator[Row | BadRow]:
    """`a text -> 3` a line."""
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
        text, arrow, amount = line.rpartition(" -> ")
        if arrow:
            yield Row(path, number, {"text": text, "amount": amount})
        else:
            yield bad_row(path, number, "no arrow", "a line is a text, an arrow and a number", line)


ARROWS = Reader(columns, read)
MEAN_ERROR = ExtraMetric("values", lambda given, true: float(np.abs(given - true).mean()), better="lower")
