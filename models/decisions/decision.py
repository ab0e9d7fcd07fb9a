"""How probabilities become an answer: the one rule that the served graph, the metrics and the plots of a model share.

It imports no TensorFlow: the graph says the same in its own words (`models/decisions/graph.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

TEMPERATURE, THRESHOLD, CONFIDENCE = "temperature", "threshold", "confidence"
"""Names of what is tuned after a training, see `Context.tuned`."""
EVEN = 0.5
"""The threshold of a model that none was tuned for."""
NONE = "none of these"
"""What is answered in place of a class where the model abstains."""


@dataclass(frozen=True)
class Decision:
    """By default the likeliest class, and each of several labels that is likelier than not."""

    positive: int = -1
    """The place of the positive class of two; the last one, where a model does not say."""
    threshold: float | None = None
    """Of two classes, the probability of the positive one above which it is answered; of several labels, that of each."""
    confidence: float | None = None
    """The probability of the answer below which none of the classes is answered."""
    temperature: float = 1.0
    """By which the logits were divided before they became probabilities."""

    @classmethod
    def of(cls, labels: Sequence[str], positive: str | None, tuned: Mapping[str, float]) -> Decision:
        """Args: positive: the class of that name; tuned: what was tuned after the training."""
        return cls(
            positive=list(labels).index(positive) if positive is not None and positive in labels else -1,
            threshold=tuned.get(THRESHOLD),
            confidence=tuned.get(CONFIDENCE),
            temperature=tuned.get(TEMPERATURE, 1.0),
        )

    @classmethod
    def of_metadata(cls, metadata: Mapping[str, Any]) -> Decision:
        """Of a model that has been exported, by what it says of itself; an older one says less."""
        return cls.of(metadata.get("labels", ()), metadata.get("positive"), metadata.get("tuned", {}))

    def looking_for(self, positive: int) -> Decision:
        """The same answers, where another one of two classes is called the positive one."""
        if positive % 2 == self.positive % 2:
            return self
        return replace(self, positive=positive, threshold=None if self.threshold is None else 1 - self.threshold)

    def classes(self, probabilities: np.ndarray) -> np.ndarray:
        """[examples, classes] -> [examples] ids of the classes that are answered where the model does not abstain."""
        if self.threshold is None or probabilities.shape[1] != 2:
            return probabilities.argmax(axis=1)
        positive = self.positive % 2
        return np.where(probabilities[:, positive] > np.float32(self.threshold), positive, 1 - positive)

    def flags(self, probabilities: np.ndarray) -> np.ndarray:
        """Which of several labels are answered; of any shape."""
        return probabilities > np.float32(EVEN if self.threshold is None else self.threshold)

    def is_confident(self, probabilities: np.ndarray) -> np.ndarray:
        """[examples, classes] -> [examples] whether a class is answered, and not none."""
        answered = probabilities[np.arange(len(probabilities)), self.classes(probabilities)]
        return np.ones(len(answered), bool) if self.confidence is None else answered >= np.float32(self.confidence)


LIKELIEST = Decision()
