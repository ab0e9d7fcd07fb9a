"""Tokens that know where they come from, for those who explain an answer by the words of its texts.

Such tokens bring four more numbers along, under the names of PLACES. Packing treats all names alike, so that they stay
with their tokens through pairs, windows and endings; [CLS], [SEP] and padding have 0 in each.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

PLACES = ("place_text", "place_word", "place_start", "place_end")
"""Which of a row's texts a token is of, from 0; which of its words, from 1, so that 0 is none; and where it stands in the
text, in characters: text[start:end]."""


def tokens_of(texts: tf.Tensor, context: Any, number: int | tf.Tensor = 0) -> dict[str, tf.RaggedTensor]:
    """The tokens of texts, as `context.text` reads them, with their places where the context wants them.

    Args:
      texts: [texts] string.
      context: a `bertline.models.tasks.base.task.Context`.
      number: which of its row's texts each of them is: one for all, or [texts].
    """
    if not context.places:
        return {"token_ids": context.text.tokenize(texts)}
    found = context.text.tokens(texts)
    return {"token_ids": found["token_ids"], **places_of(found, number)}


def places_of(tokens: dict[str, tf.RaggedTensor], number: int | tf.Tensor = 0) -> dict[str, tf.RaggedTensor]:
    """The places of what `TextEncoder.tokens` has found."""
    ids = tokens["token_ids"]
    numbers = tf.repeat(tf.broadcast_to(tf.cast(number, tf.int32), [ids.nrows(tf.int32)]), ids.row_lengths())
    columns = ids.with_flat_values(numbers), tokens["word_ids"] + 1, tokens["start_chars"], tokens["end_chars"]
    return dict(zip(PLACES, columns, strict=True))
