"""What can be learned from a table: each function says whether its examples are there, and what it would write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from bertline.components.ingest.rows import tagged_words
from bertline.models.data import tag_schemes
from bertline.models.decisions.positive_class import choose_positive
from bertline.models.kinds import has_fallback
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.new.guess import FROM_SCRATCH, NEEDS_CHECKPOINT, Guess, Setting, room_for
from bertline.pipeline.new.tables import columns
from bertline.pipeline.new.tables.row_settings import row_settings, texts_of
from bertline.pipeline.new.tables.table import Table, Values
from bertline.pipeline.new.thresholds import Reached, of_classes, of_numbers

_TOO_COMMON = 0.8
"""Where a class has so large a share, accuracy says little."""
_SCORE_NAMES = ("score", "similarity", "rating")
_MANY_NUMBERS = 20


def guess_classes(table: Table) -> Guess | None:
    texts = columns.main_texts(table)
    found = columns.labels(table, texts) if texts else []
    if not found:
        return None
    label, others = found[0], found[1:]
    complete = table.complete((*texts, label))
    classes = Counter(str(row[label]) for row in complete).most_common()
    if len(classes) < 2:
        return None
    thresholds, why_thresholds = _threshold_of_classes([count for _, count in classes])
    measure = next(iter(thresholds))
    simple = of_classes(table, texts, label, measure)
    within = _within_reach("classification", measure, thresholds[measure], simple, table, (*texts, label))
    thresholds, why_thresholds = _above(measure, thresholds[measure], why_thresholds, simple)
    names = sorted(name for name, _ in classes)
    chosen = choose_positive(names, [dict(classes)[name] for name in names])
    positive = Setting("positive", chosen.name, f"{chosen.why}; f1 is of this class") if chosen else None
    shown = ", ".join(f"{name} ({count:,})" for name, count in classes[:5])
    more = f", {len(classes) - 5} more" if len(classes) > 5 else ""
    also = f"; could also be {', '.join(others)}" if others else ""
    return Guess(
        task="classification",
        why=f"{'two texts' if len(texts) == 2 else 'a text'} and one of {len(classes)} classes per example",
        seen=table.seen,
        data=row_settings(table, texts, Setting("label", label, f"{shown}{more}{also}"), complete, positive=positive),
        seq_len=room_for(texts_of(complete, texts)),
        thresholds=thresholds,
        why_thresholds=why_thresholds,
        from_scratch=within,
        model=NEEDS_CHECKPOINT if len(texts) == 2 else FROM_SCRATCH,
    )


def _threshold_of_classes(counts: Sequence[int]) -> tuple[dict[str, float], str]:
    """A threshold that only learning reaches, and why."""
    majority = max(counts) / sum(counts)
    if majority > _TOO_COMMON:
        return {
            "matthews": 0.2
        }, f"0 for a prediction that ignores the text; the most frequent class alone has accuracy {majority:.3f}"
    return {"accuracy": round(majority + 0.05, 2)}, f"always predicting the most frequent class reaches {majority:.3f}"


def _above(measure: str, threshold: float, why: str, simple: Reached | None) -> tuple[dict[str, float], str]:
    """The threshold, or one above a simple baseline that reaches it."""
    if simple is None:
        return {measure: threshold}, why
    return {measure: max(threshold, simple.threshold)}, f"{simple.why(measure)}; {why}"


def _within_reach(
    task: str, measure: str, threshold: float, simple: Reached | None, table: Table, used: Sequence[str]
) -> tuple[dict[str, float], str] | None:
    """The threshold where the simple baseline may be pushed itself, and then has to keep it.

    Args:
      used: the columns of the texts, and last that of the label.
    """
    if simple is None or not has_fallback(task, len(used) - 1):
        return None
    evaluation = len(table.evaluation(used)) or round(len(table.complete(used)) * table.data.split.eval_fraction)
    why = f"{simple.told(measure)}, and is pushed where an encoder from scratch is worse"
    return {measure: max(threshold, simple.within_reach(evaluation))}, why


def guess_numbers(table: Table) -> Guess | None:
    texts = columns.main_texts(table)
    found = columns.labels(table, texts) if texts else []
    if not found or not _is_measured(found[0], set(table.values(found[0]))):
        return None
    label = found[0]
    complete = table.complete((*texts, label))
    numbers = [float(str(row[label])) for row in complete]
    if not numbers:
        return None
    also = f"; could also be {', '.join(found[1:])}" if found[1:] else ""
    simple = of_numbers(table, texts, label)
    without_look = "a prediction that ignores the text has no correlation"
    thresholds, why_thresholds = _above("pearson", 0.3, without_look, simple)
    within = _within_reach("regression", "pearson", 0.3, simple, table, (*texts, label))
    vectors = "; or similarity, which gives each text its own vector" if len(texts) == 2 else ""
    why = f"{len(set(numbers)):,} different numbers, {min(numbers):g} to {max(numbers):g}{also}"
    return Guess(
        task="regression",
        why=f"the labels are numbers{vectors}",
        seen=table.seen,
        data=row_settings(table, texts, Setting("label", label, why), complete),
        seq_len=room_for(texts_of(complete, texts)),
        thresholds=thresholds,
        why_thresholds=why_thresholds,
        from_scratch=within,
        model=NEEDS_CHECKPOINT if len(texts) == 2 else FROM_SCRATCH,
    )


def _is_measured(name: str, values: set[str]) -> bool:
    """Decimals, or many whole numbers under a name that says they are points; other whole numbers are classes."""
    if columns.are_decimals(values):
        return True
    is_score = name.lower() in _SCORE_NAMES and len(values) > _MANY_NUMBERS
    return is_score and all(value.strip().lstrip("-").isdecimal() for value in values)


def guess_similarity(table: Table) -> Guess | None:
    guess = guess_numbers(table)
    if guess is None or len(columns.main_texts(table)) < 2:
        return None
    return replace(guess, task="similarity", why="two texts and a score per example; each text gets its own vector")


def guess_matching(table: Table) -> Guess | None:
    texts = columns.main_texts(table)
    if len(texts) < 2:
        return None
    complete = table.complete(texts)
    chance = min(1.0, 10 / max(1, len(complete) * table.data.split.eval_fraction))
    return Guess(
        task="matching",
        why="two matching texts per example; each gets its own vector",
        seen=table.seen,
        data=row_settings(table, texts, None, complete),
        seq_len=max(room_for([str(row[column]) for row in complete]) for column in texts),
        thresholds={"recall_at_10": round(min(0.9, chance + 0.1), 2)},
        why_thresholds=f"the fraction whose match is among the 10 nearest; at random about {chance:.3f}",
        model=NEEDS_CHECKPOINT,
    )


def guess_tags(table: Table) -> Guess | None:
    """Words in one column, and in another as many tags: both are lists, or both have spaces between."""
    lists = [(text, label) for text in table.lists for label in table.lists if text != label]
    spaced = [(text, label) for text in columns.texts(table) for label in columns.texts(table) if text != label]
    for text, label in (*lists, *spaced):
        complete = table.complete((text, label))
        if not complete or not all(isinstance(_tagged(row, text, label), dict) for row in complete):
            continue
        shown = _tagged(complete[0], text, label)
        return Guess(
            task="tagging",
            why="as many tags as words in every example",
            seen=table.seen,
            data=row_settings(table, (text,), Setting("label", label, " ".join(shown["label"])), complete),
            seq_len=room_for(_tagged(row, text, label)["text"] for row in complete),
            thresholds={"f1": 0.3},
            why_thresholds="of entities; always O finds none, and has 0",
            model=NEEDS_CHECKPOINT,
        )
    for label in table.lists:
        for text in columns.texts(table):
            if _is_tagged_by_character(table, text, label):
                raise BertlineError(
                    f"{table.source.path}: {label} has a tag for each character of {text}; write the characters as a"
                    f' list as well, as {{"{text}": ["王", "明"], "{label}": ["B-PER", "I-PER"]}}.'
                )
    return None


def _is_tagged_by_character(table: Table, text: str, label: str) -> bool:
    rows = [(row.get(text) or "", names) for row, names in zip(table.rows, table.lists[label], strict=True)]
    return all(len(characters) == len(names) and all(map(tag_schemes.parse, names)) for characters, names in rows)


def _tagged(row: Values, text: str, label: str) -> Any:
    """The words and their tags; a sentence where they do not go together."""
    return tagged_words(row[text], row[label], "any")
