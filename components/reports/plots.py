"""Plots of a run, drawn without a screen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from bertline.components.evaluator.verdict import Verdict

MAX_POINTS = 2000
"""Of a line, and of a cloud: more are no better to see."""


def confusion_matrix(verdict: Verdict) -> Figure:
    """Rows are the true classes, columns the predicted ones; shaded by the share of the true class."""
    counts = np.asarray(verdict.confusion)
    fractions = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    size = max(4.0, 1.2 + 0.7 * len(counts))
    figure = new_figure(size, size)
    axes = figure.add_subplot()
    axes.imshow(fractions, cmap="Blues", vmin=0, vmax=1)
    if len(counts) <= 30:  # more numbers than that nobody reads
        for (row, column), count in np.ndenumerate(counts):
            colour = "white" if fractions[row, column] > 0.5 else "black"
            axes.text(column, row, f"{count}\n{fractions[row, column]:.0%}", ha="center", va="center", color=colour)
    axes.set_xticks(range(len(counts)), verdict.labels, rotation=45, ha="right")
    axes.set_yticks(range(len(counts)), verdict.labels)
    axes.set_xlabel("predicted")
    axes.set_ylabel("true")
    axes.set_title(f"accuracy {np.trace(counts) / max(1, counts.sum()):.3f} on {counts.sum()} evaluation examples")
    return figure


def learning_curves(history: Sequence[dict[str, Any]]) -> Figure:
    """Training loss of each step (and its running mean), evaluation loss after each epoch, and the learning rate."""
    steps = [record for record in history if "loss" in record]
    epochs = [record for record in history if "eval_loss" in record]
    figure = new_figure(8, 4.5)
    axes = figure.add_subplot()
    at = [record["step"] for record in steps]
    loss = np.asarray([record["loss"] for record in steps])
    axes.plot(at, loss, color="tab:blue", alpha=0.25, linewidth=0.8)
    if len(loss):
        window = max(1, len(loss) // 50)
        smooth = np.convolve(loss, np.ones(window) / window, mode="valid")
        axes.plot(at[window - 1 :], smooth, color="tab:blue", label="training loss")
    axes.plot([r["step"] for r in epochs], [r["eval_loss"] for r in epochs], "o-", color="tab:red", label="evaluation loss")
    axes.set_xlabel("step")
    axes.set_ylabel("loss")
    axes.legend(loc="upper right")
    rates = axes.twinx()
    rates.plot(at, [record["learning_rate"] for record in steps], color="tab:gray", linestyle=":", linewidth=1)
    rates.set_ylabel("learning rate")
    return figure


def beside_diagonal(across: np.ndarray, up: np.ndarray, ends: Sequence[float]) -> tuple[Figure, Any]:
    """Points, or how many there are where they are too many to be told apart, and a diagonal, on which both are the same.

    Args:
      ends: where the diagonal begins and ends; without points there is none.
    """
    figure = new_figure(5.5, 5.5)
    axes = figure.add_subplot()
    if len(across) > MAX_POINTS:
        axes.hexbin(across, up, gridsize=50, cmap="Blues", bins="log", mincnt=1)
    else:
        axes.plot(across, up, "o", markersize=3, alpha=0.5)
    if len(across):
        axes.plot(ends, ends, color="tab:gray", linestyle=":", linewidth=1)
    return figure, axes


def new_figure(width: float, height: float) -> Figure:
    # Not pyplot: it keeps global state, and this runs in a thread.
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure
