"""A linear-chain CRF over the tags of a text: how well each tag goes with its word, and with the tag before it.

Plain TensorFlow, in log space. Scores of words are [rows, words, tags], scores of transitions [tags, tags] (from, to); the
first words of a row are real, as many as `lengths` says, and the others count nowhere.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

IMPOSSIBLE = -1e9


def log_total(scores: tf.Tensor, transitions: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """[rows]: logarithm of the sum of the exponentials of all ways to tag a row; 0 for a row without words."""
    ends = tf.reduce_logsumexp(_forward(scores, transitions), axis=-1)
    return _at_end(ends, lengths, 0.0)


def log_likelihood(scores: tf.Tensor, transitions: tf.Tensor, tags: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """[rows]: logarithm of the share that the given tags have of all ways; a tag of -1 is unknown, and may be any."""
    allowed = (tags[..., tf.newaxis] < 0) | (tags[..., tf.newaxis] == tf.range(tf.shape(scores)[2]))
    right = tf.where(allowed, scores, IMPOSSIBLE)
    return log_total(right, transitions, lengths) - log_total(scores, transitions, lengths)


def best_tags(scores: tf.Tensor, transitions: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """[rows, words] int32: the best of all ways to tag each row (Viterbi)."""

    def step(before: Any, word: tf.Tensor) -> Any:
        ways = before[0][:, :, tf.newaxis] + transitions  # [rows, from, to]
        return tf.reduce_max(ways, axis=1) + word, tf.argmax(ways, axis=1, output_type=tf.int32)

    words = tf.transpose(_with_two_words(scores), [1, 0, 2])
    start = words[0], tf.zeros_like(words[0], tf.int32)
    reached, came_from = tf.scan(step, words[1:], start)
    best = tf.argmax(tf.concat([start[0][tf.newaxis], reached], axis=0), axis=-1, output_type=tf.int32)  # [words, rows]
    # From the last word of each row back; behind it, the answer at each place is of no one.
    is_last = tf.range(tf.shape(words)[0])[:, tf.newaxis] == lengths - 1

    def back(after: tf.Tensor, at: Any) -> tf.Tensor:
        pointers, last, tag = at
        return tf.where(last, tag, tf.gather(pointers, after, batch_dims=1))

    # What stands at a word was come to by the pointers of the word behind it.
    found = tf.scan(back, (came_from, is_last[:-1], best[:-1]), best[-1], reverse=True)
    tags = tf.concat([found, best[-1:]], axis=0)
    return tf.transpose(tags)[:, : tf.shape(scores)[1]]


def probabilities(scores: tf.Tensor, transitions: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """[rows, words, tags]: the share of each tag at each word among all ways to tag its row."""
    forward = _forward(scores, transitions)
    # Read from its end, a row is a chain as well.
    reversed_scores = tf.reverse_sequence(_with_two_words(scores), lengths, seq_axis=1)
    backward = tf.reverse_sequence(_forward(reversed_scores, tf.transpose(transitions)), lengths, seq_axis=1)
    return tf.nn.softmax(forward + backward - _with_two_words(scores))[:, : tf.shape(scores)[1]]


def _forward(scores: tf.Tensor, transitions: tf.Tensor) -> tf.Tensor:
    """[rows, words, tags]: all ways that come to a tag at a word, that word's own score included."""

    def step(before: tf.Tensor, word: tf.Tensor) -> tf.Tensor:
        return tf.reduce_logsumexp(before[:, :, tf.newaxis] + transitions, axis=1) + word

    words = tf.transpose(_with_two_words(scores), [1, 0, 2])
    return tf.transpose(tf.concat([words[:1], tf.scan(step, words[1:], words[0])], axis=0), [1, 0, 2])


def _with_two_words(scores: tf.Tensor) -> tf.Tensor:
    """At least two words, so that there is a first one and a step to a next: a scan over no step fails in a graph."""
    missing = tf.maximum(2 - tf.shape(scores)[1], 0)
    return tf.pad(scores, [[0, 0], [0, missing], [0, 0]])


def _at_end(values: tf.Tensor, lengths: tf.Tensor, empty: float) -> tf.Tensor:
    """Of each row the value at its last word."""
    last = tf.gather(values, tf.maximum(lengths - 1, 0), batch_dims=1)
    return tf.where(lengths > 0, last, empty)
