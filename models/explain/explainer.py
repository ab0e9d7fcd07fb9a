"""Explains the answers of a model, by the functions that its SavedModel carries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import tensorflow as tf

from bertline.models.data.batching import TOKENS
from bertline.models.explain.explanation import Attention, Attribution, Explanation
from bertline.models.explain.gradients import TOLERANCE, Integrated, integrate
from bertline.models.explain.request import Request, Row, Texts
from bertline.models.explain.target import Answered, Target
from bertline.models.explain.targets import targets_of
from bertline.models.tasks.base.task import Context, Task
from bertline.models.tokenization.vocabulary import CLS, SEP
from bertline.pipeline.core.errors import BertlineError

Baseline = Literal["pad", "mask", "zero"]
_TOKENS_AT_ONCE = 2048
_MAX_WINDOWS = 8
OF_ATTENTION = "attention"
"""A note that begins so is of no use to those who are not shown the heads."""


class Explainer:
    """
    Args:
      inside: an `Explaining`, or what became of it in a SavedModel.
      context: its text encoders and labels; the names of a row's texts.
      ask: (the texts of one row) -> the outputs of the served signature for it.
      readable: such outputs for a person.
      tokenize: (the texts of one row) -> the token ids that the SavedModel itself makes of them, to be held against ours.
      write: of a model that writes, (the texts of one row) -> the tokens that it answers with, without an end.
    """

    def __init__(
        self,
        inside: Any,
        task: Task,
        context: Context,
        *,
        ask: Callable[[Texts], Mapping[str, Any]],
        readable: Callable[[Mapping[str, Any]], str],
        tokenize: Callable[[Texts], Sequence[int]],
        write: Callable[[Texts], Sequence[str]] | None = None,
    ) -> None:
        self._inside, self._task, self._context = inside, task, replace(context, places=True)
        self._ask, self._readable, self._tokenize, self._write = ask, readable, tokenize, write

    def explain(
        self,
        texts: Texts,
        *,
        label: str | None = None,
        word: str | None = None,
        start: int | None = None,
        baseline: Baseline = "pad",
    ) -> Explanation:
        """Explains the answer to one row of texts.

        Args:
          label: what is explained in place of what was answered: a class, a tag, a token, an ending, a part of the text.
          word: the word, [MASK] or word of the translation that is explained, or its number.
          start: of a model that tags, where the word begins in the text, in characters: it may stand there several times.
          baseline: the vector that each token of a text begins as, on the way along which gradients are taken. [PAD] is the
            one token that stands in no text, so that no model has learned to read something into it, and every vocabulary
            has it. [CLS] and [SEP] stay as they are, and so does [MASK], the question itself.
        """
        written = () if self._write is None else (*self._write(texts), SEP)
        request = Request(texts, self._task, self._context, written)
        if list(self._tokenize(texts)) != request.token_ids:
            raise BertlineError(
                "this version of bertline cuts texts up otherwise than the model; use that which trained it."
            )
        batch, answer, context = request.batch, self._ask(texts), self._context
        given = self._inside.run(self._inside.embed(batch[TOKENS]), batch)
        asked = Answered(
            {name: value.numpy() for name, value in given.items()},
            request.everything,
            answer,
            list(request.texts.values()),
            context.labels,
            (context.target or context.text).vocab,
            label,
            word,
            start,
        )
        targets = targets_of(self._task, asked)
        rows = {target.row: request.row(target.row) for target in targets[:_MAX_WINDOWS]}
        attributions = tuple(
            Attribution(
                target.name, target.unit, rows[target.row].reading, self._integrated(target, rows[target.row], baseline)
            )
            for target in targets[:_MAX_WINDOWS]
        )
        attentions = self._attentions(rows[targets[0].row], written)
        notes = tuple(_notes(request, attributions, len(targets)))
        return Explanation(self._task.name, self._readable(answer), request.texts, attributions, attentions, notes)

    def _integrated(self, target: Target, row: Row, baseline: Baseline) -> Integrated:
        vectors = self._inside.embed(row.batch[TOKENS])  # [1, seq, width]
        begin = tf.where(row.fixed[:, np.newaxis], vectors, self._baseline(baseline, vectors))
        way = vectors - begin
        at_once = max(1, _TOKENS_AT_ONCE // len(row.reading.tokens))

        def some(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            on_way = begin + tf.constant(places, tf.float32)[:, tf.newaxis, tf.newaxis] * way
            batch = {name: tf.repeat(value, len(places), axis=0) for name, value in row.batch.items()}
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(on_way)
                scores = target.score(self._inside.run(on_way, batch))
            slopes = tf.reduce_sum(tape.gradient(scores, on_way) * way, axis=-1)
            return scores.numpy().astype(np.float64), slopes.numpy().astype(np.float64)

        def ask(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            found = [some(places[at : at + at_once]) for at in range(0, len(places), at_once)]
            scores, slopes = (np.concatenate(parts) for parts in zip(*found, strict=True))
            return scores, slopes

        return integrate(ask)

    def _baseline(self, name: Baseline, vectors: tf.Tensor) -> tf.Tensor:
        if name == "zero":
            return tf.zeros_like(vectors)
        text = self._context.text
        token = text.pad_id if name == "pad" else text.mask_id
        if token is None:
            raise BertlineError("--baseline mask: the model's vocabulary has no [MASK]; leave it out.")
        return self._inside.embed(tf.constant([[token]]))

    def _attentions(self, row: Row, written: tuple[str, ...]) -> dict[str, Attention]:
        found = self._inside.attend(row.batch)
        read = row.reading.tokens
        seen = {layer.shape[-1] for layer in found["weights"].get("encoder", ())}
        if seen and len(read) not in seen:  # the first of several windows
            read = (*read[: seen.pop() - 1], read[-1])
        # What is written at a place was told from the tokens before it, of which the first is [CLS].
        before = (CLS, *written[:-1])
        sides = {"encoder": (read, read), "decoder": (written, before), "source": (written, read)}
        return {
            name: Attention(
                name,
                tuple(layer.numpy()[0] for layer in found["weights"][name]),
                tuple(tuple(heads.numpy().tolist()) for heads in found["heads"][name]),
                *sides[name],
            )
            for name in sides
            if name in found["weights"]
        }


def _notes(request: Request, attributions: Sequence[Attribution], targets: int) -> Iterator[str]:
    for attribution in attributions:
        found = attribution.found
        if not found.is_complete:
            yield (
                f"{attribution.name}: what the words add misses the change of the score by {found.error:+.4f}, more than"
                f" {TOLERANCE:g}, after {found.gradients:,} gradients; do not rely on small values."
            )
    if request.windows > 1:
        yield (f"the text was read in {request.windows} windows; words are explained in those that gave the prediction.")
        yield f"{OF_ATTENTION} is that of the first of these windows."
        if targets > len(attributions):
            yield f"{len(attributions)} of {targets} windows with words to explain are shown; --word chooses one."
        return
    sliding = request.sliding
    if sliding and len(request.token_ids) > sliding.size + 2:
        yield "the text was read in windows; attention is that of the first one."
    words = attributions[0].reading.words
    ends = {word.text: word.end for word in words}
    # Where the middle of a text is left out, something stands between two words that were read one after the other.
    gaps = {
        one.text: (one.end, other.start)
        for one, other in pairwise(words)
        if one.text == other.text and request.skips and request.text(one.text)[one.end : other.start].strip()
    }
    for number, (name, text) in enumerate(request.texts.items()):
        if text[ends.get(number, 0) :].strip():
            yield f"{name}: the model read its first {ends.get(number, 0):,} of {len(text):,} characters."
        elif number in gaps:
            first, last = gaps[number][0], len(text) - gaps[number][1]
            yield f"{name}: the model read its first {first:,} and last {last:,} of {len(text):,} characters."
