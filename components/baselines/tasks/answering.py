"""Baselines of answers: none at all, and the words of the text around which most words of the question stand."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from bertline.components.baselines.data import Given
from bertline.components.baselines.features import Rarity, words
from bertline.components.baselines.scores import Baseline, of_predictions
from bertline.pipeline.config import TEXT_KEYS

_AROUND = 12
"""Words to either side that count, the less the farther away."""
_SENTENCE_END = re.compile(r"[.!?;。！？；\n]")
_TOKEN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|[^\W\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+")


def answering(given: Given) -> Iterator[Baseline]:
    right = given.train.lists("answers")
    if not all(right):
        yield of_predictions("no answer", given.rows, {"": [""] * len(given.evaluation)})
    lengths = [len(words(answers[0])) for answers in right if answers]
    if not lengths:
        return
    question, context = TEXT_KEYS
    length, rarity = max(1, int(np.median(lengths))), Rarity(given.train.texts(context))
    pairs = zip(given.evaluation.texts(question), given.evaluation.texts(context), strict=True)
    yield of_predictions("window", given.rows, {"": [nearest_span(*pair, length, rarity) for pair in pairs]})


def nearest_span(question: str, text: str, length: int, rarity: Rarity) -> str:
    """So many words of the text that are not the question's own, where most of those are near, by what each word says.

    What stands in another sentence counts a quarter. The first of equally good spans.
    """
    tokens = list(_TOKEN.finditer(text))
    if not tokens:
        return ""
    asked = set(words(question))
    said = [token.group().lower() for token in tokens]
    weight = np.asarray([rarity(word) if word in asked else 0.0 for word in said])
    near = np.zeros(len(tokens))
    sentence = _sentences(text, tokens)
    for away in range(1, min(_AROUND, len(tokens) - 1) + 1):
        alike = np.where(sentence[away:] == sentence[:-away], 1.0, 0.25) / away
        near[away:] += weight[:-away] * alike
        near[:-away] += weight[away:] * alike
    # A word of the question is hardly its answer, nor is one that stands in every text.
    says = np.asarray([0.0 if word in asked else rarity(word) for word in said])
    worth = near * says - weight
    size = min(length, len(tokens))
    sums = np.convolve(worth, np.ones(size), mode="valid")
    first = int(np.argmax(sums))
    return text[tokens[first].start() : tokens[first + size - 1].end()]


def _sentences(text: str, tokens: Sequence[re.Match[str]]) -> np.ndarray:
    """The number of the sentence that each word stands in."""
    ends = [end.start() for end in _SENTENCE_END.finditer(text)]
    return np.searchsorted(ends, [token.start() for token in tokens])
