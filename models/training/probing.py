"""Linear probing: what a frozen encoder's vectors tell already, learned in seconds before anything is fine-tuned.

It chooses the pooling, and its linear model becomes the head that fine-tuning begins with: from a random head, fine-tuning
first spoils the features that it could have used (Kumar et al. 2022). Where fine-tuning makes nothing better, the model of
the probe is what is left. Poolings and strengths are compared on training examples: no evaluation example chooses here.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bertline.models.data import batching
from bertline.models.heads.pooled import TOGETHER, vectors, width
from bertline.models.tokenization.packing import Sliding
from bertline.pipeline.config import Pooling

MAX_EXAMPLES = 12_000
"""That the probe learns from; more hardly change a linear model, and take minutes."""
_TO_COMPARE = 4_000
_BATCH = 64
_STRENGTHS = (0.003, 0.03, 0.3, 3.0)
_USUAL = 0.3
_HELD_BACK = 0.25


class Linear(NamedTuple):
    """A layer: [hidden, outputs] and [outputs]."""

    kernel: np.ndarray
    bias: np.ndarray


Score = Callable[[np.ndarray, np.ndarray], float]
"""(outputs, targets) -> more is better."""


class Linearly(NamedTuple):
    """How a task is learned by one linear layer."""

    target: str
    """The feature that says what is right."""
    fit: Callable[[np.ndarray, np.ndarray, float, int], Linear]
    """(vectors, targets, strength, outputs) -> the layer; the larger the strength, the less regularised."""
    score: Score
    measure: str
    """What the score is called."""


class Probe(NamedTuple):
    pooling: Pooling
    layer: Linear
    scores: Mapping[Pooling, float]
    """Of each pooling, on training examples that it has not seen."""
    examples: int


def probe(
    encoder: Any,
    rows: batching.Corpus,
    linearly: Linearly,
    outputs: int,
    *,
    poolings: Sequence[Pooling] = TOGETHER,
    sliding: Sliding | None = None,
    seed: int = 0,
) -> Probe | None:
    """Learns the head; None where there is too little to compare by.

    Args:
      poolings: to choose from.
      sliding: the windows that a long text is read in, if it is.
      seed: of which examples are taken where there are more than enough, and of which the poolings are compared by.
    """
    order = np.random.default_rng(seed).permutation(len(rows))[:MAX_EXAMPLES]
    chosen = np.zeros(len(rows), bool)
    chosen[order] = True
    rows = rows.where(chosen)
    targets = rows.targets[linearly.target]
    vectors = {name: _scaled(found) for name, found in vectors_of(encoder, rows, poolings, sliding).items()}
    shuffled = np.random.default_rng(seed + 1).permutation(len(rows))[:_TO_COMPARE]
    back = int(len(shuffled) * _HELD_BACK)
    seen, unseen = shuffled[back:], shuffled[:back]
    if len(unseen) < 10 or len(np.unique(targets[seen], axis=0)) < 2:
        return None

    def score(pooling: Pooling, strength: float) -> float:
        found, _ = vectors[pooling]
        layer = linearly.fit(found[seen], targets[seen], strength, outputs)
        return linearly.score(found[unseen] @ layer.kernel + layer.bias, targets[unseen])

    scores = {name: score(name, _USUAL) for name in vectors}
    best = max(scores, key=lambda name: scores[name])
    by_strength = {strength: score(best, strength) for strength in _STRENGTHS}
    strength = max(by_strength, key=lambda value: by_strength[value])
    found, (mean, deviation) = vectors[best]
    layer = linearly.fit(found, targets, strength, outputs)
    kernel = layer.kernel / deviation[:, np.newaxis]  # so that it reads the vectors as the encoder gives them
    whole = Linear(kernel.astype(np.float32), (layer.bias - mean @ kernel).astype(np.float32))
    return Probe(best, whole, {**scores, best: max(by_strength.values())}, len(rows))


def vectors_of(
    encoder: Any, rows: batching.Corpus, poolings: Sequence[Pooling], sliding: Sliding | None = None
) -> dict[Pooling, np.ndarray]:
    """The vector of each row by each pooling: [rows, its width]."""

    @tf.function(reduce_retracing=True, autograph=False)
    def pooled(batch: dict[str, tf.Tensor]) -> dict[Pooling, tf.Tensor]:
        return vectors(encoder, batch, poolings, sliding)

    buckets = range(8, 513, 8)
    planned = batching.plan(rows.lengths, _BATCH, tuple(buckets), seed=None)
    plain = batching.Corpus(rows.values, rows.starts, {}, rows.others)
    found = {name: np.zeros((len(rows), width(name, encoder.size.hidden)), np.float32) for name in poolings}
    for batch, places in zip(batching.batches(plain, planned, None), planned, strict=True):
        given = {name: batch[name] for name in ("token_ids", "segment_ids", "mask") if name in batch}
        for name, values in pooled(given).items():
            found[name][places.rows] = values.numpy()[: len(places.rows)]
    return found


def _scaled(vectors: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """Each number by its own spread, or the regularisation would weigh them by their scales."""
    mean, deviation = vectors.mean(axis=0), vectors.std(axis=0) + 1e-6
    return (vectors - mean) / deviation, (mean, deviation)


def _classes(vectors: np.ndarray, targets: np.ndarray, strength: float, outputs: int) -> Linear:
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=strength / vectors.shape[1] * 10, max_iter=200, tol=1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it could go on: a head to begin with need not be the very best
        model.fit(vectors, targets)
    return layer_of(model, outputs)


def layer_of(model: Any, outputs: int) -> Linear:
    """What scikit-learn has learned of classes, as a layer whose softmax gives its probabilities."""
    kernel, bias = np.zeros((model.coef_.shape[1], outputs)), np.full(outputs, -20.0)  # of classes that no example has
    if len(model.classes_) == 2:  # one score, for the second
        first, second = model.classes_
        kernel[:, second], kernel[:, first] = model.coef_[0] / 2, -model.coef_[0] / 2
        bias[second], bias[first] = model.intercept_[0] / 2, -model.intercept_[0] / 2
        return Linear(kernel, bias)
    kernel[:, model.classes_], bias[model.classes_] = model.coef_.T, model.intercept_
    return Linear(kernel, bias)


def _flags(vectors: np.ndarray, targets: np.ndarray, strength: float, outputs: int) -> Linear:
    from sklearn.linear_model import LogisticRegression

    kernel, bias = np.zeros((vectors.shape[1], outputs)), np.zeros(outputs)
    for place in range(outputs):
        flags = targets[:, place]
        if len(np.unique(flags)) < 2:
            bias[place] = 20.0 if flags.all() else -20.0
            continue
        model = LogisticRegression(C=strength / vectors.shape[1] * 10, max_iter=200, tol=1e-3).fit(vectors, flags)
        kernel[:, place], bias[place] = model.coef_[0], model.intercept_[0]
    return Linear(kernel, bias)


def _number(vectors: np.ndarray, targets: np.ndarray, strength: float, outputs: int) -> Linear:
    from sklearn.linear_model import Ridge

    model = Ridge(alpha=vectors.shape[1] / strength).fit(vectors, targets)
    return Linear(model.coef_[:, np.newaxis], np.asarray([model.intercept_]))


def _right(outputs: np.ndarray, targets: np.ndarray) -> float:
    return float((outputs.argmax(axis=1) == targets).mean())


def _likely(outputs: np.ndarray, targets: np.ndarray) -> float:
    """The mean log-likelihood of all flags: where most are 0, counting the right ones says little."""
    return float(-np.logaddexp(0, np.where(targets > 0, -outputs, outputs)).mean())


def _near(outputs: np.ndarray, targets: np.ndarray) -> float:
    """R²: 1 where nothing is missing, 0 for what the mean alone explains."""
    return float(1 - np.square(outputs[:, 0] - targets).mean() / max(1e-12, targets.var()))


CLASSES = Linearly("label_id", _classes, _right, "accuracy")
FLAGS = Linearly("label_flags", _flags, _likely, "log-likelihood")
NUMBER = Linearly("label_value", _number, _near, "R²")
