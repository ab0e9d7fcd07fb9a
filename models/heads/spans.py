"""Answers as spans of tokens: where they stand in windows over a text, and which span of all windows is the answer.

The rules are those of the original BERT's SQuAD code, here as TensorFlow ops over a whole batch. Windows are rows of
tokens as `bertline.models.tokenization.packing` has them, with one more number a token, `places`: the token's place in its
text, counted from 1, and 0 for the question, [CLS], [SEP] and padding.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import tensorflow as tf

from bertline.models.tokenization.packing import Tokens, Windows, take

N_BEST = 20
MAX_ANSWER = 30
"""Tokens of an answer."""
NEVER = -1e9
"""A score that no answer has."""


class Span(NamedTuple):
    """[rows] int32 each: the first and the last token of an answer in its text; -1 where there is none."""

    first: tf.Tensor
    last: tf.Tensor


def tokens_of_answer(passage: Tokens, begins: tf.Tensor, ends: tf.Tensor) -> Span:
    """The tokens that an answer touches.

    Args:
      passage: with `start_chars` and `end_chars`.
      begins, ends: [rows] the answer's characters, text[begin:end]; an empty one touches nothing.
    """

    def count(condition: tf.RaggedTensor) -> tf.Tensor:
        return tf.reduce_sum(tf.cast(condition, tf.int32), axis=1)

    first = count(passage["end_chars"] <= begins[:, tf.newaxis])
    last = count(passage["start_chars"] < ends[:, tf.newaxis]) - 1
    found = (begins < ends) & (first <= last)
    return Span(tf.where(found, first, -1), tf.where(found, last, -1))


def targets_in_windows(windows: Windows, answer: Span) -> Span:
    """Positions of an answer in each window; 0, that of [CLS], for windows that do not hold the whole of it."""
    places = windows.tokens["places"]
    length = tf.cast(places.row_lengths(), tf.int32)
    held = tf.reduce_sum(tf.cast(places > 0, tf.int32), axis=1)
    before = length - 1 - held  # [CLS], the question and its [SEP]; the last token is a [SEP] as well
    first, last = (tf.gather(token, windows.rows) - windows.begins for token in answer)
    inside = (tf.gather(answer.first, windows.rows) >= 0) & (first >= 0) & (last < held)
    return Span(tf.where(inside, first + before, 0), tf.where(inside, last + before, 0))


def has_most_context(windows: Windows) -> tf.RaggedTensor:
    """[windows, (tokens)] bool: whether no other window of the row shows a token of the text with more around it.

    The measure is min(tokens to the left, tokens to the right) + 0.01 · tokens of the text in the window; the first of
    windows that are equal in it has the most.
    """
    places = windows.tokens["places"]
    flat, window = places.flat_values, tf.cast(places.value_rowids(), tf.int32)
    held = tf.reduce_sum(tf.cast(places > 0, tf.int32), axis=1)
    left = flat - 1 - tf.gather(windows.begins, window)
    size = tf.gather(held, window)
    context = 100 * tf.minimum(left, size - 1 - left) + size  # whole numbers: equal is equal
    context = tf.where(flat > 0, context, -1)
    # One segment for each token of each row's text.
    longest = 1 + tf.reduce_max(tf.concat([[0], flat], axis=0))
    segment = tf.gather(windows.rows, window) * longest + flat
    segments = (1 + tf.reduce_max(tf.concat([[-1], windows.rows], axis=0))) * longest
    most = tf.gather(tf.math.unsorted_segment_max(context, segment, segments), segment)
    is_most = (context == most) & (flat > 0)
    candidates = tf.where(is_most, window, tf.int32.max)
    first = tf.gather(tf.math.unsorted_segment_min(candidates, segment, segments), segment)
    return places.with_flat_values(is_most & (window == first))


class Answers(NamedTuple):
    """The best answers of each row, best first, each text once: [rows, N_BEST]; NEVER is the score of what is not there."""

    scores: tf.Tensor
    texts: tf.Tensor
    starts: tf.Tensor
    """In characters of the text."""
    ends: tf.Tensor
    without: tf.Tensor
    """[rows] the score of there being no answer: the lowest of the row's windows."""


def best_answers(start_scores: tf.Tensor, end_scores: tf.Tensor, batch: Mapping[str, tf.Tensor]) -> Answers:
    """The best spans of all windows of each row.

    Of each window the N_BEST best starts and ends are put together, where both are in the text, in this order, no more than
    MAX_ANSWER tokens apart, and the start has its most context here.

    Args:
      start_scores, end_scores: [windows, seq].
      batch: `places`, `most_context`, `start_chars`, `end_chars`, `start_bytes`, `end_bytes` [windows, seq], `window_rows`
        [windows], and `passage` [rows], the texts themselves.
    """
    passages, rows_of = batch["passage"], batch["window_rows"]
    rows = tf.shape(passages)[0]
    kept = tf.minimum(N_BEST, tf.shape(start_scores)[1])
    start_score, first = tf.math.top_k(start_scores, kept)
    end_score, last = tf.math.top_k(end_scores, kept)
    may_begin = tf.gather(batch["most_context"], first, batch_dims=1)
    may_end = tf.gather(batch["places"], last, batch_dims=1) > 0
    length = last[:, tf.newaxis, :] - first[:, :, tf.newaxis] + 1
    fits = (length >= 1) & (length <= MAX_ANSWER) & may_begin[:, :, tf.newaxis] & may_end[:, tf.newaxis, :]
    window, at_first, at_last = tf.unstack(tf.cast(tf.where(fits), tf.int32), num=3, axis=1)

    def chosen(ranked: tf.Tensor, at: tf.Tensor) -> tf.Tensor:
        return tf.gather_nd(ranked, tf.stack([window, at], axis=1))

    score = chosen(start_score, at_first) + chosen(end_score, at_last)
    row = tf.gather(rows_of, window)
    order = tf.argsort(score, direction="DESCENDING", stable=True)
    order = tf.gather(order, tf.argsort(tf.gather(row, order), stable=True))
    first, last = chosen(first, at_first), chosen(last, at_last)
    score, row, window, first, last = (tf.gather(x, order) for x in (score, row, window, first, last))

    def of_token(name: str, token: tf.Tensor) -> tf.Tensor:
        return tf.gather_nd(batch[name], tf.stack([window, token], axis=1))

    begin, end = of_token("start_bytes", first), of_token("end_bytes", last)
    text = tf.strings.substr(tf.gather(passages, row), begin, end - begin)
    new = _first_of_its_kind(tf.strings.join([tf.strings.as_string(row), text], separator=":"))
    row = tf.boolean_mask(row, new)

    def by_row(values: tf.Tensor, default: object) -> tf.Tensor:
        ragged = tf.RaggedTensor.from_value_rowids(tf.boolean_mask(values, new), row, nrows=rows, validate=False)
        return ragged.to_tensor(default, shape=[None, N_BEST])

    without = tf.math.unsorted_segment_min(start_scores[:, 0] + end_scores[:, 0], rows_of, rows)
    return Answers(
        by_row(score, NEVER),
        by_row(text, ""),
        by_row(of_token("start_chars", first), 0),
        by_row(of_token("end_chars", last), 0),
        without,
    )


def _first_of_its_kind(keys: tf.Tensor) -> tf.Tensor:
    """[keys] bool: whether no equal key stands before it."""
    different, which = tf.unique(keys)
    places = tf.range(tf.size(keys))
    first = tf.math.unsorted_segment_min(places, which, tf.size(different))
    return tf.gather(first, which) == places


def with_none(answers: Answers) -> Answers:
    """Ranks no answer, an empty text, among the others: [rows, N_BEST + 1].

    As one of the N_BEST it takes the place of the last of them; otherwise it stands after them.
    """
    extended = [
        tf.concat([part, last[:, tf.newaxis]], axis=1)
        for part, last in zip(
            answers[:4],
            (answers.without, tf.fill(tf.shape(answers.without), ""), *[tf.zeros_like(answers.starts[:, 0])] * 2),
            strict=True,
        )
    ]
    order = tf.argsort(extended[0], axis=1, direction="DESCENDING", stable=True)
    scores, texts, starts, ends = (tf.gather(part, order, batch_dims=1) for part in extended)
    is_surplus = (tf.range(N_BEST + 1) == N_BEST) & (order != N_BEST)  # the last one, if it is not the empty text
    return Answers(
        tf.where(is_surplus, NEVER, scores),
        tf.where(is_surplus, "", texts),
        tf.where(is_surplus, 0, starts),
        tf.where(is_surplus, 0, ends),
        answers.without,
    )


def parts_of_pair(tokens: Tokens) -> tuple[Tokens, Tokens]:
    """The two texts of packed pairs, without [CLS] and [SEP]."""
    segments = tokens["segment_ids"]
    total = tf.cast(segments.row_lengths(), tf.int32)
    second = tf.cast(tf.reduce_sum(segments, axis=1), tf.int32)  # with its [SEP]
    first = total - second  # with [CLS] and [SEP]
    rows = tf.range(tf.size(total))
    return take(tokens, rows, tf.ones_like(rows), first - 2), take(tokens, rows, first, second - 1)
