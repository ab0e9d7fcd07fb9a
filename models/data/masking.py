"""Masks for masked-language modelling: which tokens are to be predicted, and what stands in their place.

Plain numpy, so that the same lines make static masks while the data is written and fresh ones in every epoch of a
training (`tf.data` calls them batch by batch). A mask follows from its generator alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

Units = Literal["token", "word", "span"]

_SPAN_MEAN_SHARE = 0.2
"""Of the geometric distribution of span lengths, in words, as SpanBERT draws them; cut at _LONGEST_SPAN."""
_LONGEST_SPAN = 10


@dataclass(frozen=True, kw_only=True)
class MaskingRules:
    """What is masked, and by what.

    Room is made for `probability` of the tokens, [CLS] and [SEP] counted but never chosen, for one at least and for
    `max_predictions` at most; a word that is longer than the room that is left is passed over. Of the chosen tokens 80 %
    become [MASK], 10 % any token of the vocabulary and 10 % stay, each by a draw of its own, whatever unit was chosen.
    """

    mask_id: int
    vocab_size: int
    special_ids: tuple[int, ...]
    continues: np.ndarray
    """[vocab] bool: tokens that continue a word."""
    probability: float = 0.15
    max_predictions: int = 20
    units: Units = "token"
    """Chosen one by one, as whole words, or as runs of whole words."""


class Masked(NamedTuple):
    """Masked texts; what is not `chosen` in the last three fills up."""

    token_ids: np.ndarray
    """[texts, tokens] int32, with the masks in."""
    positions: np.ndarray
    """[texts, most] int32, rising."""
    labels: np.ndarray
    """[texts, most] int32: what stood there."""
    chosen: np.ndarray
    """[texts, most] bool."""


def mask_batch(token_ids: np.ndarray, lengths: np.ndarray, rules: MaskingRules, generator: np.random.Generator) -> Masked:
    """Masks texts that are padded to one length.

    Args:
      token_ids: [texts, tokens] int32.
      lengths: [texts], [CLS] and [SEP] counted in.
    """
    special = np.zeros(rules.vocab_size, bool)
    special[list(rules.special_ids)] = True
    able = (np.arange(token_ids.shape[1]) < lengths[:, None]) & ~special[token_ids]
    room = how_many(lengths, rules)
    if rules.units == "token":
        order = np.where(able, generator.random(able.shape), np.inf).argsort(axis=1)[:, : rules.max_predictions]
        picked = [row[:count] for row, count in zip(order, np.minimum(room, able.sum(axis=1)), strict=True)]
    else:
        pick = _spans if rules.units == "span" else _words
        picked = [
            pick(_word_positions(ids, here, rules), int(count), generator)
            for ids, here, count in zip(token_ids, able, room, strict=True)
        ]
    positions = np.zeros((len(token_ids), rules.max_predictions), np.int32)
    chosen = np.zeros_like(positions, bool)
    for row, found in enumerate(picked):
        positions[row, : len(found)], chosen[row, : len(found)] = np.sort(found), True
    labels = np.where(chosen, np.take_along_axis(token_ids, positions, axis=1), 0).astype(np.int32)
    draws = generator.random(positions.shape)
    anything = generator.integers(rules.vocab_size, size=positions.shape)
    replaced = np.where(draws < 0.8, rules.mask_id, np.where(draws < 0.9, anything, labels))
    masked = token_ids.copy()
    rows = np.broadcast_to(np.arange(len(token_ids))[:, None], positions.shape)
    masked[rows[chosen], positions[chosen]] = replaced[chosen]
    return Masked(masked, positions, labels, chosen)


def mask_rows(
    token_ids: np.ndarray, begins: np.ndarray, lengths: np.ndarray, rules: MaskingRules, generator: np.random.Generator
) -> Masked:
    """Masks rows that hold several texts one after the other, each of them as if it stood alone.

    Args:
      token_ids: [rows, tokens] int32.
      begins, lengths: [rows, texts] where each text begins and how many tokens it has; 0 tokens for no text.

    Returns:
      Positions in the rows; room for as many as the fullest row has, a multiple of 8, so that shapes are few.
    """
    rows, texts = np.nonzero(lengths)
    begin, length = begins[rows, texts], lengths[rows, texts]
    columns = np.arange(length.max(initial=1))
    inside = columns < length[:, None]
    where = np.broadcast_to(rows[:, None], inside.shape)[inside], (begin[:, None] + columns)[inside]
    apart = np.zeros(inside.shape, np.int32)
    apart[inside] = token_ids[where]
    found = mask_batch(apart, length, rules, generator)
    masked = token_ids.copy()
    masked[where] = found.token_ids[inside]
    of_row = np.repeat(rows, found.chosen.sum(axis=1))  # the row of each masked token; texts come row by row
    counts = np.bincount(of_row, minlength=len(token_ids))
    slots = np.arange(len(of_row)) - (counts.cumsum() - counts)[of_row]
    chosen = np.arange(-(-max(1, counts.max(initial=1)) // 8) * 8) < counts[:, None]
    positions, labels = np.zeros_like(chosen, np.int32), np.zeros_like(chosen, np.int32)
    positions[of_row, slots] = (found.positions + begin[:, None])[found.chosen]
    labels[of_row, slots] = found.labels[found.chosen]
    return Masked(masked, positions, labels, chosen)


def how_many(tokens: np.ndarray, rules: MaskingRules) -> np.ndarray:
    """Tokens to choose of texts of so many; a half is rounded to the even number, as Python does."""
    return np.clip(np.rint(np.asarray(tokens) * rules.probability).astype(int), 1, rules.max_predictions)


def _word_positions(token_ids: np.ndarray, able: np.ndarray, rules: MaskingRules) -> list[np.ndarray]:
    """The positions of each word."""
    positions = np.flatnonzero(able)
    begins_word = ~rules.continues[token_ids[positions]]
    # A continuation that follows no other token of its word (a text that was cut in front) begins one.
    begins_word |= np.diff(positions, prepend=-2) != 1
    return np.split(positions, np.flatnonzero(begins_word)[1:]) if len(positions) else []


def _words(words: list[np.ndarray], room: int, generator: np.random.Generator) -> np.ndarray:
    """Words in random order, each taken if it still fits."""
    taken = [np.zeros(0, int)]
    for number in generator.permutation(len(words)):
        if room == 0:
            break
        if len(words[number]) <= room:
            taken.append(words[number])
            room -= len(words[number])
    return np.concatenate(taken)


def _spans(words: list[np.ndarray], room: int, generator: np.random.Generator) -> np.ndarray:
    """Runs of neighbouring words of geometric length, from random words on, until there is no room for one more word."""
    free = np.ones(len(words), bool)
    taken = [np.zeros(0, int)]
    for begin in generator.permutation(len(words)):
        if room == 0:
            break
        length = min(generator.geometric(_SPAN_MEAN_SHARE), _LONGEST_SPAN)
        for number in range(begin, min(begin + length, len(words))):
            follows = number == begin or words[number][0] == words[number - 1][-1] + 1  # not across a [SEP]
            if not follows or not free[number] or len(words[number]) > room:
                break
            free[number] = False
            taken.append(words[number])
            room -= len(words[number])
    return np.concatenate(taken)
