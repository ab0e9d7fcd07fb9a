"""SQuAD in plain Python: windows, the choice of an answer, and the official evaluation, written out step by step.

What the graph is compared with. Nothing here is shared with the product.
"""

from __future__ import annotations

import collections
import math
import re
import string
from typing import NamedTuple


class Window(NamedTuple):
    begin: int
    length: int
    offset: int
    """Position of its first token of the text: after [CLS], the question and [SEP]."""


def windows_of(tokens: int, question: int, seq_len: int, step: int) -> list[Window]:
    room = seq_len - 3 - question
    windows, begin = [], 0
    while True:
        length = min(tokens - begin, room)
        windows.append(Window(begin, length, question + 2))
        if begin + length == tokens:
            return windows
        begin += min(length, step)


def is_max_context(windows: list[Window], current: int, place: int) -> bool:
    best_score, best = -math.inf, None
    for number, window in enumerate(windows):
        end = window.begin + window.length - 1
        if place < window.begin or place > end:
            continue
        score = min(place - window.begin, end - place) + 0.01 * window.length
        if score > best_score:
            best_score, best = score, number
    return current == best


class Choice(NamedTuple):
    answer: str
    start: int
    end: int
    score: float
    n_best: list[tuple[str, float]]


def choose(text, offsets, windows, start_scores, end_scores, *, threshold=None, n_best=20, longest=30) -> Choice:
    """The answer of one row.

    Args:
      offsets: (start, end) of each token of the text, in characters.
      start_scores, end_scores: of each window, a score a position.
      threshold: none is answered if it is better than the best answer by more; never, without one.
    """
    found = []
    null = math.inf
    for number, window in enumerate(windows):
        starts, ends = start_scores[number], end_scores[number]
        null = min(null, starts[0] + ends[0])
        for first in _largest(starts, n_best):
            for last in _largest(ends, n_best):
                inside = range(window.offset, window.offset + window.length)
                if first not in inside or last not in inside:
                    continue
                place = first - window.offset + window.begin
                if not is_max_context(windows, number, place) or last < first or last - first + 1 > longest:
                    continue
                span = offsets[place][0], offsets[last - window.offset + window.begin][1]
                found.append((starts[first] + ends[last], text[span[0] : span[1]], *span))
    found.sort(key=lambda answer: answer[0], reverse=True)
    distinct = {}
    for score, answer, begin, end in found:
        distinct.setdefault(answer, (score, begin, end))
    ranked = [(answer, score) for answer, (score, _, _) in distinct.items()][:n_best]
    if threshold is not None:
        ranked = sorted([*ranked, ("", null)], key=lambda answer: answer[1], reverse=True)
        if ranked[-1][0] != "" and len(ranked) > n_best:
            ranked.pop()
    total = sum(math.exp(score - ranked[0][1]) for _, score in ranked)
    probabilities = [(answer, math.exp(score - ranked[0][1]) / total) for answer, score in ranked]
    best = next(iter(distinct), None)
    if best is None or threshold is not None and null - distinct[best][0] > threshold:
        return Choice("", 0, 0, dict(probabilities).get("", 0.0), probabilities)
    return Choice(best, *distinct[best][1:], dict(probabilities)[best], probabilities)


def _largest(scores, count):
    return sorted(range(len(scores)), key=lambda index: scores[index], reverse=True)[:count]


# The official evaluation of SQuAD 2.0.


def normalize_answer(s):
    """Lower text and remove punctuation, articles and extra whitespace."""

    def remove_articles(text):
        return re.sub(re.compile(r"\b(a|an|the)\b", re.UNICODE), " ", text)

    def white_space_fix(text):
        return " ".join(text.split())

    def remove_punc(text):
        exclude = set(string.punctuation)
        return "".join(ch for ch in text if ch not in exclude)

    return white_space_fix(remove_articles(remove_punc(s.lower())))


def official_scores(answer, right):
    """(exact match, F1) of an answer."""
    gold_answers = [gold for gold in right if normalize_answer(gold)]
    if not gold_answers:
        gold_answers = [""]
    exact = max(int(normalize_answer(gold) == normalize_answer(answer)) for gold in gold_answers)
    return exact, max(_f1(gold, answer) for gold in gold_answers)


def _f1(gold, predicted):
    gold_tokens, predicted_tokens = normalize_answer(gold).split(), normalize_answer(predicted).split()
    common = collections.Counter(gold_tokens) & collections.Counter(predicted_tokens)
    num_same = sum(common.values())
    if len(gold_tokens) == 0 or len(predicted_tokens) == 0:
        return int(gold_tokens == predicted_tokens)
    if num_same == 0:
        return 0
    precision = 1.0 * num_same / len(predicted_tokens)
    recall = 1.0 * num_same / len(gold_tokens)
    return (2 * precision * recall) / (precision + recall)
