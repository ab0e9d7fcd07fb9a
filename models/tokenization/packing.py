"""Tokens of texts put together as BERT reads them: pairs, windows, [CLS] and [SEP].

Tokens travel as a dict of ragged tensors under names, all [rows, (tokens)] int32 and of equal row lengths:

  token_ids                  ids of the tokens
  word_ids                   which word of the text a token is of; -1 for [CLS] and [SEP]
  start_bytes, end_bytes     where the token stands in the original text; 0 for [CLS] and [SEP]
  start_chars, end_chars     the same in characters: text[start:end]
  segment_ids                added by `pack`: 0 for the first text, 1 for the second
  blocks, positions          added by `side_by_side`: which text of its row a token is of, and where in it

A function here treats all names that it is given alike, so tokens without offsets pack as fast as they can.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from bertline.pipeline.config import TokenizerVariant

Tokens = dict[str, tf.RaggedTensor]


class Windows(NamedTuple):
    """Rows cut into overlapping windows."""

    tokens: Tokens
    rows: tf.Tensor
    """[windows] int32: the row that each window is of."""
    begins: tf.Tensor
    """[windows] int32: the token of that row that the window begins with."""


class Sliding(NamedTuple):
    """How windows go over a long text."""

    size: int
    """Tokens of a window, without [CLS] and [SEP]."""
    step: int
    """Tokens from the begin of one to the begin of the next."""
    most: int
    """Windows that are read of a text at most."""

    @classmethod
    def over(cls, seq_len: int, step: int | None, most: int) -> Sliding:
        """Args: seq_len: tokens of a window with [CLS] and [SEP]; step: half of a window by default."""
        return cls(seq_len - 2, min(step or max(1, (seq_len - 2) // 2), seq_len - 2), most)

    @property
    def room(self) -> int:
        """Tokens that all of them show."""
        return self.size + (self.most - 1) * self.step


def pack(parts: tuple[Tokens, ...], cls_id: int, sep_id: int) -> Tokens:
    """[CLS] first [SEP], or [CLS] first [SEP] second [SEP]."""
    # The layout is made once, as places in a pool that holds an opening, a closing for each part, and the parts' tokens.
    ids = [part["token_ids"] for part in parts]
    column = tf.stack([ids[0].nrows(tf.int32), 1])
    columns, offset = [tf.fill(column, 0)], 1 + len(parts)
    for number, part in enumerate(ids, start=1):
        size = tf.size(part.flat_values)
        columns += [part.with_flat_values(tf.range(offset, offset + size)), tf.fill(column, number)]
        offset += size
    places = tf.concat(columns, axis=1)

    def laid_out(opening: int, closings: list[int], values: list[tf.Tensor]) -> tf.RaggedTensor:
        pool = tf.concat([[opening, *closings], *values], axis=0)
        return places.with_flat_values(tf.gather(pool, places.flat_values))

    special = {"token_ids": (cls_id, sep_id), "word_ids": (-1, -1)}
    packed = {}
    for name in parts[0]:
        opening, closing = special.get(name, (0, 0))
        packed[name] = laid_out(opening, [closing] * len(parts), [part[name].flat_values for part in parts])
    numbers = list(range(len(parts)))
    packed["segment_ids"] = laid_out(0, numbers, [tf.fill(tf.shape(ids[n].flat_values), n) for n in numbers])
    return packed


def side_by_side(tokens: Tokens, counts: tf.Tensor) -> Tokens:
    """Several texts in one row, which the encoder reads as if each stood alone.

    Args:
      tokens: of texts, those of one row after those of the other.
      counts: [rows] how many texts each row has.

    Returns:
      The tokens of the rows, with `blocks` (which text a token is of, from 1) and `positions` (where in it), and `firsts`,
      [rows, (texts)]: where in the row each text begins.
    """
    lengths = tokens["token_ids"].row_lengths()
    numbers = tf.ragged.range(counts).flat_values + 1
    added = {"blocks": tf.repeat(numbers, lengths), "positions": tf.ragged.range(lengths).flat_values}
    of_texts = {**tokens, **{name: tokens["token_ids"].with_flat_values(value) for name, value in added.items()}}
    by_row = {
        name: tf.RaggedTensor.from_row_lengths(ragged, counts, validate=False).merge_dims(1, 2)
        for name, ragged in of_texts.items()
    }
    by_row["firsts"] = sums_before(tf.RaggedTensor.from_row_lengths(lengths, counts, validate=False))
    return {name: tf.cast(ragged, tf.int32) for name, ragged in by_row.items()}


def longest_first(
    first: tf.Tensor, second: tf.Tensor, room: int, tokenizer_variant: TokenizerVariant
) -> tuple[tf.Tensor, tf.Tensor]:
    """How many tokens of each of two texts are kept, when the longer one loses its last token until both fit.

    Args:
      first, second: [rows] lengths.
      room: tokens that both together may have.
      tokenizer_variant: of an odd room, halved, `original` gives the odd token to the first text, `huggingface` to the
        longer one, and to the second if they are equal.
    """
    extra = tf.constant(room % 2, first.dtype)
    to_first = extra if tokenizer_variant == "original" else tf.where(first > second, extra, 0)
    half = room // 2
    kept_first = tf.minimum(first, tf.maximum(half + to_first, room - second))
    kept_second = tf.minimum(second, tf.maximum(half + extra - to_first, room - first))
    return kept_first, kept_second


def take(tokens: Tokens, rows: tf.Tensor, begins: tf.Tensor, lengths: tf.Tensor) -> Tokens:
    """New rows, each a run of tokens of an old one.

    Args:
      rows, begins, lengths: [new rows] of one integer type: which row, from which of its tokens on, how many.
    """

    ids = tokens["token_ids"]
    first = tf.gather(ids.row_starts(), rows) + tf.cast(begins, ids.row_splits.dtype)
    places = tf.ragged.range(first, first + tf.cast(lengths, first.dtype))
    return {
        name: places.with_flat_values(tf.gather(ragged.flat_values, places.flat_values)) for name, ragged in tokens.items()
    }


def choose(condition: tf.Tensor, chosen: Tokens, others: Tokens) -> Tokens:
    """Rows of `chosen`, in their order, where the condition holds, and rows of `others` elsewhere.

    Args:
      condition: [rows] bool; as many are true as `chosen` has rows.
    """
    both = {}
    for name, ragged in chosen.items():
        other = others[name]
        values = tf.concat([ragged.flat_values, other.flat_values], axis=0)
        lengths = tf.concat([ragged.row_lengths(), other.row_lengths()], axis=0)
        both[name] = tf.RaggedTensor.from_row_lengths(values, lengths, validate=False)
    order = tf.concat([tf.where(condition)[:, 0], tf.where(~condition)[:, 0]], axis=0)
    back = tf.math.invert_permutation(order)
    return take(both, back, tf.zeros_like(back), tf.gather(both["token_ids"].row_lengths(), back))


def cut(tokens: Tokens, lengths: tf.Tensor) -> Tokens:
    """The first tokens of each row; `lengths` [rows] must not exceed what there is."""
    rows = tf.range(tf.size(lengths))
    return take(tokens, rows, tf.zeros_like(rows), lengths)


def ends(tokens: Tokens, heads: tf.Tensor, tails: tf.Tensor) -> Tokens:
    """The first tokens of each row and then its last; both together [rows] must not exceed what there is."""
    lengths = tf.cast(tokens["token_ids"].row_lengths(), heads.dtype)
    rows = tf.repeat(tf.range(tf.size(heads)), 2)
    begins = tf.stack([tf.zeros_like(heads), lengths - tails], axis=1)
    runs = take(tokens, rows, tf.reshape(begins, [-1]), tf.reshape(tf.stack([heads, tails], axis=1), [-1]))
    return {name: tf.RaggedTensor.from_uniform_row_length(ragged, 2).merge_dims(1, 2) for name, ragged in runs.items()}


def windows(tokens: Tokens, size: tf.Tensor, step: int) -> Windows:
    """Cuts each row into windows, the last of which ends with the row; a row that fits is one window.

    Args:
      size: [rows] tokens that a window of the row has at most.
      step: tokens from the begin of a window to the begin of the next; no more than `size`, so that nothing is skipped.
    """
    lengths = tf.cast(tokens["token_ids"].row_lengths(), tf.int32)
    steps = tf.minimum(step, size)
    further = tf.maximum(lengths - size + steps - 1, 0) // steps  # windows after the first one
    rows = tf.repeat(tf.range(tf.size(lengths)), further + 1)
    begins = tf.ragged.range(further + 1).flat_values * tf.gather(steps, rows)
    kept = tf.minimum(tf.gather(size, rows), tf.gather(lengths, rows) - begins)
    return Windows(take(tokens, rows, begins, kept), rows, begins)


def most_context(cut: Windows, tokens: tf.RaggedTensor) -> tf.RaggedTensor:
    """Which window speaks for each token, where several show it: that with the most around it, the first of equals.

    Context is what it is for the original's SQuAD: the lesser number of the tokens before and behind, plus a hundredth of
    the window's length. In each window the chosen tokens stand together, and windows that follow each other choose tokens
    that do so too.

    Args:
      cut: windows with a [CLS] before and a [SEP] behind each.
      tokens: what they were cut from.
    Returns:
      [windows, (tokens)] int32: 1 where the window was chosen for the token, 0 elsewhere and for [CLS] and [SEP].
    """
    packed = cut.tokens["token_ids"]
    of_window = packed.value_rowids()
    place = tf.cast(tf.ragged.range(packed.row_lengths()).flat_values, tf.int32) - 1
    length = tf.gather(tf.cast(packed.row_lengths(), tf.int32) - 2, of_window)
    is_token = (place >= 0) & (place < length)
    context = tf.cast(100 * tf.minimum(place, length - 1 - place) + length, tf.int64)
    # No two are equal: of equal contexts the earlier window's number is the larger one.
    rank = context * (packed.nrows() + 1) - of_window
    begins = tf.gather(tf.cast(tokens.row_starts(), tf.int32), cut.rows) + cut.begins
    which = tf.where(is_token, tf.gather(begins, of_window) + place, 0)
    rank = tf.where(is_token, rank, tf.int64.min)
    best = tf.math.unsorted_segment_max(rank, which, tf.maximum(tf.size(tokens.flat_values), 1))
    return packed.with_flat_values(tf.cast(is_token & (rank == tf.gather(best, which)), tf.int32))


def sums_before(ragged: tf.RaggedTensor) -> tf.RaggedTensor:
    """Sum of the values that stand before each one in its row."""
    sums = tf.cumsum(ragged.flat_values, exclusive=True)
    at_row_begin = tf.gather(tf.concat([sums, [0]], axis=0), ragged.row_starts())  # an empty last row begins at the end
    return ragged.with_flat_values(sums - tf.repeat(at_row_begin, ragged.row_lengths()))
