"""Scores that TFMA has not, as plain functions of a confusion matrix, of decisions, values, entities or
answers.

They agree with scikit-learn, scipy and seqeval wherever the evaluation examples can tell a good model from a bad one. Where
they cannot (one class only, no entity, labels that are all equal) a score is undefined, which is NaN: 1 or 0 would read as
if the model had been measured. What is missing from the predictions instead, as a class that is never predicted, is the
model's doing and counts as 0.

Over 300 lines in one module: they are small functions that the tables at its end name, and one looks them up here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bertline.models.data import tag_schemes
from bertline.models.decisions.decision import LIKELIEST, Decision
from bertline.models.metrics import squad as answer_scores

Confusion = np.ndarray
"""[classes, classes]: rows of each true class (first index) by predicted class."""


def matthews(confusion: Confusion) -> float:
    """Matthews' correlation of any number of classes: 0 for what chance, or always one answer, gives; undefined where the
    examples have fewer than two classes."""
    counts = np.asarray(confusion, float)
    if _true_classes(counts) < 2:
        return math.nan
    true, predicted, total = counts.sum(axis=1), counts.sum(axis=0), counts.sum()
    covariance = np.trace(counts) * total - true @ predicted
    spread = (total**2 - predicted @ predicted) * (total**2 - true @ true)
    return float(covariance / math.sqrt(spread)) if spread > 0 else 0.0


def f1(confusion: Confusion, positive: int = -1) -> float:
    """F1 of one class: of two, the one that is looked for. Undefined where the examples have one class only: always
    predicting it would give 1."""
    return float(_of_each(confusion)["f1"][positive]) if _true_classes(confusion) > 1 else math.nan


def precision(confusion: Confusion, positive: int = -1) -> float:
    """Of one class: which part of the examples that are taken for it has it."""
    return float(_of_each(confusion)["precision"][positive]) if _true_classes(confusion) > 1 else math.nan


def recall(confusion: Confusion, positive: int = -1) -> float:
    """Of one class: which part of the examples that have it is found."""
    return float(_of_each(confusion)["recall"][positive]) if _true_classes(confusion) > 1 else math.nan


def macro_f1(confusion: Confusion) -> float:
    """Mean of the F1 of each class that occurs, as true or as predicted: every class counts the same. Undefined where the
    examples have fewer than two classes."""
    counts = np.asarray(confusion, float)
    occurs = counts.sum(axis=1) + counts.sum(axis=0) > 0
    return float(_of_each(counts)["f1"][occurs].mean()) if _true_classes(counts) > 1 else math.nan


def micro_f1(confusion: Confusion) -> float:
    """F1 over the answers of all classes together: every row counts the same."""
    counts = np.asarray(confusion, float)
    return float(np.trace(counts) / counts.sum()) if counts.any() else math.nan


def _true_classes(confusion: Confusion) -> int:
    """How many classes the examples have."""
    return int((np.asarray(confusion).sum(axis=1) > 0).sum())


def per_class(confusion: Sequence[Sequence[int]], labels: Sequence[str]) -> dict[str, dict[str, float]]:
    """Precision, recall and F1 of each class, and the rows that it has; without a row the scores are undefined."""
    scores = _of_each(np.asarray(confusion, float))
    each = {label: {name: float(values[at]) for name, values in scores.items()} for at, label in enumerate(labels)}
    nothing = {**dict.fromkeys(scores, math.nan), "rows": 0.0}
    return {label: found if found["rows"] else nothing for label, found in each.items()}


def _of_each(confusion: Confusion) -> dict[str, np.ndarray]:
    counts = np.asarray(confusion, float)
    hits, true, predicted = np.diag(counts), counts.sum(axis=1), counts.sum(axis=0)

    def ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
        return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)

    return {
        "precision": ratio(hits, predicted),
        "recall": ratio(hits, true),
        "f1": ratio(2 * hits, true + predicted),
        "rows": true,
    }


def mean_squared_error(predictions: np.ndarray, labels: np.ndarray) -> float:
    return float(np.mean((predictions - labels) ** 2)) if len(labels) else math.nan


def pearson(predictions: np.ndarray, labels: np.ndarray) -> float:
    if len(labels) < 2 or np.ptp(predictions) == 0 or np.ptp(labels) == 0:
        return math.nan
    x, y = predictions - predictions.mean(), labels - labels.mean()
    # Scaled first: the square of a small number may be none.
    x, y = x / np.abs(x).max(), y / np.abs(y).max()
    return float(np.clip(x @ y / math.sqrt((x @ x) * (y @ y)), -1, 1))


def spearman(predictions: np.ndarray, labels: np.ndarray) -> float:
    """Pearson's correlation of the ranks."""
    return pearson(places_in_order(predictions), places_in_order(labels))


def places_in_order(values: np.ndarray) -> np.ndarray:
    """Places in the order, from 1; equal values share the mean of theirs."""
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts - 1) / 2)[which]


MIN_PROBABILITY = 1e-7
"""What Keras takes a probability of 0 for, whose logarithm would be infinite."""


@dataclass(frozen=True)
class Decisions:
    """Sums over rows of which each class is true or not, and taken for true or not."""

    counts: np.ndarray
    """[classes, 3]: rows that a class is rightly taken for, rows that it is taken for, rows that it is true of."""
    rows: int = 0
    exact: int = 0
    """Rows of which every class is right."""
    cross_entropy: float = 0.0
    """The sum of each row's mean over the classes."""

    @classmethod
    def none(cls, classes: int) -> Decisions:
        return cls(np.zeros((classes, 3), np.int64))

    @classmethod
    def of_row(cls, flags: np.ndarray, probabilities: np.ndarray, decision: Decision = LIKELIEST) -> Decisions:
        true, taken = flags > 0, decision.flags(probabilities)
        right = np.clip(np.where(true, probabilities, 1 - probabilities).astype(float), MIN_PROBABILITY, 1)
        counts = np.stack([true & taken, taken, true], axis=1).astype(np.int64)
        return cls(counts, 1, int((true == taken).all()), float(-np.log(right).mean()))

    def __add__(self, other: Decisions) -> Decisions:
        return Decisions(
            self.counts + other.counts,
            self.rows + other.rows,
            self.exact + other.exact,
            self.cross_entropy + other.cross_entropy,
        )

    def of_classes(self, labels: Sequence[str]) -> dict[str, dict[str, float]]:
        """Precision, recall and F1 of each class, and the rows that it is true of."""
        return {
            label: {**_of_class(*counts), "rows": float(counts[2])}
            for label, counts in zip(labels, self.counts, strict=True)
        }


def decisions_micro_f1(sums: Decisions) -> float:
    """F1 over the decisions of all classes together; undefined where no class is true of any row."""
    return _of_class(*sums.counts.sum(axis=0))["f1"]


def decisions_macro_f1(sums: Decisions) -> float:
    """Mean of the F1 of each class that occurs, as true or as taken for true; undefined where none is true of any row."""
    each = [_precision_recall_f1(*counts)["f1"] for counts in sums.counts if counts.any()]
    return float(np.mean(each)) if sums.counts[:, 2].any() else math.nan


def subset_accuracy(sums: Decisions) -> float:
    """Fraction of the rows of which every class is right."""
    return sums.exact / sums.rows if sums.rows else math.nan


def decisions_cross_entropy(sums: Decisions) -> float:
    return sums.cross_entropy / sums.rows if sums.rows else math.nan


def _answerable(score: Callable[[str, Sequence[str]], float]) -> Callable[[str, Sequence[str]], float | None]:
    return lambda answer, right: score(answer, right) if right else None


def _unanswerable(score: Callable[[str, Sequence[str]], float]) -> Callable[[str, Sequence[str]], float | None]:
    return lambda answer, right: None if right else score(answer, right)


@dataclass(frozen=True)
class Entities:
    """What came of the words of some texts: a number for each type of entities, and two of the words themselves."""

    types: tuple[str, ...]
    counts: np.ndarray
    """[types, 3] int64: entities that were found where and as they are, entities that were answered, entities there are."""
    right: int = 0
    words: int = 0

    def add(self, given: Sequence[str], true: Sequence[str | None]) -> Entities:
        """With one text more. A word whose true tag is None counts nowhere: as if it were outside, and answered so."""
        answers = [tag_schemes.OUTSIDE if tag is None else answer for answer, tag in zip(given, true, strict=True)]
        truth = [tag or tag_schemes.OUTSIDE for tag in true]
        found, wanted = set(tag_schemes.entities(answers)), set(tag_schemes.entities(truth))
        counts = self.counts.copy()
        for column, entities in enumerate((found & wanted, found, wanted)):
            for entity in entities:
                counts[self.types.index(entity.type), column] += 1
        known = [answer == tag for answer, tag in zip(given, true, strict=True) if tag is not None]
        return Entities(self.types, counts, self.right + sum(known), self.words + len(known))

    def __add__(self, other: Entities) -> Entities:
        return Entities(self.types, self.counts + other.counts, self.right + other.right, self.words + other.words)

    @classmethod
    def none(cls, labels: Sequence[str]) -> Entities:
        """Of no text, for the tags that a model knows."""
        types = tuple(
            sorted({tag.type for name in labels if (tag := tag_schemes.parse(name)) and tag.role != tag_schemes.OUTSIDE})
        )
        return cls(types, np.zeros((len(types), 3), np.int64))

    def of_types(self) -> dict[str, dict[str, float]]:
        """Precision, recall and F1 of each type, and how many of it there are."""
        return {
            name: {**_of_class(*counts), "entities": float(counts[2])}
            for name, counts in zip(self.types, self.counts, strict=True)
        }


def _precision_recall_f1(hits: float, answered: float, true: float) -> dict[str, float]:
    return {
        "precision": float(hits / answered) if answered else 0.0,
        "recall": float(hits / true) if true else 0.0,
        "f1": float(2 * hits / (answered + true)) if answered + true else 0.0,
    }


def _of_class(hits: float, answered: float, true: float) -> dict[str, float]:
    """The same, undefined where there is nothing to be found."""
    scores = _precision_recall_f1(hits, answered, true)
    return scores if true else dict.fromkeys(scores, math.nan)


def entity_score(name: str) -> Callable[[Entities], float]:
    """Precision, recall or F1 over the entities of all types together; undefined where there is none."""
    return lambda found: _of_class(*found.counts.sum(axis=0))[name]


def word_accuracy(found: Entities) -> float:
    return found.right / found.words if found.words else math.nan


def is_right(labels: np.ndarray, probabilities: np.ndarray, decision: Decision = LIKELIEST) -> np.ndarray:
    return decision.classes(probabilities) == labels


def cross_entropy(labels: np.ndarray, probabilities: np.ndarray, decision: Decision = LIKELIEST) -> np.ndarray:
    """As Keras has it, which makes logits of the shares again."""
    logs = np.log(np.clip(probabilities.astype(np.float64), MIN_PROBABILITY, 1 - MIN_PROBABILITY))
    return np.log(np.exp(logs).sum(axis=1)) - logs[np.arange(len(logs)), labels]


OF_CLASSES: Mapping[str, Callable[[np.ndarray, np.ndarray, Decision], np.ndarray]] = {
    "SparseCategoricalAccuracy": is_right,
    "SparseCategoricalCrossentropy": cross_entropy,
}
"""(ids of classes, probabilities, decision) -> of each row a number; their mean by the weights is Keras's metric of that
name."""
OF_ENTITIES: Mapping[str, Callable[[Entities], float]] = {
    "EntityPrecision": entity_score("precision"),
    "EntityRecall": entity_score("recall"),
    "EntityF1": entity_score("f1"),
    "WordAccuracy": word_accuracy,
}
OF_POSITIVE: Mapping[str, Callable[..., float]] = {"F1": f1, "Precision": precision, "Recall": recall}
"""(confusion, place of the positive class) -> a score of that class."""
OF_CONFUSION: Mapping[str, Callable[[Confusion], float]] = {
    "Matthews": matthews,
    "MacroF1": macro_f1,
    "MicroF1": micro_f1,
}
OF_DECISIONS: Mapping[str, Callable[[Decisions], float]] = {
    "DecisionsMicroF1": decisions_micro_f1,
    "DecisionsMacroF1": decisions_macro_f1,
    "SubsetAccuracy": subset_accuracy,
    "DecisionsCrossEntropy": decisions_cross_entropy,
}
OF_VALUES: Mapping[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "MeanSquaredError": mean_squared_error,
    "Pearson": pearson,
    "Spearman": spearman,
}
OF_ANSWERS: Mapping[str, Callable[[str, Sequence[str]], float | None]] = {
    "AnswerF1": answer_scores.f1,
    "ExactMatch": answer_scores.exact_match,
    "HasAnswerF1": _answerable(answer_scores.f1),
    "HasAnswerExactMatch": _answerable(answer_scores.exact_match),
    "NoAnswerExactMatch": _unanswerable(answer_scores.exact_match),
}
"""(answer, right answers) -> what a row adds to the mean; None for a row that does not count."""
