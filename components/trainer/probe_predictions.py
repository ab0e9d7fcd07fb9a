"""What the Trainer's probe predicts for the raw evaluation examples, left for the Evaluator as a baseline."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bertline.components.baselines.data import MAX_EXAMPLES, ids_of, read_examples
from bertline.models.data.batching import OF_TOKENS, TOKENS, Corpus
from bertline.models.data.example_parsing import features_of, read_records
from bertline.models.heads.pooled import sliding_of
from bertline.models.tasks.base.task import Context, Task, raw_features
from bertline.models.training.probing import Probe, vectors_of

_AT_ONCE = 1024


def write_probe(path: str, found: Probe, task: Task, context: Context, encoder: Any, files: Sequence[str]) -> None:
    """Asks the probe the evaluation examples that other baselines are asked.

    Args:
      encoder: frozen, as the probe has known it.
      files: raw evaluation Examples.
    """
    rows = _corpus(task, context, read_records(files, MAX_EXAMPLES))
    outputs = vectors_of(encoder, rows, (found.pooling,), sliding_of(context))[found.pooling]
    outputs = outputs @ found.layer.kernel + found.layer.bias
    measured = task.evaluation.measure(tf.constant(outputs, tf.float32), {}, context)[
        next(iter(task.evaluation.outputs.values())).prediction
    ]
    raw = raw_features(task, context.text_keys)
    stream = io.BytesIO()
    np.savez_compressed(stream, ids=np.asarray(ids_of(read_examples(files, raw), raw)), predictions=measured.numpy())
    with tf.io.gfile.GFile(path, "wb") as file:
        file.write(stream.getvalue())


def _corpus(task: Task, context: Context, records: Sequence[bytes]) -> Corpus:
    batches = [records[begin : begin + _AT_ONCE] for begin in range(0, max(1, len(records)), _AT_ONCE)]
    read = [features_of(tf.constant(batch, tf.string), task, context) for batch in batches]
    tokens = {name: tf.concat([of[name] for of in read], axis=0) for name in read[0] if name in OF_TOKENS}
    ids = tokens.pop(TOKENS)
    return Corpus(ids.flat_values.numpy(), ids.row_splits.numpy(), {}, tokens)
