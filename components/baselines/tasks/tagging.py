"""Baselines of tags: every word outside, and a lexicon of words and of what words look like."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator

from bertline.components.baselines.data import Given
from bertline.components.baselines.scores import Baseline, of_predictions
from bertline.models.data.tag_schemes import OUTSIDE


def tagging(given: Given) -> Iterator[Baseline]:
    if OUTSIDE not in given.labels:
        return
    known = {name: at for at, name in enumerate(given.labels)}
    rows = [text.split(" ") for text in given.evaluation.texts("text")]
    outside = known[OUTSIDE]
    yield of_predictions("majority", given.rows, {"": [[outside] * len(row) for row in rows]})
    of_word: dict[str, Counter[int]] = defaultdict(Counter)
    of_shape: dict[str, Counter[int]] = defaultdict(Counter)
    for text, tags in zip(given.train.texts("text"), given.train.lists("label"), strict=True):
        for word, tag in zip(text.split(" "), tags, strict=False):
            if tag in known:
                of_word[word][known[tag]] += 1
                of_shape[shape(word)][known[tag]] += 1
    words, shapes = ({key: _most(counts) for key, counts in found.items()} for found in (of_word, of_shape))
    given_tags = [[words.get(word, shapes.get(shape(word), outside)) for word in row] for row in rows]
    yield of_predictions("lexicon", given.rows, {"": given_tags})


def _most(counts: Counter[int]) -> int:
    """The most frequent; of equally frequent ones the first of the classes."""
    return min(counts, key=lambda tag: (-counts[tag], tag))


def shape(word: str) -> str:
    """What a word looks like.

    >>> shape("McDonald's"), shape("B-52"), shape("北京")
    ("XxXx'x", 'X-d', 'l')
    """
    kinds = "".join(
        "X" if char.isupper() else "x" if char.islower() else "d" if char.isdigit() else "l" if char.isalpha() else char
        for char in word
    )
    return re.sub(r"(.)\1+", r"\1", kinds)
