"""From scores of the next token to whole texts, in the graph: the likeliest token each time, a beam search, or chance.

A model is a function `step`: (the last tokens, how many stand before them, state) -> (logits of the next ones, new state).
The state is any structure of tensors whose first axis counts the texts that are being written; what later tokens see of
earlier ones is kept there, so that nothing is computed twice. A text ends with `end_id`, at the latest after as many tokens
as its own limit says: what is written never depends on the other rows of its batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

Step = Callable[[tf.Tensor, tf.Tensor, Any], tuple[tf.Tensor, Any]]
Choose = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
"""(logits [rows, tokens], how many tokens were written before) -> [rows] int32."""

NEVER = -1e9


class Texts(NamedTuple):
    """What was written."""

    ids: tf.RaggedTensor
    """[rows, (tokens)], or [rows, n_best, (tokens)] the best first; without the begin and the end."""
    scores: tf.Tensor
    """[rows] or [rows, n_best]: the sum of the logarithms of the tokens' probabilities, the end's too, over the length
    penalty."""

    def first(self) -> tf.RaggedTensor:
        """[rows, (tokens)]: of several texts a row, the best."""
        rows, several = tf.unstack(tf.shape(self.scores))
        return tf.gather(self.ids.values, tf.range(rows) * several)


def length_penalty(length: tf.Tensor, alpha: float) -> tf.Tensor:
    """((5 + length) / 6)^alpha, by which the score of a text with so many tokens, the end included, is divided."""
    return tf.pow((5.0 + tf.cast(length, tf.float32)) / 6.0, alpha)


def likeliest(logits: tf.Tensor, written: tf.Tensor) -> tf.Tensor:
    return tf.argmax(logits, axis=-1, output_type=tf.int32)


def by_chance(temperature: tf.Tensor, top_k: tf.Tensor, top_p: tf.Tensor, seeds: tf.Tensor) -> Choose:
    """Draws each token by its probability; every row by its own rules.

    Args:
      temperature: [rows]: shares are sharpened below 1 and evened out above; at 0 the likeliest token is taken.
      top_k: [rows]: only so many of the likeliest are drawn from; 0 is all.
      top_p: [rows]: only as many of the likeliest as have this probability together.
      seeds: [rows]: what is drawn for a row follows from its seed and the place in its text.
    """

    def choose(logits: tf.Tensor, written: tf.Tensor) -> tf.Tensor:
        sharp = logits / tf.maximum(temperature, 1e-6)[:, tf.newaxis]
        ranked, tokens = tf.math.top_k(sharp, tf.shape(sharp)[1])
        probabilities = tf.nn.softmax(ranked)
        before = tf.cumsum(probabilities, axis=1, exclusive=True)
        rank = tf.range(tf.shape(sharp)[1])[tf.newaxis]
        allowed = (rank == 0) | (before < top_p[:, tf.newaxis]) & (
            (top_k <= 0)[:, tf.newaxis] | (rank < top_k[:, tf.newaxis])
        )
        reached = tf.cumsum(tf.where(allowed, probabilities, 0.0), axis=1)
        at = tf.cast(written, tf.int64)
        chance = tf.map_fn(
            lambda seed: tf.random.stateless_uniform([], tf.stack([seed, at])), seeds, fn_output_signature=tf.float32
        )
        # The first whose sum exceeds what was drawn; those that are not allowed add nothing, and so are never the first.
        drawn = tf.reduce_sum(tf.cast(reached <= chance[:, tf.newaxis] * reached[:, -1:], tf.int32), axis=1)
        return tf.gather(tokens, tf.minimum(drawn, tf.shape(tokens)[1] - 1), batch_dims=1)

    return choose


def follow(
    step: Step, state: Any, limits: tf.Tensor, choose: Choose = likeliest, *, begin_id: int, end_id: int, alpha: float = 0.0
) -> Texts:
    """Writes one text a row, each token chosen from the scores that its predecessors give.

    Args:
      state: of texts that are empty; [rows, …] each.
      limits: [rows] int32: tokens that each text has at most, without its end.
      choose: how.
    """
    rows = tf.shape(limits)[0]
    ids = tf.fill([rows, 1], begin_id)
    start = (tf.constant(0), ids, tf.zeros([rows]), tf.zeros([rows], tf.int32), tf.zeros([rows], tf.bool), state)

    def go_on(written: tf.Tensor, ids: Any, sums: Any, lengths: Any, ended: tf.Tensor, state: Any) -> tf.Tensor:
        return ~tf.reduce_all(ended)

    def add_token(
        written: tf.Tensor, ids: tf.Tensor, sums: tf.Tensor, lengths: tf.Tensor, ended: tf.Tensor, state: Any
    ) -> tuple[Any, ...]:
        logits, state = step(ids[:, -1], written, state)
        chosen = tf.where(ended | (written >= limits), end_id, choose(logits, written))
        gained = tf.gather(logits, chosen, batch_dims=1) - tf.reduce_logsumexp(logits, axis=-1)
        sums += tf.where(ended, 0.0, gained)
        lengths += tf.cast(~ended, tf.int32)
        return written + 1, tf.concat([ids, chosen[:, tf.newaxis]], 1), sums, lengths, ended | (chosen == end_id), state

    shapes = (tf.TensorShape([]), tf.TensorShape([None, None]), *[tf.TensorShape([None])] * 3, _growing(state))
    _, ids, sums, lengths, _, _ = tf.while_loop(go_on, add_token, start, shape_invariants=shapes)
    # Every length counts the end.
    written = tf.RaggedTensor.from_tensor(ids[:, 1:], lengths=tf.maximum(lengths - 1, 0))
    return Texts(written, sums / length_penalty(lengths, alpha))


def beam_search(
    step: Step,
    state: Any,
    limits: tf.Tensor,
    *,
    begin_id: int,
    end_id: int,
    beam: int,
    n_best: int = 1,
    alpha: float = 0.0,
) -> Texts:
    """Keeps `beam` texts a row in view, and gives the best that have ended.

    A text that has ended keeps its score, and its place among the beams for as long as no `beam` others are better. The
    search of a row is over when nothing that is still being written could become one of its `n_best`.

    Args:
      state: of texts that are empty; [rows * beam, …] each, those of a row together.
      limits: [rows] int32: tokens that each text has at most, without its end.
    """
    rows = tf.shape(limits)[0]
    latest = length_penalty(limits + 1, alpha)  # [rows]

    def go_on(written: tf.Tensor, ids: Any, sums: Any, lengths: Any, ended: tf.Tensor, settled: Any, state: Any) -> Any:
        return ~tf.reduce_all(settled)

    def add_tokens(
        written: tf.Tensor,
        ids: tf.Tensor,  # [rows, beam, length]
        sums: tf.Tensor,  # [rows, beam]
        lengths: tf.Tensor,
        ended: tf.Tensor,
        settled: tf.Tensor,  # [rows]
        state: Any,
    ) -> tuple[Any, ...]:
        logits, state = step(tf.reshape(ids[:, :, -1], [-1]), written, state)
        tokens, gains = _candidates(logits, tf.reshape(ended, [-1]), tf.repeat(written >= limits, beam), beam, end_id)
        width = tf.shape(tokens)[1]
        totals = tf.reshape(tf.reshape(sums, [-1, 1]) + gains, [rows, -1])  # [rows, beam * width]
        longer = lengths + tf.cast(~ended, tf.int32)
        by_length = tf.repeat(length_penalty(longer, alpha), width, axis=1)
        _, best = tf.math.top_k(totals / by_length, beam)
        parents = best // width  # [rows, beam]
        chosen = tf.gather(tf.reshape(tokens, [rows, -1]), best, batch_dims=1)
        ids, lengths, ended = (tf.gather(value, parents, batch_dims=1) for value in (ids, longer, ended))
        ids = tf.concat([ids, chosen[:, :, tf.newaxis]], axis=2)
        sums, ended = tf.gather(totals, best, batch_dims=1), ended | (chosen == end_id)
        flat = tf.reshape(parents + beam * tf.range(rows)[:, tf.newaxis], [-1])
        state = tf.nest.map_structure(lambda tensor: tf.gather(tensor, flat), state)
        return written + 1, ids, sums, lengths, ended, settled_rows(sums, lengths, ended), state

    def settled_rows(sums: tf.Tensor, lengths: tf.Tensor, ended: tf.Tensor) -> tf.Tensor:
        # The more is written, the lower the sum, and the higher what it is divided by: no text that goes on can end with
        # more than its present sum over the penalty of the longest text.
        at_most = tf.reduce_max(tf.where(ended, NEVER, sums / latest[:, tf.newaxis]), axis=1)
        done = tf.where(ended, sums / length_penalty(lengths, alpha), NEVER)
        least = tf.math.top_k(done, n_best).values[:, -1]
        return tf.reduce_all(ended, axis=1) | (least >= at_most) & (least > NEVER / 2)

    ids = tf.fill([rows, beam, 1], begin_id)
    # The beams begin alike: only the first counts, or all of them would go the same way.
    sums = tf.tile(tf.constant([[0.0] + [NEVER] * (beam - 1)]), [rows, 1])
    none, open_ = tf.zeros([rows, beam], tf.int32), tf.zeros([rows, beam], tf.bool)
    start = (tf.constant(0), ids, sums, none, open_, tf.zeros([rows], tf.bool), state)
    of_beams, of_rows = tf.TensorShape([None, beam]), tf.TensorShape([None])
    of_ids = tf.TensorShape([None, beam, None])
    shapes = (tf.TensorShape([]), of_ids, of_beams, of_beams, of_beams, of_rows, _growing(state))
    _, ids, sums, lengths, ended, _, _ = tf.while_loop(go_on, add_tokens, start, shape_invariants=shapes)
    scores = tf.where(ended, sums / length_penalty(lengths, alpha), NEVER)
    scores, best = tf.math.top_k(scores, n_best)
    absent = scores <= NEVER / 2  # where fewer texts than asked for are possible at all
    kept = tf.where(absent, 0, tf.gather(lengths, best, batch_dims=1) - 1)
    ids = tf.gather(ids[:, :, 1:], best, batch_dims=1)
    flat = tf.RaggedTensor.from_tensor(tf.reshape(ids, [-1, tf.shape(ids)[2]]), lengths=tf.reshape(kept, [-1]))
    texts = tf.RaggedTensor.from_uniform_row_length(flat, n_best, nrows=tf.cast(rows, tf.int64))
    return Texts(texts, tf.where(absent, -float("inf"), scores))


def _candidates(
    logits: tf.Tensor, ended: tf.Tensor, at_limit: tf.Tensor, beam: int, end_id: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """How each text may go on: tokens and what each adds to the sum, both [texts, up to `beam`].

    No more than `beam` tokens of one text can be among the best of its row. A text that has ended goes on in one way, at no
    cost; one that is as long as it may be only ends.
    """
    total = tf.reduce_logsumexp(logits, axis=-1)
    best, tokens = tf.math.top_k(logits, tf.minimum(beam, tf.shape(logits)[1]))
    gains = best - total[:, tf.newaxis]
    only_end = tf.where(ended, 0.0, logits[:, end_id] - total)
    closes = (ended | at_limit)[:, tf.newaxis]
    first = tf.range(tf.shape(tokens)[1]) == 0
    gains = tf.where(closes, tf.where(first, only_end[:, tf.newaxis], NEVER), gains)
    return tf.where(closes, end_id, tokens), gains


def _growing(state: Any) -> Any:
    """Any number of texts; what is empty at the beginning grows."""
    return tf.nest.map_structure(lambda tensor: tf.TensorShape([None, *(size or None for size in tensor.shape[1:])]), state)
