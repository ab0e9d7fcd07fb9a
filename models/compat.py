"""All that models take from the private side of Keras and sacreBLEU: no release promises to keep it.

Known to work with Keras 3.15.1 and sacreBLEU 2.6.0. After an upgrade `tests/integration/models/test_private_keras.py` and
`tests/unit/models/test_private_sacrebleu.py` say what of it has changed. It imports nothing, for scores are worked out
without Keras.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import keras


def layers_within(layer: keras.layers.Layer) -> list[keras.layers.Layer]:
    """All layers inside a layer or a model, at any depth: `_flatten_layers` of Keras.

    The public `layers` has those of the first level alone, and a plain layer has none. Without it no noise of an encoder
    would be found whose gradients are computed again, and no encoder inside a Keras model.
    """
    return list(layer._flatten_layers(include_self=False))


def bleu_counts(metric: Any, given: str, reference: str) -> list[int]:
    """Counts of one text, which may be added up over texts: `_extract_corpus_statistics` of sacreBLEU's metrics.

    Its public functions want all texts at once, which Beam and a slice do not have. Without it there would be no BLEU and
    no chrF but of a whole evaluation.
    """
    return metric._extract_corpus_statistics([given], [[reference]])[0]


def bleu_score(metric: Any, sums: list[float]) -> float:
    """The score of such counts, added up: `_compute_score_from_stats` of sacreBLEU's metrics; see `bleu_counts`."""
    return float(metric._compute_score_from_stats(sums).score)
