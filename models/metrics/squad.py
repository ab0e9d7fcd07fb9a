"""How well an answer meets the right ones, by the rules of SQuAD's own evaluation (that of version 2.0).

A question without right answers is one that its text does not answer; the right answer is then none, an empty text.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

import numpy as np

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


def normalised(text: str) -> str:
    """
    >>> normalised(" The  cat, an animal.")
    'cat animal'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, right: Sequence[str]) -> float:
    """1 for an answer that is equal to a right one, after normalisation."""
    given = normalised(answer)
    return float(any(given == expected for expected in _expected(right)))


def f1(answer: str, right: Sequence[str]) -> float:
    """Shared words of the answer and the right one that is most like it: the harmonic mean of precision and recall."""
    given = normalised(answer).split()
    return max(_overlap(given, expected.split()) for expected in _expected(right))


def _expected(right: Sequence[str]) -> list[str]:
    # A right answer of which nothing is left ("the", "…") is none; if all are so, the answer is to be empty.
    return [text for text in map(normalised, right) if text] or [""]


def _overlap(given: list[str], expected: list[str]) -> float:
    if not given or not expected:
        return float(given == expected)
    shared = (Counter(given) & Counter(expected)).total()
    return 2 * shared / (len(given) + len(expected))


def best_threshold(margins: Sequence[float], scores: Sequence[float], answerable: Sequence[bool]) -> float:
    """The margin up to which answers are given, and above which none is, so that the mean score is the highest.

    Args:
      margins: of each question, by how much no answer is better than the best one, in the model's eyes.
      scores: of each question's best answer.
      answerable: whether the question has an answer; where it has none, giving none scores 1.

    Example:
      >>> best_threshold([-2.0, 0.0, 3.0], [1.0, 0.5, 0.0], [True, True, False])
      1.5
    """
    order = np.argsort(margins, kind="stable")
    sorted_margins = np.asarray(margins, float)[order]
    # What it changes to give the answer of one more question instead of none.
    gains = np.where(np.asarray(answerable)[order], np.asarray(scores, float)[order], -1.0)
    totals = np.concatenate([[0.0], np.cumsum(gains)])
    # Equal margins cannot be told apart: a threshold stands between two that differ, or outside of all.
    edges = np.concatenate([[sorted_margins[0] - 1], sorted_margins, [sorted_margins[-1] + 1]])
    possible = np.flatnonzero(np.diff(edges) > 0)
    best = possible[np.argmax(totals[possible])]
    # Midway: the model's numbers differ in their last digits from batch to batch.
    return float((edges[best] + edges[best + 1]) / 2)
