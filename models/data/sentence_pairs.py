"""Sentence pairs for next-sentence prediction, by the rules of the original BERT.

A document is a list of sentences, a sentence a list of token ids. Sentences are gathered until they fill a target length,
cut in two at a random sentence end, and the second half is, half of the time, replaced by text of another document. The
sentences that were replaced are used again. Everything follows from one random generator.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

Sentence = list[int]
Document = Sequence[Sentence]

_TRIES = 10
"""Draws of another document before the same one is put up with."""


class Pair(NamedTuple):
    first: list[int]
    second: list[int]
    is_random: bool
    """Whether the second half is not what followed."""


def pairs_of(
    documents: Sequence[Document], index: int, generator: random.Random, *, max_tokens: int, short_share: float = 0.1
) -> Iterator[Pair]:
    """The pairs of one document among others.

    Args:
      documents: none empty, and none with an empty sentence.
      index: the document to make pairs of; the others lend their sentences.
      generator: decides everything that is left to chance.
      max_tokens: tokens of both halves together, without [CLS] and [SEP].
      short_share: share of the documents that are cut into pairs of a shorter, random length, so that a model that
        reads shorter texts later has seen such.
    """
    document = documents[index]
    target = max_tokens
    if generator.random() < short_share:
        target = generator.randint(2, max_tokens)
    gathered: list[Sentence] = []
    length, at = 0, 0
    while at < len(document):
        gathered.append(document[at])
        length += len(document[at])
        at += 1
        if length < target and at < len(document):
            continue
        cut = generator.randint(1, len(gathered) - 1) if len(gathered) > 1 else 1
        first = _joined(gathered[:cut])
        is_random = len(gathered) == 1 or generator.random() < 0.5
        if is_random:
            second = _from_another(documents, index, generator, target - len(first))
            at -= len(gathered) - cut  # what was not used comes again
        else:
            second = _joined(gathered[cut:])
        yield Pair(*truncated(first, second, max_tokens, generator), is_random)
        gathered, length = [], 0


def truncated(
    first: list[int], second: list[int], max_tokens: int, generator: random.Random
) -> tuple[list[int], list[int]]:
    """Both halves, the longer one shortened at its front or its back, token by token, until they fit."""
    spans = [[0, len(first)], [0, len(second)]]
    lengths = [len(first), len(second)]
    while sum(lengths) > max_tokens:
        longer = 0 if lengths[0] > lengths[1] else 1
        lengths[longer] -= 1
        if generator.random() < 0.5:
            spans[longer][0] += 1
        else:
            spans[longer][1] -= 1
    return first[slice(*spans[0])], second[slice(*spans[1])]


def _from_another(documents: Sequence[Document], index: int, generator: random.Random, wanted: int) -> list[int]:
    """Sentences of another document, from a random one on, until there are as many tokens as wanted."""
    for _ in range(_TRIES):
        other = generator.randint(0, len(documents) - 1)
        if other != index:
            break
    document = documents[other]
    found: list[int] = []
    for sentence in document[generator.randint(0, len(document) - 1) :]:
        found += sentence
        if len(found) >= wanted:
            break
    return found


def _joined(sentences: Sequence[Sentence]) -> list[int]:
    return [token for sentence in sentences for token in sentence]
