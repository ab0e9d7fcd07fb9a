"""Several short texts in one row, so that little of a batch is padding.

The texts of a row do not see each other: the encoder is given `blocks` (which text a token is of) and `positions` (where
in it), and computes for each text what it would compute for it alone.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import tensorflow as tf

from bertline.models.data.batching import Corpus


def pack_rows(corpus: Corpus, room: int) -> Corpus:
    """The corpus with as many texts in a row as fit into `room` tokens.

    All numbers of a row's texts are put one after the other, and one value a text becomes a list of them; `…_positions`
    count from the begin of the row. New are `blocks`, counted from 1, `positions`, and `firsts`, where each text begins.
    """
    rows = best_fit(corpus.lengths, room)
    texts = np.concatenate([np.zeros(0, np.int64), *rows])
    per_row = np.asarray([len(row) for row in rows], np.int64)
    lengths = corpus.lengths[texts]
    begins = lengths.cumsum() - lengths
    firsts = begins - np.repeat(begins[np.concatenate([[0], per_row.cumsum()[:-1]])], per_row)  # within its row
    numbers = tf.ragged.range(per_row).flat_values.numpy() + 1

    def by_row(values: np.ndarray, counts: np.ndarray) -> tf.RaggedTensor:
        """Numbers of the texts, `counts` of them each, as numbers of the rows."""
        of_rows = np.add.reduceat(counts, np.concatenate([[0], per_row.cumsum()[:-1]]))
        return tf.RaggedTensor.from_row_lengths(values.astype(np.int32), of_rows)

    tokens = tf.gather(tf.RaggedTensor.from_row_splits(corpus.values, corpus.starts), texts).flat_values.numpy()
    one_each = np.ones_like(lengths)
    others = {
        "blocks": by_row(np.repeat(numbers, lengths), lengths),
        "positions": by_row(tf.ragged.range(lengths).flat_values.numpy(), lengths),
        "firsts": by_row(firsts, one_each),
    }
    for name, ragged in corpus.others.items():
        moved = tf.gather(ragged, texts)
        counts, values = moved.row_lengths().numpy(), moved.flat_values.numpy()
        others[name] = by_row(values + np.repeat(firsts, counts) if name.endswith("_positions") else values, counts)
    others |= {name: by_row(value[texts], one_each) for name, value in corpus.targets.items()}
    starts = np.concatenate([[0], others["blocks"].row_lengths().numpy()]).cumsum()
    return replace(corpus, values=tokens, starts=starts, targets={}, others=others)


def best_fit(lengths: np.ndarray, room: int) -> list[np.ndarray]:
    """Rows of texts: the longest text first, each into the row with the least room that still holds it.

    Equal lengths give equal rows. Of N texts it takes about N · room comparisons at worst, and far fewer in practice.
    """
    left: list[list[int]] = [[] for _ in range(room + 1)]  # rows by the room they have left
    rows: list[list[int]] = []
    for text in np.argsort(-lengths, kind="stable"):
        length = int(lengths[text])
        fitting = next((space for space in range(length, room + 1) if left[space]), None)
        if fitting is None:
            rows.append([])
            number, space = len(rows) - 1, room
        else:
            number, space = left[fitting].pop(), fitting
        rows[number].append(int(text))
        if length <= space:
            left[space - length].append(number)
    return [np.asarray(row, np.int64) for row in rows]
