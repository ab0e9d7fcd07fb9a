"""The frozen probe as a baseline: the linear model over the encoder's own vectors, before anything was fine-tuned.

The Trainer, which has learned it, leaves its predictions (`components/trainer/probe_predictions.py`); here they are judged.
"""

from __future__ import annotations

import io
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from bertline.components.baselines.data import Given
from bertline.components.baselines.scores import Baseline, of_predictions

NAME = "probe"


def probe(given: Given, path: str) -> Iterator[Baseline]:
    """None where the Trainer has left no predictions, or not one for each example."""
    if not tf.io.gfile.exists(path):
        return
    with tf.io.gfile.GFile(path, "rb") as file:
        kept = np.load(io.BytesIO(file.read()), allow_pickle=False)
    place = {name: at for at, name in enumerate(kept["ids"].tolist())}
    places = np.asarray([place.get(name.partition("-")[0], -1) for name in given.rows.ids], int)
    if (places >= 0).all():
        yield of_predictions(NAME, given.rows, {"": kept["predictions"][places]})
