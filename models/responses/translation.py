"""What a served model of the task translation answers: translations, and what each of their tokens looked at."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from bertline.models.responses.base import Answer, Given, ResponseSpec, on_one_line, plain, text_of
from bertline.models.tokenization.joiner import JOINER
from bertline.pipeline.core.errors import BertlineError

SAMPLE = "sample"
"""The signature that draws a translation by chance."""
ALIGN = "align"
"""The signature that says which tokens of the source each token of the translation looked at."""
_NOTHING = "(nothing)"
_ALL_TOKENS = (1 << 31) - 1


class Translation(NamedTuple):
    text: str
    score: float
    """Its log-probability, divided by what the model makes of its length: 0 at most, and higher is better."""


@dataclass(frozen=True)
class Translated(Answer):
    text: str
    score: float
    n_best: tuple[Translation, ...]
    """The best ones that were found, the best first; `text` and `score` are the first's."""

    @classmethod
    def of(cls, given: Given) -> Translated:
        best = Translation(text_of(given["translation"]), float(given["score"]))
        if "n_best" not in given:  # one that was drawn has no others beside it
            return cls(*best, (best,))
        places = zip(given["n_best"], given["n_best_scores"], strict=True)
        found = [Translation(text_of(text), float(score)) for text, score in places]
        return cls(*best, tuple(one for at, one in enumerate(found) if _is_one(at, one)))

    def __str__(self) -> str:
        """The translation alone: a file that is piped through has as many lines as before."""
        return on_one_line(self.text)

    def listed(self, limit: int) -> str:
        """The best ones with their scores, one a line."""
        return "\n".join(f"{score:8.3f}  {on_one_line(text) or _NOTHING}" for text, score in self.n_best[:limit])


def _is_one(at: int, found: Translation) -> bool:
    """Places left over have the score -inf, or are what a client fills rows up with: an empty text and 0."""
    return not np.isneginf(found.score) and (at == 0 or found != ("", 0.0))


@dataclass(frozen=True, eq=False)  # numpy compares element by element
class Aligned(Answer):
    text: str
    source: tuple[str, ...]
    """Tokens that the model read."""
    target: tuple[str, ...]
    """Tokens that it wrote."""
    weights: np.ndarray
    """[target, source]: how much each token of the translation looked at each one of the source."""

    @classmethod
    def of(cls, given: Given) -> Aligned:
        """Without what fills the rows of a batch up: empty tokens, and zeros."""
        source, target = (_tokens(given[name]) for name in ("source_pieces", "target_pieces"))
        weights = np.asarray(given["alignment"])[: len(target), : len(source)]
        return cls(text_of(given["translation"]), source, target, weights)

    def strongest(self) -> list[tuple[str, str, float]]:
        """Of each token of the translation the one of the source that it looked at most, and how much."""
        if not self.source:
            return [(token, _NOTHING, 0.0) for token in self.target]
        at = self.weights.argmax(axis=1)
        pairs = zip(self.target, at, strict=True)
        return [(token, self.source[of], float(self.weights[row, of])) for row, (token, of) in enumerate(pairs)]

    def __str__(self) -> str:
        width = max((len(_shown(token)) for token in self.target), default=0)
        lines = [
            f"  {_shown(token):<{width}}  {_shown(source)}  {weight:.3f}" for token, source, weight in self.strongest()
        ]
        return "\n".join([on_one_line(self.text) or _NOTHING, *lines])


def _shown(token: str) -> str:
    """Without the mark of where there was no space, which no person wrote."""
    return token.replace(JOINER, "") or token


def _tokens(given: Any) -> tuple[str, ...]:
    count = max((at for at, token in enumerate(given, 1) if token), default=0)
    return tuple(text_of(token) for token in given[:count])


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How a translation is drawn by chance, token by token."""

    temperature: float = 1.0
    """Below 1 the likely tokens are drawn more often than the model says, and above 1 the unlikely ones."""
    top_k: int = 0
    """Only so many of the likeliest tokens are drawn from; 0: from all."""
    top_p: float = 1.0
    """Only the likeliest tokens are drawn from that have so much of the probability together; 1: all."""
    seed: int | None = None
    """The same text and seed are translated alike, whatever is asked beside them; None: each text draws one of its own."""

    def __post_init__(self) -> None:
        is_possible = 0 < self.temperature < np.inf and 0 <= self.top_k <= _ALL_TOKENS and 0 < self.top_p <= 1
        if not is_possible or not -(1 << 63) <= (self.seed or 0) < 1 << 63:
            rule = "temperature is above 0, top_k 0 or more, top_p above 0 and 1 at most, and a seed has 64 bits"
            raise ValueError(f"{rule}. Received: {self}")

    def numbers(self) -> dict[str, Any]:
        """What one row is asked with beside its text."""
        seed = secrets.randbits(63) if self.seed is None else self.seed
        values = {"temperature": self.temperature, "top_k": self.top_k, "top_p": self.top_p, "seed": seed}
        return {name: np.dtype(SAMPLED.numbers[name]).type(value) for name, value in values.items()}


def _plain_best(given: Given) -> dict[str, Any]:
    return {"translation": text_of(given["translation"]), "score": float(given["score"])}


def _plain_aligned(given: Given) -> dict[str, Any]:
    found = Aligned.of(given)
    tokens = {"source_pieces": list(found.source), "target_pieces": list(found.target)}
    return {"translation": found.text, **tokens, "alignment": plain(found.weights)}


TRANSLATED = ResponseSpec(
    call="translate",
    inputs=("text",),
    optional=(),
    outputs=("translation", "score", "n_best", "n_best_scores"),
    read=Translated.of,
    plain=_plain_best,
)
SAMPLED = ResponseSpec(
    call="translate",
    signature=SAMPLE,
    inputs=("text",),
    optional=(),
    numbers={"temperature": "float32", "top_k": "int32", "top_p": "float32", "seed": "int64"},
    outputs=("translation", "score"),
    read=Translated.of,
    plain=_plain_best,
)
ALIGNED = ResponseSpec(
    call="align",
    signature=ALIGN,
    inputs=("text",),
    optional=(),
    outputs=("translation", "source_pieces", "target_pieces", "alignment"),
    read=Aligned.of,
    plain=_plain_aligned,
)


def n_best(limit: int) -> ResponseSpec[Translated]:
    """TRANSLATED, with more of what the model gives: up to so many translations, for a person and in JSON."""

    def read(given: Given) -> Translated:
        if (has := len(given["n_best"])) < limit:
            raise BertlineError(
                f"--n-best {limit}: this model gives {f'its {has} best' if has > 1 else 'the best alone'}; a run with"
                f" translation.n_best={limit} exports more of what its search finds."
            )
        return Translated.of(given)

    def with_others(given: Given) -> dict[str, Any]:
        best = read(given).n_best[:limit]
        return {**_plain_best(given), "n_best": [one.text for one in best], "n_best_scores": [one.score for one in best]}

    return replace(TRANSLATED, read=read, show=lambda found: found.listed(limit), plain=with_others)
