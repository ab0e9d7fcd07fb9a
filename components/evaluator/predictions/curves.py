"""Curves of shares against what is true, as numbers: scikit-learn's, without scikit-learn."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

BINS = 10


class Curve(NamedTuple):
    """A line, and the area that it stands for."""

    x: np.ndarray
    y: np.ndarray
    area: float


class Calibration(NamedTuple):
    """Shares in bins of equal width, beside how often they were right."""

    counts: np.ndarray
    confidence: np.ndarray
    """Mean probability of each bin; NaN for an empty one."""
    accuracy: np.ndarray
    error: float
    """The expected calibration error: how far the two are apart, in the mean over all probabilities."""


def roc(true: np.ndarray, probabilities: np.ndarray) -> Curve:
    """Fraction of the wrong ones that are taken (x) by fraction of the right ones that are (y), as the threshold falls.

    Args:
      true, probabilities: [rows] of one class, which is true of some of them and not of others.
    """
    hits, false = _falling(true, probabilities)
    x, y = np.concatenate([[0], false / false[-1]]), np.concatenate([[0], hits / hits[-1]])
    return Curve(x, y, float(np.trapz(y, x)))


def precision_recall(true: np.ndarray, probabilities: np.ndarray) -> Curve:
    """Fraction of the right ones that are taken (x) by how many of those taken are right (y), as the threshold falls.

    The area is the average precision: steps, not slopes, which would promise what no threshold gives.
    """
    hits, false = _falling(true, probabilities)
    recall, precision = hits / hits[-1], hits / (hits + false)
    area = float(np.sum(np.diff(recall, prepend=0) * precision))
    return Curve(np.concatenate([[0], recall]), np.concatenate([[1], precision]), area)


def _falling(true: np.ndarray, probabilities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How many right and wrong ones have at least each of the probabilities that occur, the highest first."""
    order = np.argsort(-probabilities, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(probabilities[order])), len(order) - 1)
    hits = np.cumsum(true[order] > 0)[ends]
    return hits, ends + 1 - hits


def mean_curve(curves: list[Curve]) -> Curve:
    """The mean of the lines at equal steps, and of their areas: every class counts the same."""
    x = np.linspace(0, 1, 201)
    return Curve(
        x, np.mean([np.interp(x, curve.x, curve.y) for curve in curves], axis=0), float(np.mean([c.area for c in curves]))
    )


def calibration(probabilities: np.ndarray, right: np.ndarray) -> Calibration:
    """Args: probabilities: of answers; right: whether they were."""
    bins = np.clip(np.ceil(probabilities * BINS).astype(int) - 1, 0, BINS - 1)  # (0, 0.1], (0.1, 0.2], ...
    counts = np.bincount(bins, minlength=BINS)
    some = np.where(counts, counts, np.nan)
    confidence, accuracy = (np.bincount(bins, values, BINS) / some for values in (probabilities, right))
    error = float(np.nansum(counts * np.abs(confidence - accuracy)) / max(1, len(probabilities)))
    return Calibration(counts, confidence, accuracy, error)
