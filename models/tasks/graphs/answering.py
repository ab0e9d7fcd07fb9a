"""Questions about a text, answered by a span of it or not at all, as in SQuAD 1.1 and 2.0.

A long text is read in overlapping windows, each after the question. A window is a row to learn from; in evaluation and
serving all windows of a row run in one batch, and the best span of all of them is the answer. Where the evaluation examples
have questions that their text does not answer, the margin from which no answer is given is tuned on them after the
training, and becomes a part of the exported graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import keras
import tensorflow as tf

from bertline.models.data.batching import padded
from bertline.models.encoders.bert.backbone import Encoder
from bertline.models.heads.spans import (
    NEVER,
    Span,
    best_answers,
    has_most_context,
    parts_of_pair,
    targets_in_windows,
    tokens_of_answer,
    with_none,
)
from bertline.models.metrics.squad import best_threshold, f1
from bertline.models.tasks.base.task import Context, Task, Tensors
from bertline.models.tokenization import packing
from bertline.models.tokenization.offsets import over_marks
from bertline.models.tokenization.places import PLACES, places_of, tokens_of

STEP = 128
"""Tokens from one window to the next."""
MAX_QUESTION = 64
"""Tokens that are kept of a question."""
THRESHOLD = "no_answer_threshold"
_OFFSETS = ("start_chars", "end_chars", "start_bytes", "end_bytes")


def request(columns: Mapping[str, tf.Tensor], context: Context) -> Tensors:
    """Question and text as one pair, which may be longer than what the model reads at once."""
    asked, passage = (columns[key] for key in context.text_keys)
    found = over_marks(passage, context.text.tokens(passage))
    found = {name: found[name] for name in ("token_ids", *_OFFSETS)} | (places_of(found, 1) if context.places else {})
    question = {name: value[:, :MAX_QUESTION] for name, value in tokens_of(asked, context).items()}
    question |= {name: tf.zeros_like(question["token_ids"]) for name in _OFFSETS}
    packed = packing.pack((question, found), context.text.cls_id, context.text.sep_id)
    return {**packed, "passage": passage}


def features(columns: Mapping[str, Any], context: Context) -> Tensors:
    asked, answers = request(columns, context), columns["answers"]
    _, passage = parts_of_pair(_tokens(asked))
    begin = tf.cast(columns["answer_starts"].to_tensor(shape=[None, 1])[:, 0], tf.int32)
    # The first of the right answers is learned from, all of them are judged by.
    length = tf.strings.length(answers.to_tensor(shape=[None, 1])[:, 0], unit="UTF8_CHAR")
    answer = tokens_of_answer(passage, begin, begin + length)
    return {**asked, "answers": answers, "first_token": answer.first, "last_token": answer.last}


def _tokens(features: Mapping[str, Any]) -> packing.Tokens:
    return {name: features[name] for name in ("token_ids", "segment_ids", *_OFFSETS)}


def expand(features: Tensors, context: Context, training: bool) -> Tensors:
    """Windows over the texts; in training with their targets alone, otherwise with what is needed to merge them again."""
    further = () if training else (*_OFFSETS, *(name for name in PLACES if name in features))
    names = ("token_ids", "segment_ids", *further)
    question, passage = parts_of_pair({name: features[name] for name in names})
    for part in (question, passage):
        del part["segment_ids"]  # packing makes them anew
    question["places"] = tf.zeros_like(question["token_ids"])
    ids = passage["token_ids"]
    passage["places"] = ids.with_flat_values(tf.cast(tf.ragged.range(ids.row_lengths()).flat_values, tf.int32) + 1)
    windows = context.text.windows(passage, step=STEP, question=question, max_question=MAX_QUESTION)
    if training:
        answer = Span(*(tf.cast(features[name], tf.int32) for name in ("first_token", "last_token")))
        target = targets_in_windows(windows, answer)
        tokens = {name: windows.tokens[name] for name in names}
        return {**tokens, "start_position": target.first, "end_position": target.last}
    return {
        **windows.tokens,
        "most_context": has_most_context(windows),
        "window_rows": windows.rows,
        "passage": features["passage"],
    }


@keras.saving.register_keras_serializable("bertline")
class SpanHead(keras.Model):
    """Two scores a token: of being the first and of being the last one of the answer."""

    def __init__(self, encoder: Encoder, seed: int) -> None:
        super().__init__(name="span_head")
        self.encoder = encoder
        normal = keras.initializers.TruncatedNormal(stddev=0.02, seed=seed)
        self.head = keras.layers.Dense(2, name="head", kernel_initializer=normal)
        self.head.build((None, encoder.size.hidden))
        self.built = True

    def call(self, batch: Mapping[str, tf.Tensor], training: bool = False) -> Tensors:  # [batch, seq] each
        sequence = self.encoder(batch["token_ids"], batch.get("segment_ids"), batch["mask"], training=training)
        scores = tf.cast(self.head(sequence), tf.float32)
        start, end = tf.unstack(tf.where(batch["mask"][:, :, tf.newaxis], scores, NEVER), num=2, axis=-1)
        return {"start": start, "end": end}


def loss(outputs: Tensors, batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
    losses = [
        tf.nn.sparse_softmax_cross_entropy_with_logits(batch[f"{side}_position"], outputs[side])
        for side in ("start", "end")
    ]
    return tf.add_n(losses) / 2


def correct(outputs: Tensors, batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
    right = [
        tf.argmax(outputs[side], axis=1, output_type=tf.int32) == tf.cast(batch[f"{side}_position"], tf.int32)
        for side in ("start", "end")
    ]
    return tf.cast(right[0] & right[1], tf.float32)


def answer(outputs: Tensors, batch: Mapping[str, tf.Tensor], context: Context) -> Tensors:
    """The answer as a text, empty for none, with its place in characters: context[start:end].

    `score` is the answer's share among the n best, of which there are places left over with the score 0. `margin` says by
    how much no answer is better than the best one.
    """
    found = best_answers(outputs["start"], outputs["end"], batch)
    best = found.scores[:, 0]
    margin = found.without - best
    is_none = best <= NEVER / 2
    ranked = found
    if THRESHOLD in context.tuned:
        is_none |= margin > context.tuned[THRESHOLD]
        ranked = with_none(found)
    probabilities = tf.where(ranked.scores > NEVER / 2, tf.nn.softmax(ranked.scores), 0.0)
    # Best first, so the answer is the first text that is not empty; no answer, where it is ranked, the empty one.
    is_given = (ranked.texts == tf.where(is_none, "", found.texts[:, 0])[:, tf.newaxis]) & (ranked.scores > NEVER / 2)
    return {
        "answer": tf.where(is_none, "", found.texts[:, 0]),
        "start": tf.where(is_none, 0, found.starts[:, 0]),
        "end": tf.where(is_none, 0, found.ends[:, 0]),
        "score": tf.reduce_sum(tf.where(is_given, probabilities, 0.0), axis=1),
        "margin": margin,
        "n_best": ranked.texts,
        "n_best_scores": probabilities,
        "n_best_starts": ranked.starts,
        "n_best_ends": ranked.ends,
    }


def tune(task: Task, model: Any, context: Context, rows: Iterable[Tensors]) -> dict[str, float]:
    """The margin above which no answer is given, for the highest F1; none where every question has an answer."""
    untuned = replace(context, tuned={})

    @tf.function(reduce_retracing=True, autograph=False)
    def ask(features: Tensors) -> Tensors:
        batch = padded(expand(features, context, False))
        return answer(model(batch, training=False), batch, untuned)

    margins: list[float] = []
    scores: list[float] = []
    answerable: list[bool] = []
    for features in rows:
        found = ask(features)
        margins += found["margin"].numpy().tolist()
        for text, right in zip(found["answer"].numpy().tolist(), features["answers"].to_list(), strict=True):
            scores.append(f1(text.decode(), [expected.decode() for expected in right]))
            answerable.append(bool(right))
    return {} if all(answerable) else {THRESHOLD: best_threshold(margins, scores, answerable)}


def targets(features: Mapping[str, Any]) -> Tensors:
    answers = features["answers"]
    # One column at least: a text without any right answer has the empty one.
    texts = tf.pad(answers.to_tensor(), [[0, 0], [0, 1]], constant_values="")
    return {"answers": texts, "row_weight": tf.ones(tf.shape(texts)[:1])}


def build(encoder: Any, context: Context, dropout: float, seed: int) -> SpanHead:
    return SpanHead(encoder, seed)


def measure(outputs: Tensors, batch: Mapping[str, tf.Tensor], context: Context) -> Tensors:
    return {"answer": answer(outputs, batch, context)["answer"]}
