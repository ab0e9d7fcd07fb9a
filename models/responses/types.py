"""What a served model's answers mean: each task's tensors as a value in the user's terms, which `str` shows to a person.

It imports no TensorFlow, so that a client of a server can have it in a moment. A `Kind` is what a signature shows of its
task: two tasks that answer alike name the same one (`Serving.response`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bertline.models.responses.base import Answer, Given, Kind, on_one_line, text_of
from bertline.models.responses.translation import ALIGNED, SAMPLED, TRANSLATED

EMBED = "embed"
"""The signature that gives the vector of a text."""
_SHOWN_CLASSES = 5
_SHOWN_OTHERS = 3


def _shares(given: Given) -> dict[str, float]:
    pairs = zip(given["classes"], given["probabilities"], strict=True)
    return {text_of(name): float(share) for name, share in pairs}


def listed(shares: Mapping[str, float], most: int) -> str:
    """The likeliest first."""
    ranked = sorted(((share, name) for name, share in shares.items()), reverse=True)
    return "  ".join(f"{name} {share:.3f}" for share, name in ranked[:most])


@dataclass(frozen=True)
class Classified(Answer):
    label: str
    """A class; or, where the model abstains, that it is none of these."""
    probabilities: Mapping[str, float]
    """Of each class, by its name."""

    @classmethod
    def of(cls, given: Given) -> Classified:
        return cls(text_of(given["label"]), _shares(given))

    @property
    def abstained(self) -> bool:
        """Whether the model was not confident enough to name a class; the probabilities are there all the same."""
        return self.label not in self.probabilities

    def __str__(self) -> str:
        return self.shown(_SHOWN_CLASSES)

    def shown(self, most: int) -> str:
        """The likeliest classes; before them what is answered, where that is not the first of them."""
        likely = listed(self.probabilities, most)
        if self.abstained:
            return f"{self.label}; the likeliest is {likely}"
        share = self.probabilities[self.label]
        if any(other > share for other in self.probabilities.values()):
            return f"{self.label} {share:.3f}, by its threshold; all: {likely}"
        return likely


@dataclass(frozen=True)
class MultiClassified(Answer):
    labels: tuple[str, ...]
    """Classes that are likelier than not, the likeliest first."""
    probabilities: Mapping[str, float]
    """Of each class, by its name; they do not add up to 1."""

    @classmethod
    def of(cls, given: Given) -> MultiClassified:
        """As many labels as there are: only a tensor has to be filled up."""
        return cls(tuple(text_of(name) for name in given["labels"] if name), _shares(given))

    def __str__(self) -> str:
        named = {name: self.probabilities[name] for name in self.labels}
        return listed(named, len(named)) or f"none; the nearest is {listed(self.probabilities, 1)}"


def _plain_multi(given: Given) -> dict[str, Any]:
    found = MultiClassified.of(given)
    shares = found.probabilities
    return {"labels": list(found.labels), "classes": list(shares), "probabilities": list(shares.values())}


@dataclass(frozen=True)
class Number(Answer):
    value: float

    @classmethod
    def of(cls, given: Given) -> Number:
        return cls(float(given["value"]))

    def __str__(self) -> str:
        return f"{self.value:.3f}"


@dataclass(frozen=True)
class Similar(Answer):
    similarity: float
    """The cosine of the two texts' vectors."""

    @classmethod
    def of(cls, given: Given) -> Similar:
        return cls(float(given["similarity"]))

    def __str__(self) -> str:
        return f"{self.similarity:.3f}"


@dataclass(frozen=True)
class Chosen(Answer):
    index: int
    """Of the choice, counted from 0; -1 where there was nothing to choose from."""
    choice: str
    probabilities: tuple[float, ...]
    """Of each choice, in the order in which they were given; 0 for what fills a row up."""

    @classmethod
    def of(cls, given: Given) -> Chosen:
        return cls(int(given["index"]), text_of(given["choice"]), tuple(map(float, given["probabilities"])))

    def __str__(self) -> str:
        if self.index < 0:
            return "there is nothing to choose from"
        shares = [f"{share:.3f}" for share in self.probabilities]
        return f"{self.choice}  {shares[self.index]}  (number {self.index + 1}; all: {'  '.join(shares)})"


@dataclass(frozen=True)
class Entity:
    type: str
    text: str
    start: int
    """In characters as Python counts them: `asked[start:end]` is the entity."""
    end: int
    probability: float

    def __str__(self) -> str:
        """`Ada Lovelace PER 0.98  [0:12]`, on one line whatever the text holds."""
        return f"{on_one_line(self.text)} {self.type} {self.probability:.2f}  [{self.start}:{self.end}]"


@dataclass(frozen=True)
class Tagged(Answer):
    entities: tuple[Entity, ...]
    """In the order of the text."""

    @classmethod
    def of(cls, given: Given) -> Tagged:
        """As many entities as there are: behind them a tensor is filled up to the longest answer of its batch."""
        columns = (given[name][: int(given["count"])] for name in ("types", "entities", "starts", "ends", "probabilities"))
        return cls(
            tuple(
                Entity(text_of(kind), text_of(text), int(start), int(end), float(share))
                for kind, text, start, end, share in zip(*columns, strict=True)
            )
        )

    def __str__(self) -> str:
        return "   |   ".join(map(str, self.entities)) or "no entities"


@dataclass(frozen=True)
class Span:
    text: str
    """Empty: that there is no answer."""
    start: int
    """In characters as Python counts them: `context[start:end]` is the text."""
    end: int
    score: float

    def __str__(self) -> str:
        return f"{on_one_line(self.text) or '(no answer)'} {self.score:.3f}"


@dataclass(frozen=True)
class SpanAnswer(Answer):
    """The answer to a question about a text."""

    text: str
    """Empty: there is none."""
    start: int
    """In characters as Python counts them: `context[start:end]` is the text."""
    end: int
    score: float
    """The answer's share among the best ones."""
    margin: float
    """By how much no answer is better than the best one."""
    n_best: tuple[Span, ...]

    @classmethod
    def of(cls, given: Given) -> SpanAnswer:
        """Places left over among the n best have the score 0."""
        columns = (given[name] for name in ("n_best", "n_best_starts", "n_best_ends", "n_best_scores"))
        best = tuple(
            Span(text_of(text), int(start), int(end), float(score))
            for text, start, end, score in zip(*columns, strict=True)
            if score > 0
        )
        place = int(given["start"]), int(given["end"])
        return cls(text_of(given["answer"]), *place, float(given["score"]), float(given["margin"]), best)

    def __str__(self) -> str:
        place = f"  at {self.start}-{self.end}" if self.text else ""
        others = [str(other) for other in self.n_best if other.text != self.text][:_SHOWN_OTHERS]
        behind = f"   |   {'  '.join(others)}" if others else ""
        return f"{on_one_line(self.text) or '(no answer)'}  {self.score:.3f}{place}{behind}"


@dataclass(frozen=True)
class Filling:
    piece: str
    probability: float

    def __str__(self) -> str:
        return f"{self.piece} {self.probability:.3f}"


@dataclass(frozen=True)
class Filled(Answer):
    masks: tuple[tuple[Filling, ...], ...]
    """Of each [MASK] the likeliest pieces, the likeliest first."""

    @classmethod
    def of(cls, given: Given) -> Filled:
        """As many masks as the text has: behind them a tensor is filled up with shares of 0."""
        return cls(
            tuple(
                tuple(Filling(text_of(piece), float(share)) for piece, share in zip(pieces, shares, strict=True))
                for pieces, shares in zip(given["fillings"], given["probabilities"], strict=True)
                if shares[0] > 0
            )
        )

    def __str__(self) -> str:
        shown = ("  ".join(map(str, fillings)) for fillings in self.masks)
        return "   |   ".join(shown) or "there is no [MASK] in the text"


@dataclass(frozen=True, eq=False)  # numpy compares element by element
class Embedded(Answer):
    vector: np.ndarray

    @classmethod
    def of(cls, given: Given) -> Embedded:
        return cls(np.asarray(given["vector"]))

    def __str__(self) -> str:
        return " ".join(f"{part:.4f}" for part in self.vector)


CLASSIFIED = Kind(
    call="classify",
    outputs=("label", "probabilities", "classes"),
    read=Classified.of,
)
MULTI_CLASSIFIED = Kind(
    call="classes",
    outputs=("labels", "probabilities", "classes"),
    read=MultiClassified.of,
    plain=_plain_multi,
)
NUMBER = Kind(call="regress", outputs=("value",), read=Number.of)
SIMILAR = Kind(call="similarity", optional=(), outputs=("similarity",), read=Similar.of)
CHOSEN = Kind(
    call="choose",
    inputs=("text", "text_2", "choices"),
    outputs=("index", "choice", "probabilities"),
    read=Chosen.of,
)
TAGGED = Kind(
    call="tag",
    inputs=("text",),
    outputs=("entities", "types", "starts", "ends", "probabilities", "count"),
    read=Tagged.of,
    plain=lambda given: {"entities": [asdict(entity) for entity in Tagged.of(given).entities]},
)
SPAN_ANSWER = Kind(
    call="answer",
    inputs=("question", "context"),
    outputs=(
        "answer", "start", "end", "score", "margin", "n_best", "n_best_scores", "n_best_starts", "n_best_ends",
    ),
    read=SpanAnswer.of,
)  # fmt: skip
FILLED = Kind(call="fill_mask", inputs=("text",), outputs=("fillings", "probabilities"), read=Filled.of)
EMBEDDED = Kind(call="embed", signature=EMBED, inputs=("text",), outputs=("vector",), read=Embedded.of)

KINDS: tuple[Kind[Any], ...] = (
    CLASSIFIED, MULTI_CLASSIFIED, NUMBER, SIMILAR, CHOSEN, TAGGED, SPAN_ANSWER, FILLED, EMBEDDED, TRANSLATED, SAMPLED,
    ALIGNED,
)  # fmt: skip
