"""What became of each evaluation example, in words: what was expected, what the model answered, and how bad that is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from bertline.components.evaluator.predictions.rows import EvaluationPredictions, Texts, shared
from bertline.models.data import tag_schemes
from bertline.models.decisions.decision import NONE
from bertline.models.metrics import squad as answer_scores
from bertline.models.metrics.accumulators import FAMILIES
from bertline.models.metrics.retrieval import ranks
from bertline.models.metrics.scores import entity_score, places_in_order
from bertline.models.metrics.translation import sentence_chrf
from bertline.models.tasks.base.task import get_task
from bertline.pipeline.config import CHOICES, TEXT_KEYS
from bertline.pipeline.core.errors import BertlineError

_NOTHING = "(nothing)"
_CHUNK = 1024
"""Questions that are compared with all candidates at once."""


class Outcome(NamedTuple):
    """What became of one row."""

    right: bool | None
    """None where an answer is not right or wrong, or where the row has no label."""
    badness: float
    """0 for the best answer, and more for a worse one."""
    expected: str
    answered: str


class Mistake(NamedTuple):
    """A row with its texts."""

    id: str
    texts: Texts
    outcome: Outcome


class Flip(NamedTuple):
    """A row of which two models answered otherwise."""

    id: str
    texts: Texts
    before: Outcome
    after: Outcome


class Flips(NamedTuple):
    """Rows that another model made worse or better, those that changed most first.

    Right answers that became wrong and wrong ones that became right; where answers are not right or wrong, all whose
    badness rose or fell.
    """

    worse: list[Flip]
    better: list[Flip]


def outcomes(rows: EvaluationPredictions) -> list[Outcome]:
    """Of each row, in their order."""
    task = rows.description.task
    of_task = get_task(task).evaluation.outcomes
    if of_task is None:
        raise BertlineError(f"outcomes of the task {task} are not known; its Evaluation names no function for them.")
    measured = next(iter(rows.description.metrics.values()))
    counted = rows.weight(measured.output) > 0
    return [
        outcome if weighs else Outcome(None, 0.0, "(no label)", outcome.answered)
        for outcome, weighs in zip(of_task(rows), counted, strict=True)
    ]


def worst(rows: EvaluationPredictions, limit: int) -> list[Mistake]:
    """The worst answers, the worst first; where answers are right or wrong, only wrong ones."""
    found = outcomes(rows)
    bad = [row for row, outcome in enumerate(found) if outcome.badness > 0 and outcome.right is not True]
    bad.sort(key=lambda row: -found[row].badness)
    some = rows.take(bad[:limit])
    names_and_texts = zip(some.ids, some.texts, strict=True)
    return [Mistake(*named, found[row]) for row, named in zip(bad, names_and_texts, strict=False)]


def flips(one: EvaluationPredictions, other: EvaluationPredictions) -> Flips:
    """What the other model answers better or worse than the one, on the rows that both have seen."""
    one, other = shared(one, other)
    worse: list[tuple[float, int]] = []
    better: list[tuple[float, int]] = []
    before, after = outcomes(one), outcomes(other)
    for row, (was, became) in enumerate(zip(before, after, strict=True)):
        change = became.badness - was.badness
        if was.right is None or became.right is None:
            if change:
                (worse if change > 0 else better).append((abs(change), row))
        elif was.right != became.right:
            (worse if was.right else better).append((abs(change), row))

    def listed(changes: list[tuple[float, int]]) -> list[Flip]:
        order = [row for _, row in sorted(changes, key=lambda found: (-found[0], found[1]))]
        some = one.take(order)
        return [
            Flip(name, texts, before[row], after[row]) for row, name, texts in zip(order, some.ids, some.texts, strict=True)
        ]

    return Flips(listed(worse), listed(better))


def of_classes(rows: EvaluationPredictions) -> Iterable[Outcome]:
    names, probabilities = rows.description.labels, rows.prediction()
    decision = rows.description.decision
    columns = (rows.label(), decision.classes(probabilities), decision.is_confident(probabilities), probabilities)
    for label, answer, is_confident, row in zip(*columns, strict=True):
        said = f"{names[answer]} {row[answer]:.2f}"
        said = said if is_confident else f"{NONE} (the likeliest is {said})"
        yield Outcome(bool(label == answer), 1 - float(row[label]), names[label], said)


def of_decisions(rows: EvaluationPredictions) -> Iterable[Outcome]:
    """Badness is how far the shares are from what is true, in the mean over the classes."""
    names = rows.description.labels

    def listed(chosen: np.ndarray) -> str:
        return ", ".join(names[at] for at in np.flatnonzero(chosen)) or _NOTHING

    for flags, probabilities in zip(rows.label() > 0, rows.prediction(), strict=True):
        taken = rows.description.decision.flags(probabilities)
        yield Outcome(
            bool((flags == taken).all()), float(np.abs(flags - probabilities).mean()), listed(flags), listed(taken)
        )


def of_numbers(rows: EvaluationPredictions) -> Iterable[Outcome]:
    for label, value in zip(rows.label().tolist(), rows.prediction().tolist(), strict=True):
        yield Outcome(None, abs(label - value), f"{label:.3g}", f"{value:.3g}")


def of_order(rows: EvaluationPredictions) -> Iterable[Outcome]:
    """A cosine and a score are counted in different units: badness is how far a pair is from its place in the order."""
    labels, values = rows.label(), rows.prediction()
    kept = rows.weight() > 0
    away = np.zeros(len(rows))
    away[kept] = np.abs(places_in_order(labels[kept]) - places_in_order(values[kept])) / max(1, kept.sum())
    for label, value, far in zip(labels.tolist(), values.tolist(), away.tolist(), strict=True):
        yield Outcome(None, far, f"{label:.3g}", f"cosine {value:.3f}")


def of_choices(rows: EvaluationPredictions) -> Iterable[Outcome]:
    def ending(choices: Sequence[str], at: int) -> str:
        return choices[at] if 0 <= at < len(choices) else _NOTHING

    probabilities = np.exp(-rows.prediction("row_loss").astype(np.float64))
    columns = (rows.prediction("right"), probabilities, rows.label("index"), rows.prediction("index"), rows.texts)
    for right, probability, label, answer, texts in zip(*columns, strict=True):
        choices = texts[CHOICES]
        yield Outcome(bool(right > 0.5), 1 - float(probability), ending(choices, label), ending(choices, answer))


def of_entities(rows: EvaluationPredictions) -> Iterable[Outcome]:
    """Badness is 1 less the F1 of the row's entities; where it has none, nor any answered, the fraction of wrong words."""
    names = rows.description.labels
    family = FAMILIES["entities"]
    f1 = entity_score("f1")

    def listed(ids: np.ndarray, words: Sequence[str]) -> str:
        found = tag_schemes.entities([names[tag] if tag >= 0 else tag_schemes.OUTSIDE for tag in ids])
        return "; ".join(f"{one.type} {' '.join(words[one.begin : one.end])}".strip() for one in found) or _NOTHING

    for label, answer, texts in zip(rows.label(), rows.prediction(), rows.texts, strict=True):
        found = family.add(family.none(names), label, answer, names)
        wrong = 1 - found.right / found.words if found.words else 0.0
        _, answered, true = found.counts.sum(axis=0)
        # F1 is undefined where the text has no entity; to find one there all the same is as wrong as can be.
        badness = 1 - f1(found) if true else 1.0 if answered else wrong
        words = str(texts[TEXT_KEYS[0]]).split(" ")
        yield Outcome(wrong == 0, badness, listed(label, words), listed(answer[: len(words)], words))


def of_answers(rows: EvaluationPredictions) -> Iterable[Outcome]:
    for golds, answer in zip(rows.label(), rows.prediction(), strict=True):
        right = list(dict.fromkeys(text for text in golds if text))
        exact, f1 = answer_scores.exact_match(answer, right), answer_scores.f1(answer, right)
        yield Outcome(exact == 1, 1 - f1, " | ".join(right) or "(no answer)", answer or "(no answer)")


def of_translations(rows: EvaluationPredictions) -> Iterable[Outcome]:
    """Badness is 1 less the translation's own chrF: a text may be said well in other words, and is not right or wrong."""
    for reference, given in zip(rows.label(), rows.prediction(), strict=True):
        alike = given == reference  # texts without a letter have no chrF
        badness = 0.0 if alike else 1 - sentence_chrf(given, reference) / 100
        yield Outcome(None, badness, reference or _NOTHING, given or _NOTHING)


def of_search(rows: EvaluationPredictions) -> Iterable[Outcome]:
    """Badness is 1 less 1 / the place at which the own text was found."""
    names, texts = rows.label(), [str(row[TEXT_KEYS[1]]) for row in rows.texts]
    questions, candidates = np.split(rows.prediction().astype(np.float64), 2, axis=1)
    places = ranks(questions, candidates, names)
    nearest = np.concatenate(
        [(questions[at : at + _CHUNK] @ candidates.T).argmax(axis=1) for at in range(0, len(names), _CHUNK)] or [[]]
    ).astype(int)
    for text, place, first in zip(texts, places.tolist(), nearest, strict=True):
        found = texts[first] if place > 1 else text
        yield Outcome(place == 1, 1 - 1 / place, text, f"{found} (its own at rank {place})" if place > 1 else found)


def of_masked_tokens(rows: EvaluationPredictions) -> Iterable[Outcome]:
    columns = (rows.prediction("guess_loss"), rows.prediction("guess_right"), rows.weight("guess_right"))
    for loss, right, count in zip(*(column.tolist() for column in columns), strict=True):
        yield Outcome(None, loss, f"{count:.0f} masked tokens", f"{right * count:.0f} of them predicted")
