"""Learning WordPieces from words and how often each occurs.

The most frequent neighbours are joined, again and again, starting from single characters (byte-pair encoding, written in
WordPiece's notation). TensorFlow Text has a learner, but it exceeds the size it is given, and takes a minute or two for
430,000 words of reviews, which take seconds here.
"""

import collections
import heapq
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from bertline.models.tokenization.vocabulary import SPECIAL_TOKENS
from bertline.pipeline.core.errors import BertlineError

MAX_CHARACTERS = 100
"""Longer words teach nothing: the shorter of the two readings' limits makes them [UNK]."""
MAX_ALPHABET = 1000
"""So many single characters are kept even if they take more than half of the vocabulary."""

Pair = tuple[str, str]


def learn_vocabulary(
    counts: Mapping[str, int], size: int, reserved: Sequence[str] = (), *, setting: str = "data.text"
) -> list[str]:
    """Learns WordPieces from words and how often each occurs.

    The special and the reserved tokens come first, then the alphabet by falling frequency, then longer tokens in the
    order in which they were found. Equal counts give an equal vocabulary, whatever their order.

    Args:
      counts: word -> occurrences; the words are normalised and split.
      size: tokens at most; a small corpus gives fewer, for whatever is joined must occur twice.
      reserved: tokens to have besides the special ones.
      setting: what names the column of the texts.
    """
    kept = sorted((word, count) for word, count in counts.items() if len(word) <= MAX_CHARACTERS)
    if not kept:
        raise BertlineError(f"{setting}: the training texts contain no word, so no vocabulary can be learned from them.")
    first = list(dict.fromkeys((*SPECIAL_TOKENS, *reserved)))
    room = size - len(first)
    alphabet = _alphabet(kept)[: min(room, max(MAX_ALPHABET, room // 2))]
    tokens = dict.fromkeys(alphabet)  # an ordered set: two ways of joining may give the same token
    spelled = [([word[0], *(f"##{character}" for character in word[1:])], count) for word, count in kept]
    joins = _joins([(symbols, count) for symbols, count in spelled if tokens.keys() >= set(symbols)])
    while len(tokens) < room and (token := next(joins, None)):
        tokens[token] = None
    return [*first, *tokens]


def _alphabet(words: Iterable[tuple[str, int]]) -> list[str]:
    """Characters by falling frequency; those that were ever part of a longer word also as a continuation."""
    frequency: collections.Counter[str] = collections.Counter()
    of_longer_words: set[str] = set()
    for word, count in words:
        for character in word:
            frequency[character] += count
        if len(word) > 1:
            of_longer_words.update(word)
    alphabet = []
    for character in sorted(frequency, key=lambda character: (-frequency[character], character)):
        alphabet += [character, f"##{character}"] if character in of_longer_words else [character]
    return alphabet


def _joins(words: list[tuple[list[str], int]]) -> Iterator[str]:
    """Joins the most frequent pair of neighbours wherever it stands, again and again; yields what each join makes."""
    frequency: collections.Counter[Pair] = collections.Counter()
    holders: dict[Pair, set[int]] = collections.defaultdict(set)  # pair -> words that hold it, or once held it
    for index, (symbols, count) in enumerate(words):
        for pair in itertools.pairwise(symbols):
            frequency[pair] += count
            holders[pair].add(index)
    heap = [(-count, pair) for pair, count in frequency.items()]
    heapq.heapify(heap)
    while heap:
        negative, best = heapq.heappop(heap)
        if -negative != frequency[best]:
            continue  # outdated: the pair's present count has an entry of its own
        if -negative < 2:
            return
        joined = best[0] + best[1].removeprefix("##")
        touched: set[Pair] = set()
        for index in holders.pop(best):
            symbols, count = words[index]
            for pair in itertools.pairwise(symbols):
                frequency[pair] -= count
                touched.add(pair)
            symbols[:] = _join(symbols, best, joined)
            for pair in itertools.pairwise(symbols):
                frequency[pair] += count
                holders[pair].add(index)
                touched.add(pair)
        for pair in touched:
            heapq.heappush(heap, (-frequency[pair], pair))
        yield joined


def _join(symbols: Sequence[str], pair: Pair, joined: str) -> list[str]:
    result: list[str] = []
    position = 0
    while position < len(symbols):
        found = tuple(symbols[position : position + 2]) == pair
        result.append(joined if found else symbols[position])
        position += 2 if found else 1
    return result
