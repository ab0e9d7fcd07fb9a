"""Plots of the evaluation examples: those that make sense for their task."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.figure import Figure

from bertline.components.evaluator.predictions.curves import BINS, Curve, calibration, mean_curve, precision_recall, roc
from bertline.components.evaluator.predictions.decisions import Examples, coverage_curve
from bertline.components.evaluator.predictions.rows import EvaluationPredictions
from bertline.components.evaluator.predictions.translation_plots import lengths_of_translations, scores_by_length
from bertline.components.ingest.filters import count_words
from bertline.components.reports.plots import MAX_POINTS, beside_diagonal, new_figure
from bertline.models.tasks.base.task import get_task

_MAX_LINES = 10
"""Classes that have a line each; of more, the mean is drawn."""


def draw_plots(rows: EvaluationPredictions) -> dict[str, Figure]:
    """By the names of their files."""
    plots = get_task(rows.description.task).evaluation.plots
    found = dict(plots(rows)) if plots else {}
    if rows.description.text_keys:
        found["lengths.png"] = lengths(rows)
    return found


def of_classes(rows: EvaluationPredictions) -> dict[str, Figure]:
    """Of probabilities of classes, one of which is right, or any number of them."""
    labels, kept = rows.description.labels, rows.weight() > 0
    probabilities, true = rows.prediction()[kept].astype(np.float64), rows.label()[kept]
    flags = true if true.ndim == 2 else np.eye(len(labels), dtype=int)[true]
    found = {
        "roc.png": roc_curves(flags, probabilities, labels),
        "precision_recall.png": precision_recall_curves(flags, probabilities, labels),
    }
    if examples := Examples.of(rows):
        is_calibrated = examples.decision.temperature != 1
        before = examples.reliability(examples.uncalibrated()) if is_calibrated else None
        found["reliability.png"] = reliability(*examples.reliability(examples.probabilities), before)
    if curve := list(coverage_curve(rows)):
        found["coverage_precision.png"] = coverage_precision(curve)
    return found


def of_numbers(rows: EvaluationPredictions) -> dict[str, Figure]:
    kept = rows.weight() > 0
    return {"predicted_and_true.png": predicted_and_true(rows.label()[kept], rows.prediction()[kept])}


def of_translations(rows: EvaluationPredictions) -> dict[str, Figure]:
    return {"scores_by_length.png": scores_by_length(rows), "lengths_of_translations.png": lengths_of_translations(rows)}


def roc_curves(flags: np.ndarray, probabilities: np.ndarray, labels: Sequence[str]) -> Figure:
    """Args: flags, probabilities: [rows, classes], whether a class is true of a row and how much it is taken for it."""
    figure = _curves(flags, probabilities, labels, roc, "AUC")
    axes = figure.axes[0]
    axes.plot([0, 1], [0, 1], color="tab:gray", linestyle=":", linewidth=1)  # chance
    axes.set_xlabel("false positive rate")
    axes.set_ylabel("true positive rate")
    return figure


def precision_recall_curves(flags: np.ndarray, probabilities: np.ndarray, labels: Sequence[str]) -> Figure:
    figure = _curves(flags, probabilities, labels, precision_recall, "AP")
    axes = figure.axes[0]
    axes.set_xlabel("recall")
    axes.set_ylabel("precision")
    return figure


def _curves(
    flags: np.ndarray,
    probabilities: np.ndarray,
    labels: Sequence[str],
    curve: Callable[[np.ndarray, np.ndarray], Curve],
    area: str,
) -> Figure:
    figure = new_figure(6, 5.5)
    axes = figure.add_subplot()
    true = flags > 0
    # A class that all rows have, or none, has no curve.
    found = {
        name: curve(true[:, at], probabilities[:, at])
        for at, name in enumerate(labels)
        if true[:, at].any() and not true[:, at].all()
    }
    if len(found) > _MAX_LINES:
        found = {f"mean of {len(found)} classes": mean_curve(list(found.values()))}
    for name, line in found.items():
        points = np.unique(np.linspace(0, len(line.x) - 1, min(len(line.x), MAX_POINTS)).astype(int))
        axes.plot(line.x[points], line.y[points], label=f"{area} {line.area:.3f}  {_as_text(name)}")
    axes.set_xlim(-0.01, 1.01)
    axes.set_ylim(-0.01, 1.01)
    if found:
        axes.legend(loc="best", fontsize=8)
    axes.set_title(f"{len(true)} evaluation examples")
    return figure


def _as_text(name: str) -> str:
    """A name as it is: matplotlib would take what stands between two dollars for a formula."""
    return name.replace("$", r"\$")


def reliability(
    probabilities: np.ndarray, right: np.ndarray, before: tuple[np.ndarray, np.ndarray] | None = None
) -> Figure:
    """How often answers of each probability are right; on the diagonal, a probability means what it says.

    Args:
      before: the same before calibration.
    """
    found = calibration(probabilities, right)
    figure = new_figure(5.5, 6)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    middles = (np.arange(BINS) + 0.5) / BINS
    above.bar(middles, np.nan_to_num(found.accuracy), width=0.9 / BINS, color="tab:blue", alpha=0.4)
    above.plot(found.confidence, found.accuracy, "o-", color="tab:blue", label="right")
    above.plot([0, 1], [0, 1], color="tab:gray", linestyle=":", linewidth=1)
    title = f"expected calibration error {found.error:.3f}"
    if before:
        earlier = calibration(*before)
        above.plot(earlier.confidence, earlier.accuracy, "s--", color="tab:red", alpha=0.7, label="before calibration")
        above.legend(fontsize=8)
        title += f" ({earlier.error:.3f} before calibration)"
    above.set_ylim(0, 1.02)
    above.set_ylabel("accuracy")
    above.set_title(title)
    below.bar(middles, found.counts, width=0.9 / BINS, color="tab:gray")
    below.set_xlim(0, 1)
    below.set_xlabel("confidence")
    below.set_ylabel("answers")
    return figure


def coverage_precision(curve: Sequence[tuple[float, float]]) -> Figure:
    """Which part of the examples is answered, and how many of these answers are right, as the confidence falls."""
    figure = new_figure(5.5, 4)
    axes = figure.add_subplot()
    axes.plot(*zip(*curve, strict=True), color="tab:blue")
    axes.set_xlim(0, 1.01)
    axes.set_xlabel("coverage: fraction of the examples that are predicted")
    axes.set_ylabel("precision: fraction of the predictions that are right")
    return figure


def lengths(rows: EvaluationPredictions) -> Figure:
    """Words of each text; of several choices, of each."""
    figure = new_figure(7, 4)
    axes = figure.add_subplot()
    words = {}
    for key in rows.description.text_keys:
        texts = [text for row in rows.texts for text in (row[key] if isinstance(row[key], list) else [row[key]])]
        words[key] = np.asarray([count_words(str(text)) for text in texts])
    longest = max((int(count.max()) for count in words.values() if len(count)), default=0)
    edges = np.unique(np.linspace(0, longest + 1, 41).astype(int))
    for key, counts in words.items():
        median = np.median(counts) if len(counts) else 0
        axes.hist(counts, bins=edges, alpha=0.6, label=f"{key} (median {median:.0f}, longest {max(counts, default=0)})")
    axes.set_xlabel("words; a Chinese or Japanese character counts as one")
    axes.set_ylabel("texts")
    axes.set_title(f"{len(rows)} evaluation examples")
    axes.legend(fontsize=8)
    return figure


def predicted_and_true(true: np.ndarray, predicted: np.ndarray) -> Figure:
    figure, axes = beside_diagonal(true, predicted, [float(end(true)) for end in (np.min, np.max)] if len(true) else [])
    axes.set_xlabel("true")
    axes.set_ylabel("predicted")
    axes.set_title(f"{len(true)} evaluation examples")
    return figure
