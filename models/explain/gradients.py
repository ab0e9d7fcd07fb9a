"""Integrated gradients (arXiv 1703.01365): what each token adds to a score, on a straight way from a baseline to the text.

What the tokens add must sum up to the score's change on the way (completeness). That holds on every part of the way too,
so the error of each part is known, and those parts are halved again whose error is largest: gradients are asked for where
the score bends, as many as it takes.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np

TOLERANCE = 1e-3
"""By so much at most may what the tokens add miss the change of the score."""
MAX_GRADIENTS = 5000
_PARTS = 4  # to begin with
_FIRST, _LATER = (((nodes + 1) / 2, weights / 2) for nodes, weights in map(np.polynomial.legendre.leggauss, (8, 4)))
"""Gauss and Legendre's rules. What is halved has mostly a kink inside, as a ReLU makes, where more nodes gain nothing."""

Ask = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
"""Places on the way, [places] between 0 and 1 -> the score at each, [places], and how fast it changes there by each token,
[places, tokens]."""


class Integrated(NamedTuple):
    added: np.ndarray
    """[tokens] what each adds to the score."""
    score: float
    baseline: float
    """The score where the way begins."""
    error: float
    """By how much what the tokens add is more than the change of the score."""
    gradients: int
    """How many it took."""

    @property
    def is_complete(self) -> bool:
        return abs(self.error) <= TOLERANCE


class _Part(NamedTuple):
    begin: float
    end: float
    first: float
    last: float
    """The scores at both."""
    added: np.ndarray

    @property
    def error(self) -> float:
        return float(self.added.sum() - (self.last - self.first))


def integrate(ask: Ask, *, tolerance: float = TOLERANCE, limit: int = MAX_GRADIENTS) -> Integrated:
    """Adds up gradients along the way until completeness holds, or `limit` of them were asked for.

    >>> found = integrate(lambda at: (at**2, np.stack([at, at], axis=1)))  # both tokens push alike
    >>> found.added.round(6), found.is_complete
    (array([0.5, 0.5]), True)
    """
    asked = 0

    def counted(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        nonlocal asked
        asked += places.size
        return ask(places)

    scores: dict[float, float] = {}
    edges = np.linspace(0.0, 1.0, _PARTS + 1).tolist()
    parts = _measured(counted, list(pairwise(edges)), _FIRST, scores)
    # Half of what is allowed: errors of parts may cancel out, and are not relied upon to.
    while sum(abs(part.error) for part in parts) > tolerance / 2 and asked < limit:
        parts.sort(key=lambda part: abs(part.error))
        good = int((np.cumsum([abs(part.error) for part in parts]) <= tolerance / 4).sum())
        halves = [half for part in parts[good:] for half in pairwise((part.begin, (part.begin + part.end) / 2, part.end))]
        parts = parts[:good] + _measured(counted, halves, _LATER, scores)
    parts.sort(key=lambda part: part.begin)
    added = np.sum([part.added for part in parts], axis=0)
    score, baseline = parts[-1].last, parts[0].first
    return Integrated(added, score, baseline, float(added.sum() - (score - baseline)), asked)


def _measured(
    ask: Ask, spans: list[tuple[float, float]], rule: tuple[np.ndarray, np.ndarray], scores: dict[float, float]
) -> list[_Part]:
    """Measures each span by a rule; all that is needed is asked for together.

    Args:
      scores: those at the ends of spans that are known; further ones are added.
    """
    nodes, weights = rule
    begins, ends = np.asarray(spans).T
    inner = begins[:, np.newaxis] + (ends - begins)[:, np.newaxis] * nodes  # [spans, nodes]
    edges = sorted({*begins.tolist(), *ends.tolist()} - scores.keys())
    found, slopes = ask(np.concatenate([edges, inner.ravel()]))
    scores.update(zip(edges, found.tolist(), strict=False))
    added = np.einsum("snt,n->st", slopes[len(edges) :].reshape(*inner.shape, -1), weights)
    added *= (ends - begins)[:, np.newaxis]
    return [_Part(begin, end, scores[begin], scores[end], part) for (begin, end), part in zip(spans, added, strict=True)]
