"""Plots of translations: how good they are by the length of what is translated, and whether they are too short."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from bertline.components.evaluator.predictions.rows import EvaluationPredictions
from bertline.components.reports.plots import beside_diagonal, new_figure
from bertline.models.metrics.translation import OF_TRANSLATIONS, no_rows, statistics

_MAX_GROUPS = 8
_MIN_EXAMPLES = 20
"""Of a group: BLEU of fewer is chance."""


class Group(NamedTuple):
    """Rows whose references have about as many words."""

    first: int
    last: int
    rows: int
    scores: dict[str, float]


def groups_by_length(rows: EvaluationPredictions) -> list[Group]:
    """Rows with a weight by the words of their references, in groups of about as many rows: short ones first.

    The source would do as well; but of it no more than a part may be kept.
    """
    references, given = _texts(rows)
    words = np.asarray([len(reference.split()) for reference in references], int)
    most = max(1, min(_MAX_GROUPS, len(words) // _MIN_EXAMPLES))
    # Edges between lengths that differ: equally long ones are in one group.
    edges = np.unique(np.quantile(words, np.arange(1, most) / most, method="lower")) if len(words) else []
    of_rows = np.searchsorted(edges, words, side="left")
    found = []
    for group in np.unique(of_rows):
        chosen = np.flatnonzero(of_rows == group)
        sums = sum((statistics(given[row], references[row]) for row in chosen), start=no_rows())
        scores = {name: score(sums) for name, score in OF_TRANSLATIONS.items()}
        found.append(Group(int(words[chosen].min()), int(words[chosen].max()), len(chosen), scores))
    return found


def scores_by_length(rows: EvaluationPredictions) -> Figure:
    figure = new_figure(7, 5)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    groups = groups_by_length(rows)
    at = np.arange(len(groups))
    for score, name in (("Bleu", "BLEU"), ("Chrf", "chrF")):
        above.plot(at, [group.scores[score] for group in groups], "o-", label=name)
    above.set_ylim(0, 101)
    above.set_ylabel("score of these examples")
    above.set_title(f"{sum(group.rows for group in groups)} evaluation examples")
    above.legend(fontsize=8)
    below.bar(at, [group.rows for group in groups], color="tab:gray")
    below.set_xticks(at, [f"{group.first}-{group.last}" for group in groups])
    below.set_xlabel("words of the reference, separated by white space")
    below.set_ylabel("rows")
    return figure


def lengths_of_translations(rows: EvaluationPredictions) -> Figure:
    """Characters of each translation by those of its reference: below the diagonal something is missing."""
    references, given = (np.asarray([len(text) for text in texts], float) for texts in _texts(rows))
    figure, axes = beside_diagonal(references, given, [0.0, float(np.max([references, given], initial=0.0))])
    fraction = given.sum() / references.sum() if references.sum() else float("nan")
    axes.set_xlabel("characters of the reference")
    axes.set_ylabel("characters of the translation")
    axes.set_title(f"{len(given)} evaluation examples; translations have {fraction:.0%} of the references' characters")
    return figure


def _texts(rows: EvaluationPredictions) -> tuple[list[str], list[str]]:
    """References and translations of the rows with a weight."""
    kept = np.flatnonzero(rows.weight() > 0)
    return list(rows.label()[kept]), list(rows.prediction()[kept])
