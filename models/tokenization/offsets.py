"""Where tokens stand in the original text.

Words are made of a text by dropping, replacing and decomposing single characters and by dropping spaces. What is left,
in order, is exactly what the tokens are made of. So it is enough to know how many characters each original character
leaves behind: the n-th character of a row's tokens then names the original character that it comes from. A token begins
where its first character comes from, and ends behind the one that its last character comes from.
"""

from __future__ import annotations

import tensorflow as tf

from bertline.models.tokenization.normalizer import WordSplitter
from bertline.models.tokenization.packing import sums_before


def locate(texts: tf.Tensor, token_lengths: tf.RaggedTensor, splitter: WordSplitter) -> dict[str, tf.RaggedTensor]:
    """Offsets of tokens into the original texts.

    Args:
      texts: [batch] string, as they were given. An ill-formed byte sequence counts as the one replacement character that
        `bytes.decode("utf-8", "replace")` makes of it.
      token_lengths: [batch, (tokens)] int32, characters of each token; of a word that is [UNK], those of the word.
      splitter: how the texts became words.
    Returns:
      `start_bytes`, `end_bytes`, `start_chars`, `end_chars`: [batch, (tokens)] int32.
    """
    marked = splitter.mark(texts)
    characters, bytes_before = tf.strings.unicode_decode_with_offsets(marked, "UTF-8", errors="replace")
    # The few hundred different characters of a batch are looked at once each.
    different, which = tf.unique(characters.flat_values)
    shown = tf.strings.unicode_encode(different[:, tf.newaxis], "UTF-8")
    words = splitter.split(splitter.normalise(shown))
    left_behind = _sums(words.with_flat_values(tf.strings.length(words.flat_values, unit="UTF8_CHAR")))
    # `unicode_encode` does not write noncharacters; they, and so our marks, are left as they are.
    is_noncharacter = (tf.bitwise.bitwise_and(different, 0xFFFE) == 0xFFFE) | (
        (different >= 0xFDD0) & (different <= 0xFDEF)
    )
    left_behind = tf.where(is_noncharacter, 1, left_behind)
    width_bytes = tf.where(different < 0x80, 1, tf.where(different < 0x800, 2, tf.where(different < 0x10000, 3, 4)))
    # A mark of three bytes stands for a whole token of ASCII: what follows it stands further on in the original.
    width_marked, width_chars = width_bytes, tf.ones_like(width_bytes)
    for token, mark in splitter.marks.items():
        width_bytes, width_chars = (tf.where(different == ord(mark), len(token), w) for w in (width_bytes, width_chars))

    def of_each(table: tf.Tensor) -> tf.RaggedTensor:
        return characters.with_flat_values(tf.gather(table, which))

    first_chars = sums_before(of_each(width_chars)).flat_values
    first_bytes = tf.cast(bytes_before.flat_values, tf.int32) + sums_before(of_each(width_bytes - width_marked)).flat_values

    left = of_each(left_behind)
    origin = tf.repeat(tf.range(tf.size(which)), left.flat_values)  # of each character left behind
    row_begins = tf.repeat(tf.cumsum(_sums(left), exclusive=True), token_lengths.row_lengths())
    begins = sums_before(token_lengths).flat_values + row_begins
    first, last = (tf.gather(origin, places) for places in (begins, begins + token_lengths.flat_values - 1))
    flat = {
        "start_bytes": tf.gather(first_bytes, first),
        "end_bytes": tf.gather(first_bytes, last) + tf.gather(width_bytes, tf.gather(which, last)),
        "start_chars": tf.gather(first_chars, first),
        "end_chars": tf.gather(first_chars, last) + tf.gather(width_chars, tf.gather(which, last)),
    }
    return {name: token_lengths.with_flat_values(values) for name, values in flat.items()}


def _sums(ragged: tf.RaggedTensor) -> tf.Tensor:
    return tf.math.unsorted_segment_sum(ragged.flat_values, ragged.value_rowids(), ragged.nrows())


def over_marks(texts: tf.Tensor, tokens: dict[str, tf.RaggedTensor]) -> dict[str, tf.RaggedTensor]:
    """The tokens, ending behind the combining marks that follow: an accent is dropped from a token, not from an answer.

    Args:
      texts: [batch] string, as they were given.
      tokens: with `end_chars` and `end_bytes` [batch, (tokens)] int32.
    """
    characters, bytes_before = tf.strings.unicode_decode_with_offsets(texts, "UTF-8", errors="replace")
    different, which = tf.unique(characters.flat_values)
    shown = tf.strings.unicode_encode(different[:, tf.newaxis], "UTF-8")
    is_mark = tf.gather(tf.strings.regex_full_match(shown, r"\p{M}"), which)
    others_before = tf.cumsum(tf.concat([[0], tf.cast(~is_mark, tf.int32)], axis=0))
    others = tf.concat([tf.cast(tf.where(~is_mark)[:, 0], tf.int32), [tf.size(which)]], axis=0)
    ends = tokens["end_chars"]
    row_starts, row_ends = (
        tf.repeat(tf.cast(of_row, tf.int32), ends.row_lengths())
        for of_row in (characters.row_starts(), characters.row_limits())
    )
    given = ends.flat_values + row_starts
    # The first character from there on that is no mark, if it is of the same text.
    moved = tf.minimum(tf.gather(others, tf.gather(others_before, given)), row_ends)
    padded_bytes = tf.concat([tf.cast(bytes_before.flat_values, tf.int32), [0]], axis=0)
    sizes = tf.repeat(tf.strings.length(texts), ends.row_lengths())
    moved_bytes = tf.where(moved < row_ends, tf.gather(padded_bytes, moved), sizes)
    end_bytes = tf.where(moved > given, moved_bytes, tokens["end_bytes"].flat_values)
    return {
        **tokens,
        "end_chars": ends.with_flat_values(moved - row_starts),
        "end_bytes": ends.with_flat_values(end_bytes),
    }
