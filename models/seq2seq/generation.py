"""What a trained encoder-decoder writes for a batch of sources, and where it looked while it wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from bertline.models.data.batching import pad
from bertline.models.encoders.bert.attention import Seen
from bertline.models.seq2seq import decoding
from bertline.models.seq2seq.model import Seq2Seq
from bertline.models.tasks.base.task import Context
from bertline.models.tokenization.vocabulary import CLS, MASK, PAD, UNK


class Decoder:
    """Writes the translations of a batch.

    Args:
      batch: of the sources alone: `token_ids` and `mask`.
    """

    def __init__(self, model: Seq2Seq, batch: Mapping[str, tf.Tensor], context: Context) -> None:
        target, self._settings, self._model = context.target, context.translation, model
        self._source = model.read(batch["token_ids"], batch["mask"])
        tokens = tf.reduce_sum(tf.cast(batch["mask"], tf.int32), axis=1) - 1  # without [SEP]
        more = (
            tf.cast(self._settings.max_length_ratio * tf.cast(tokens, tf.float32), tf.int32)
            + self._settings.max_extra_tokens
        )
        self._limits = tf.where(tokens == 0, 0, tf.minimum(more, target.seq_len - 1))
        never = [target.vocab.index(token) for token in (PAD, UNK, CLS, MASK) if token in target.vocab]
        self._never = tf.constant(np.isin(np.arange(target.vocab_size), never) * np.float32(decoding.NEVER))
        self._ends = {"begin_id": target.cls_id, "end_id": target.sep_id}

    def greedy(self) -> decoding.Texts:
        return self.follow(decoding.likeliest)

    def follow(self, choose: decoding.Choose) -> decoding.Texts:
        """One text a source, each token chosen from the scores that those before it give."""
        return decoding.follow(
            self.step(1), self.nothing(1), self._limits, choose, alpha=self._settings.length_penalty, **self._ends
        )

    def best(self) -> decoding.Texts:
        """As the config says: [batch, n_best, (tokens)]."""
        settings = self._settings
        if settings.search == "greedy":
            found = self.greedy()
            return decoding.Texts(tf.expand_dims(found.ids, 1), found.scores[:, tf.newaxis])
        return decoding.beam_search(
            self.step(settings.num_beams),
            self.nothing(settings.num_beams),
            self._limits,
            beam=settings.num_beams,
            n_best=min(settings.n_best, settings.num_beams),
            alpha=settings.length_penalty,
            **self._ends,
        )

    def step(self, beams: int) -> decoding.Step:
        """What the next tokens are, for so many texts a source."""

        def step(last: tf.Tensor, written: tf.Tensor, past: Any) -> tuple[tf.Tensor, Any]:
            found = self._model.write(last[:, tf.newaxis], self._source, past=past, begin=written, beams=beams)
            return tf.cast(self._model.logits(found.states), tf.float32) + self._never, found.past

        return step

    def nothing(self, beams: int) -> tuple[Seen, ...]:
        """What is seen of texts before their first token."""
        size, rows = self._model.size, tf.shape(self._limits)[0] * beams
        dtype = self._model.compute_dtype
        keys = tf.zeros([rows, size.heads, size.head_size, 0], dtype)
        values = tf.zeros([rows, size.heads, 0, size.head_size], dtype)
        return (Seen(keys, values),) * size.decoder_layers


def alignment(model: Seq2Seq, batch: Mapping[str, tf.Tensor], written: tf.RaggedTensor) -> tf.Tensor:
    """[batch, target, source]: how much each token of a text looked at each of its source; 0 where there is none.

    Args:
      batch: of the sources: `token_ids` and `mask`.
      written: [batch, (tokens)], the texts, without an end.
    """
    length = tf.cast(written.bounding_shape()[1], tf.int32)
    # One place more, for a batch of empty texts too has to have one.
    _, looks = model.forced({**batch, "target_ids": pad(written, length + 1)})
    # All heads of the last but one layer: of the last, they already mix what is to be written next.
    found = tf.reduce_mean(looks[max(0, len(looks) - 2)], axis=1)[:, :length]
    is_token = tf.sequence_mask(written.row_lengths(), length)[:, :, tf.newaxis]
    return tf.where(is_token & batch["mask"][:, tf.newaxis], found, 0.0)
