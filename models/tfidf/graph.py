"""`counting.py` and `vocabulary.py` in TensorFlow: the same n-grams of the same texts, inside an exported model."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from bertline.models.tfidf.characters import OF_WORD, SPACE, WORD_ALONE, characters
from bertline.models.tfidf.counting import BLANK, FIRST, RUN_LENGTHS, SECOND, powers


class Points(NamedTuple):
    codes: tf.Tensor
    rows: tf.Tensor


class Grams(NamedTuple):
    rows: tf.Tensor
    keys: tf.Tensor


def points_of(texts: tf.Tensor, limit: int) -> Points:
    """[batch] -> the small letters of the characters."""
    read = tf.strings.unicode_decode(texts, "UTF-8")[:, :limit]
    codes = tf.cast(read.flat_values, tf.int64)
    table = characters()
    at = tf.minimum(tf.searchsorted(table.capitals, codes), len(table.capitals) - 1)
    small = tf.where(tf.gather(table.capitals, at) == codes, tf.gather(table.smalls, at), codes)
    return Points(small, read.value_rowids())


def _kinds(codes: tf.Tensor) -> tf.Tensor:
    table = characters()
    return tf.gather(table.kinds, tf.searchsorted(table.starts, codes, side="right") - 1)


def _firsts(goes_on: tf.Tensor, inside: tf.Tensor) -> tf.Tensor:
    """Of what is inside, whether it begins something.

    Args:
      goes_on: whether a character goes on with the one before it, of all but the first.
    """
    begins = tf.concat([tf.ones([1], tf.bool), tf.logical_not(goes_on)], axis=0)[: tf.shape(inside)[0]]
    return tf.boolean_mask(begins, inside)


def words_of(points: Points) -> Grams:
    codes, rows = points
    kinds = _kinds(codes)
    goes_on = (kinds[1:] == OF_WORD) & (kinds[:-1] == OF_WORD) & (rows[1:] == rows[:-1])
    inside = (kinds == OF_WORD) | (kinds == WORD_ALONE)
    is_first = _firsts(goes_on, inside)
    firsts, word = tf.where(is_first)[:, 0], tf.cumsum(tf.cast(is_first, tf.int64)) - 1
    place = tf.range(tf.shape(word, tf.int64)[0]) - tf.gather(firsts, word)
    summands = (tf.boolean_mask(codes, inside) + 1) * tf.gather(tf.constant(powers()), place)
    words = tf.math.unsorted_segment_sum(summands, word, tf.shape(firsts)[0])
    rows = tf.gather(tf.boolean_mask(rows, inside), firsts)
    beside = rows[1:] == rows[:-1]
    pairs = words[:-1] * tf.constant(FIRST, tf.int64) + words[1:] * tf.constant(SECOND, tf.int64)
    return Grams(
        tf.concat([rows, tf.boolean_mask(rows[1:], beside)], axis=0),
        tf.concat([words, tf.boolean_mask(pairs, beside)], axis=0),
    )


def runs_of(points: Points) -> Grams:
    codes, rows = points
    inside = _kinds(codes) != SPACE
    goes_on = inside[1:] & inside[:-1] & (rows[1:] == rows[:-1])
    is_first = _firsts(goes_on, inside)
    chunk = tf.cumsum(tf.cast(is_first, tf.int64)) - 1
    firsts = tf.where(is_first)[:, 0]
    count = tf.shape(firsts)[0]
    lengths = tf.math.unsorted_segment_sum(tf.ones_like(chunk), chunk, count) + 2
    places = tf.range(tf.shape(chunk, tf.int64)[0]) + 2 * chunk + 1
    blanks = tf.fill([tf.reduce_sum(lengths)], tf.constant(BLANK, tf.int64))
    spread = tf.tensor_scatter_nd_update(blanks, places[:, tf.newaxis], tf.boolean_mask(codes, inside))
    of_chunk = tf.repeat(tf.range(tf.cast(count, tf.int64)), lengths)
    rows = tf.gather(tf.gather(tf.boolean_mask(rows, inside), firsts), of_chunk)
    found_rows, found_keys, keys = [], [], spread + 1
    for length in RUN_LENGTHS:
        keys = keys[:-1] + (spread[length - 1 :] + 1) * tf.constant(powers()[length - 1])
        whole = of_chunk[: tf.shape(keys)[0]] == of_chunk[length - 1 :]
        found_rows.append(tf.boolean_mask(rows[: tf.shape(keys)[0]], whole))
        found_keys.append(tf.boolean_mask(keys, whole))
    return Grams(tf.concat(found_rows, axis=0), tf.concat(found_keys, axis=0))


COUNTED = {"words": words_of, "runs": runs_of}


class Counts(NamedTuple):
    """What is known of the n-grams of a batch, row by row."""

    places: tf.RaggedTensor
    """In the vocabulary: [batch, (features)] int64."""
    values: tf.RaggedTensor
    """Their TF-IDF, of length 1 a row."""


def counts_of(texts: tf.Tensor, kind: str, characters: int, keys: tf.Tensor, idf: tf.Tensor) -> Counts:
    """Args: keys, idf: of the vocabulary of this kind."""
    grams = COUNTED[kind](points_of(texts, characters))
    size, rows = tf.shape(keys, tf.int64)[0], tf.shape(texts, tf.int64)[0]
    at = tf.minimum(tf.cast(tf.searchsorted(keys, grams.keys), tf.int64), size - 1)
    known = tf.gather(keys, at) == grams.keys
    found, _, times = tf.unique_with_counts(tf.sort(tf.boolean_mask(grams.rows * size + at, known)))
    row, place = found // size, found % size
    values = (1 + tf.math.log(tf.cast(times, tf.float32))) * tf.gather(idf, place)
    lengths = tf.sqrt(tf.math.unsorted_segment_sum(tf.square(values), row, rows))
    splits = tf.RaggedTensor.from_value_rowids(place, row, nrows=rows, validate=False)
    return Counts(splits, splits.with_flat_values(values / tf.gather(lengths, row)))
