"""The baseline of a translation: the source as it is."""

from __future__ import annotations

from collections.abc import Iterator

from bertline.components.baselines.data import Given
from bertline.components.baselines.scores import Baseline, of_predictions
from bertline.pipeline.config import TEXT_KEYS


def translation(given: Given) -> Iterator[Baseline]:
    source = given.evaluation.texts(TEXT_KEYS[0])
    yield of_predictions("copy", given.rows, {"": source, "greedy": source})
