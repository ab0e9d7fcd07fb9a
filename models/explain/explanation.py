"""An explanation of one answer, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bertline.models.explain.gradients import Integrated
from bertline.models.explain.reading import Reading
from bertline.models.explain.rollout import rollout

_DIGITS = 6


@dataclass(frozen=True, eq=False)
class Attribution:
    """What each word adds to one number of an answer; below 0 it speaks against it."""

    name: str
    """Of the number: a class, a token, a part of the answer."""
    unit: str
    reading: Reading
    found: Integrated

    @property
    def tokens(self) -> np.ndarray:
        """[tokens] of the reading."""
        return self.found.added

    @property
    def words(self) -> np.ndarray:
        """[words] of the reading; their sum is the number's change from the baseline."""
        return self.reading.of_words(self.found.added)

    def to_json(self) -> dict[str, Any]:
        found, reading = self.found, self.reading
        words = zip(reading.words, self.words, strict=True)
        return {
            "of": self.name,
            "unit": self.unit,
            "score": round(found.score, _DIGITS),
            "baseline": round(found.baseline, _DIGITS),
            "error": round(found.error, _DIGITS),
            "complete": found.is_complete,
            "gradients": found.gradients,
            "words": [{**word._asdict(), "added": round(float(added), _DIGITS)} for word, added in words],
            "pieces": list(reading.tokens),
            "pieces_added": _numbers(self.tokens),
        }


@dataclass(frozen=True, eq=False)
class Attention:
    """Where the heads of a stack of layers look."""

    name: str
    """`encoder`; of a translation also `decoder`, to the tokens written before, and `source`, to the tokens read."""
    layers: tuple[np.ndarray, ...]
    """Of each [heads, looking, looked at], where a row sums to 1; of equally many heads unless some were pruned."""
    heads: tuple[tuple[int, ...], ...]
    """The numbers of each layer's heads; pruned ones are left out."""
    looking: tuple[str, ...]
    """Tokens."""
    looked_at: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        layers = [
            {"heads": list(kept), "weights": _numbers(layer)} for kept, layer in zip(self.heads, self.layers, strict=True)
        ]
        return {"looking": list(self.looking), "looked_at": list(self.looked_at), "layers": layers}


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why a model answered as it did."""

    task: str
    answer: str
    """As `bertline predict` shows it."""
    texts: Mapping[str, str]
    """Of the row, by their names."""
    attributions: tuple[Attribution, ...]
    """What each word and token adds, of each number that is explained: two for both ends of an answer, else one."""
    attentions: Mapping[str, Attention]
    """By their names; of what the first attribution's number was read from."""
    notes: tuple[str, ...] = ()
    """What a reader should know of it, in sentences."""

    @property
    def words(self) -> list[str]:
        """Those of the first attribution."""
        return [word.shown for word in self.attributions[0].reading.words]

    @property
    def rollout(self) -> np.ndarray:
        """[tokens, tokens]: how much of each position of the encoder's last layer came from each token."""
        return rollout(self.attentions["encoder"].layers)

    @property
    def alignment(self) -> np.ndarray | None:
        """[written, read]: how much each token of a translation looked at each of the source; None for other tasks.

        All heads of the last but one layer: of the last, they already mix what is to be written next.
        """
        if "source" not in self.attentions:
            return None
        layers = self.attentions["source"].layers
        return layers[max(0, len(layers) - 2)].mean(axis=0)

    def to_json(self, *, attention: bool = False) -> dict[str, Any]:
        """Args: attention: whether the weights of every head are in it, which may be many."""
        found: dict[str, Any] = {
            "task": self.task,
            "answer": self.answer,
            "texts": dict(self.texts),
            "attributions": [attribution.to_json() for attribution in self.attributions],
            "rollout": _numbers(self.rollout),
            "notes": list(self.notes),
        }
        if self.alignment is not None:
            found["alignment"] = _numbers(self.alignment)
        if attention:
            found["attention"] = {name: found_of.to_json() for name, found_of in self.attentions.items()}
        return found


def _numbers(array: np.ndarray) -> list[Any]:
    return np.round(array.astype(np.float64), _DIGITS).tolist()
