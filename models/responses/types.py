"""What a served model's answers mean: each task's tensors as a value in the user's terms, which `str` shows to a person.

It imports no TensorFlow, so that a client of a server can have it in a moment. A `ResponseSpec` is what a signature shows
of its
task: two tasks that answer alike name the same one (`Serving.response`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bertline.models.responses.base import Answer, Given, ResponseSpec, on_one_line, text_of
from bertline.models.responses.translation import ALIGNED, SAMPLED, TRANSLATED

EMBED = "embed"
"""The signature that gives the vector of a text."""
_SHOWN_CLASSES = 5
_SHOWN_OTHERS = 3


def _probabilities(given: Given) -> dict[str, float]:
    pairs = zip(given["classes"], given["probabilities"], strict=True)
    return {text_of(name): float(probability) for name, probability in pairs}


def listed(probabilities: Mapping[str, float], limit: int) -> str:
    """The likeliest first."""
    ranked = sorted(((probability, name) for name, probability in probabilities.items()), reverse=True)
    return "  ".join(f"{name} {probability:.3f}" for probability, name in ranked[:limit])


@dataclass(frozen=True)
class Classified(Answer):
    label: str
    """A class; or, where the model abstains, that it is none of these."""
    probabilities: Mapping[str, float]
    """Of each class, by its name."""

    @classmethod
    def of(cls, given: Given) -> Classified:
        return cls(text_of(given["label"]), _probabilities(given))

    @property
    def abstained(self) -> bool:
        """Whether the model was not confident enough to name a class; the probabilities are there all the same."""
        return self.label not in self.probabilities

    def __str__(self) -> str:
        return self.shown(_SHOWN_CLASSES)

    def shown(self, limit: int) -> str:
        """The likeliest classes; before them what is answered, where that is not the first of them."""
        likely = listed(self.probabilities, limit)
        if self.abstained:
            return f"{self.label}; the likeliest is {likely}"
        probability = self.probabilities[self.label]
        if any(other > probability for other in self.probabilities.values()):
            return f"{self.label} {probability:.3f}, by its threshold; all: {likely}"
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
        return cls(tuple(text_of(name) for name in given["labels"] if name), _probabilities(given))

    def __str__(self) -> str:
        named = {name: self.probabilities[name] for name in self.labels}
        return listed(named, len(named)) or f"none; the nearest is {listed(self.probabilities, 1)}"


def _plain_multi(given: Given) -> dict[str, Any]:
    found = MultiClassified.of(given)
    probabilities = found.probabilities
    return {"labels": list(found.labels), "classes": list(probabilities), "probabilities": list(probabilities.values())}


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
        probabilities = [f"{probability:.3f}" for probability in self.probabilities]
        return f"{self.choice}  {probabilities[self.index]}  (number {self.index + 1}; all: {'  '.join(probabilities)})"


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
                Entity(text_of(kind), text_of(text), int(start), int(end), float(probability))
                for kind, text, start, end, probability in zip(*columns, strict=True)
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
class MaskPrediction:
    token: str
    probability: float

    def __str__(self) -> str:
        return f"{self.token} {self.probability:.3f}"


@dataclass(frozen=True)
class Filled(Answer):
    masks: tuple[tuple[MaskPrediction, ...], ...]
    """Of each [MASK] the likeliest tokens, the likeliest first."""

    @classmethod
    def of(cls, given: Given) -> Filled:
        """As many masks as the text has: behind them a tensor is filled up with probabilities of 0."""
        return cls(
            tuple(
                tuple(
                    MaskPrediction(text_of(token), float(probability))
                    for token, probability in zip(tokens, probabilities, strict=True)
                )
                for tokens, probabilities in zip(given["fillings"], given["probabilities"], strict=True)
                if probabilities[0] > 0
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


CLASSIFIED = ResponseSpec(
    call="classify",
    outputs=("label", "probabilities", "classes"),
    read=Classified.of,
)
MULTI_CLASSIFIED = ResponseSpec(
    call="classes",
    outputs=("labels", "probabilities", "classes"),
    read=MultiClassified.of,
    plain=_plain_multi,
)
NUMBER = ResponseSpec(call="regress", outputs=("value",), read=Number.of)
SIMILAR = ResponseSpec(call="similarity", optional=(), outputs=("similarity",), read=Similar.of)
CHOSEN = ResponseSpec(
    call="choose",
    inputs=("text", "text_2", "choices"),
    outputs=("index", "choice", "probabilities"),
    read=Chosen.of,
)
TAGGED = ResponseSpec(
    call="tag",
    inputs=("text",),
    outputs=("entities", "types", "starts", "ends", "probabilities", "count"),
    read=Tagged.of,
    plain=lambda given: {"entities": [asdict(entity) for entity in Tagged.of(given).entities]},
)
SPAN_ANSWER = ResponseSpec(
    call="answer",
    inputs=("question", "context"),
    outputs=(
        "answer", "start", "end", "score", "margin", "n_best", "n_best_scores", "n_best_starts", "n_best_ends",
    ),
    read=SpanAnswer.of,
)  # fmt: skip
FILLED = ResponseSpec(call="fill_mask", inputs=("text",), outputs=("fillings", "probabilities"), read=Filled.of)
EMBEDDED = ResponseSpec(call="embed", signature=EMBED, inputs=("text",), outputs=("vector",), read=Embedded.of)

KINDS: tuple[ResponseSpec[Any], ...] = (
    CLASSIFIED, MULTI_CLASSIFIED, NUMBER, SIMILAR, CHOSEN, TAGGED, SPAN_ANSWER, FILLED, EMBEDDED, TRANSLATED, SAMPLED,
    ALIGNED,
)  # fmt: skip
