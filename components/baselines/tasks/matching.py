"""The baseline of a search: the text with the nearest TF-IDF vector."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bertline.components.baselines.data import Given
from bertline.components.baselines.features import tf_idf
from bertline.components.baselines.scores import Baseline
from bertline.models.metrics.accumulators import FAMILIES
from bertline.models.metrics.retrieval import ranks
from bertline.pipeline.config import TEXT_KEYS


def matching(given: Given) -> Iterator[Baseline]:
    counted = tf_idf(*([examples.texts(key) for key in TEXT_KEYS] for examples in (given.train, given.evaluation)))
    if counted is None:
        return
    questions, candidates = counted.evaluation
    # Rows of the model have dense vectors side by side; of so many words these would fill the memory.
    places = ranks(questions, candidates, given.rows.label())
    scores, metrics = FAMILIES["ranks"].scores, given.rows.description.metrics

    def score(counts: np.ndarray) -> dict[str, float]:
        found = np.repeat(places, counts)
        return {name: scores[metric.tfma](found) for name, metric in metrics.items() if metric.tfma in scores}

    yield Baseline("tf-idf", score)
