"""Sample requests that a model brings along, each with the answer that the trained model itself gave.

They stand where TensorFlow Serving looks for requests to warm up with, and it replays them as they are. The answers are
ours: `components/serve_check/executor.py` holds those of a server against them, before anybody else is answered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from bertline.models.tasks.base.task import Context, Task
from bertline.pipeline.config import CHOICES
from bertline.serving.contract import DEFAULT_SIGNATURE, WARM_UP
from bertline.serving.embedded.tensors import to_proto

Row = Mapping[str, bytes | list[bytes]]
"""The texts of a row by their names in the model's signature; the choices are a list of texts."""

_LOOKED_AT = 1000  # rows from which the samples are chosen
_MAX_BYTES = 1 << 15  # of a row: a sample is asked again whenever a server loads the model
_WORDS = (4, 40)  # of texts that are made from the vocabulary, the short one and the long one


def choose_examples(task: Task, context: Context, files: Sequence[str], count: int) -> list[Row]:
    """Rows as a caller of the served model would ask them, from the shortest to the longest.

    Args:
      files: raw Examples, TFRecords in gzip. Where they hold no text that will do, words of the vocabulary stand in.
      count: how many; fewer where there are not as many different ones.
    """
    if not count:
        return []
    found = {_identity(row): row for row in _raw_rows(task, context, files) if _size(row) <= _MAX_BYTES}
    rows = sorted(found.values(), key=lambda row: (_size(row), _identity(row))) or _made_up(task, context)
    places = np.linspace(0, len(rows) - 1, count) if count > 1 else [(len(rows) - 1) / 2]
    return [rows[place] for place in sorted({round(place) for place in places})]


def make_samples(
    predict: Callable[..., Mapping[str, tf.Tensor]], rows: Sequence[Row], name: str
) -> list[prediction_log_pb2.PredictionLog]:
    """Asks a model of this process.

    Args:
      predict: `ServedModel.predict`; it takes the texts in the order that they have in a row.
      name: of the model, for the requests.
    """
    made = []
    for row in rows:
        inputs: dict[str, Any] = {key: np.array([value], object) for key, value in row.items()}
        log = prediction_log_pb2.PredictionLog()
        request, response = log.predict_log.request, log.predict_log.response
        request.model_spec.name, request.model_spec.signature_name = name, DEFAULT_SIGNATURE
        response.model_spec.CopyFrom(request.model_spec)
        for key, value in inputs.items():
            to_proto(value, request.inputs[key])
        with _where_served():
            answers = predict(*map(tf.constant, inputs.values()))
        for key, answer in answers.items():
            to_proto(answer.numpy(), response.outputs[key])
        made.append(log)
    return made


def _where_served() -> AbstractContextManager[Any]:
    """Where ServeCheck's server computes: GPUs round otherwise.

    On machines without one nothing is said of devices, for then the function that is asked is the one that is saved:
    TensorFlow traces another for each device that it is told.
    """
    return tf.device("/CPU:0") if tf.config.list_logical_devices("GPU") else nullcontext()


def write_samples(samples: Sequence[prediction_log_pb2.PredictionLog], folder: str | Path) -> None:
    """Puts them into a model; none leave no file."""
    if not samples:
        return
    path = Path(folder) / WARM_UP
    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for sample in samples:
            writer.write(sample.SerializeToString(deterministic=True))  # the model's digest covers this file


def _raw_rows(task: Task, context: Context, files: Sequence[str]) -> list[Row]:
    names = dict(zip(context.text_keys, task.preprocessing.input_names or context.text_keys, strict=True))
    rows: list[Row] = []
    dataset = tf.data.TFRecordDataset(sorted(files), compression_type="GZIP")
    for record in islice(dataset.as_numpy_iterator(), _LOOKED_AT):
        features = tf.train.Example.FromString(record).features.feature
        texts = {key: [task.serving.as_asked(text) for text in features[key].bytes_list.value] for key in names}
        if all(any(found) for found in texts.values()):
            rows.append({names[key]: found if key == CHOICES else found[0] for key, found in texts.items()})
    return rows


def _made_up(task: Task, context: Context) -> list[Row]:
    words = [token for token in context.text.vocab if token.isalpha()] or ["text"]
    texts = [task.serving.as_asked(" ".join((words * most)[:most]).encode()) for most in _WORDS]
    names = dict(zip(context.text_keys, task.preprocessing.input_names or context.text_keys, strict=True))
    return [{name: [text, texts[0]] if key == CHOICES else text for key, name in names.items()} for text in texts]


def _identity(row: Row) -> str:
    return repr(sorted(row.items()))


def _size(row: Row) -> int:
    return sum(len(text) for value in row.values() for text in ([value] if isinstance(value, bytes) else value))
