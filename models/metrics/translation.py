"""BLEU and chrF of translations, added up row by row: sacreBLEU's numbers by its defaults, from 0 to 100.

BLEU splits texts into words as `mteval-v13a` does and keeps their case; chrF is chrF2, of up to six characters. Chinese,
Japanese and Thai have no spaces between words, so that BLEU takes whole clauses for words there and is close to 0 whatever
the translation is worth: judge such languages by chrF. sacreBLEU's tokenizers for them are left out on purpose, so that a
number means the same in all runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from bertline.models.compat import bleu_counts, bleu_score

_SIZES = {"Bleu": 10, "Chrf": 18}
"""Numbers that a row adds to each score."""
_ENDS = np.cumsum([1, *_SIZES.values()])
_KEPT_ROWS = 1 << 16
"""Texts whose statistics are remembered: a comparison asks for the same rows once more for every slice."""


class _Measure(NamedTuple):
    statistics: Callable[[str, str], list[int]]
    """(translation, reference) -> counts, which may be added up over rows."""
    score: Callable[[list[float]], float]
    """(sum of them) -> the score of all rows."""


@cache
def _measures() -> Mapping[str, _Measure]:
    from sacrebleu.metrics import BLEU, CHRF  # here: it takes half a second

    def measure(metric: Any) -> _Measure:
        return _Measure(
            lambda given, reference: bleu_counts(metric, given, reference),
            lambda sums: bleu_score(metric, sums),
        )

    return {"Bleu": measure(BLEU()), "Chrf": measure(CHRF())}


def no_rows() -> np.ndarray:
    """The sum over no row: how many rows there are, and then the numbers of each score."""
    return np.zeros(_ENDS[-1], np.int64)


def statistics(given: str, reference: str) -> np.ndarray:
    """What one row adds: whole numbers, so that sums are exact in any order."""
    return np.asarray(_statistics(given, reference), np.int64)


@lru_cache(_KEPT_ROWS)
def _statistics(given: str, reference: str) -> tuple[int, ...]:
    return (1, *(count for measure in _measures().values() for count in measure.statistics(given, reference)))


def _score(name: str) -> Callable[[np.ndarray], float]:
    at = list(_SIZES).index(name)

    def score(sums: np.ndarray) -> float:
        return _measures()[name].score(sums[_ENDS[at] : _ENDS[at + 1]].tolist()) if sums[0] else float("nan")

    return score


OF_TRANSLATIONS: Mapping[str, Callable[[np.ndarray], float]] = {name: _score(name) for name in _SIZES}


def sentence_chrf(given: str, reference: str) -> float:
    """Of one translation by itself. BLEU is no measure of a single sentence: most have no four words in common."""
    return OF_TRANSLATIONS["Chrf"](statistics(given, reference))
