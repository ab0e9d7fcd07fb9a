"""What of an answer is explained: a task names the function (`Inspection.target`). By default it is what the model has
answered.

What is chosen among several is explained by its log-odds: they tell how much speaks for it and against all others, and do
not flatten out where a model is sure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from bertline.models.data import tag_schemes
from bertline.models.explain.exported import ONLY
from bertline.models.explain.target import Answered, Outputs, Target, known, log_odds
from bertline.models.heads import bi_encoder, crf
from bertline.models.tasks.base.task import Task
from bertline.models.tasks.graphs import tagging
from bertline.models.tokenization.joiner import JOINER
from bertline.models.tokenization.vocabulary import CONTINUATION
from bertline.pipeline.core.errors import BertlineError

LOG_ODDS, LOG_PROBABILITY = "log-odds", "log-probability"


def targets_of(task: Task, asked: Answered) -> list[Target]:
    """One number, but for a span, which has two ends, and for texts that are read in several windows."""
    inspection = task.inspection
    if inspection is None:
        raise BertlineError(f"a model of the task {task.name} does not say what of its answers could be explained.")
    if asked.label is not None and not inspection.by_label:
        raise BertlineError(f"--label: a model of the task {task.name} does not choose; leave it out.")
    if (asked.word is not None or asked.start is not None) and not inspection.by_word:
        raise BertlineError(f"--word: a model of the task {task.name} answers for the whole text; leave it out.")
    return inspection.target(asked)


def _class(asked: Answered) -> int:
    if asked.label is None:
        answered = asked.answer.get("label")
        # A threshold may have chosen another than the likeliest one, which is explained where the model abstains.
        name = answered.decode() if isinstance(answered, bytes) else None
        return asked.labels.index(name) if name in asked.labels else int(asked.outputs[ONLY][0].argmax())
    return known(asked.label, asked.labels, "the model knows no such class")


def of_class(asked: Answered) -> list[Target]:
    at = _class(asked)
    return [Target(asked.labels[at], LOG_ODDS, lambda outputs: log_odds(outputs[ONLY], at))]


def of_flag(asked: Answered) -> list[Target]:
    at = _class(asked)
    return [Target(asked.labels[at], LOG_ODDS, lambda outputs: outputs[ONLY][:, at])]


def of_number(asked: Answered) -> list[Target]:
    return [Target("the number", "the number itself", lambda outputs: outputs[ONLY][:, 0])]


def of_similarity(asked: Answered) -> list[Target]:
    return [Target("how alike they are", "cosine", lambda outputs: bi_encoder.cosine(outputs[ONLY]))]


def of_choice(asked: Answered) -> list[Target]:
    """An ending is named by its number, from 1, or by itself."""
    count = int(asked.batch["firsts_mask"][0].sum())
    endings, numbers = list(asked.texts[-count:]), [str(number) for number in range(1, count + 1)]
    at = int(asked.outputs[ONLY][0].argmax())
    if asked.label is not None:
        at = numbers.index(asked.label) if asked.label in numbers else known(asked.label, endings, "no ending is this")
    return [Target(endings[at], LOG_ODDS, lambda outputs: log_odds(outputs[ONLY][:, :count], at))]


def of_tags(asked: Answered) -> list[Target]:
    """The tag of one word, or those of all words of entities; each by the window that tags it."""
    batch = asked.batch
    _, best, _ = tagging.of_texts(dict(asked.outputs), batch)
    given = best.numpy().tolist()
    where = np.argwhere(batch["word_positions_mask"] & (batch["word_chosen"] == 1)).tolist()  # in the order of the words
    spans = zip(batch["word_start_chars"][0], batch["word_end_chars"][0], strict=True)
    words = [asked.texts[0][start:end] for start, end in spans]
    at = asked.place(words, "word of the text", batch["word_start_chars"][0].tolist())
    if at is not None:
        tag = given[at] if asked.label is None else known(asked.label, asked.labels, "the model knows no such tag")
        return [_tags_of_window(f"{words[at]} as {asked.labels[tag]}", batch, where[at][0], [(where[at][1], tag)])]
    if asked.label is not None:
        raise BertlineError("--label is the tag of a word here: name the word as well, by --word.")
    named = [word for word, tag in enumerate(given) if asked.labels[tag] != tag_schemes.OUTSIDE]
    by_window: dict[int, list[tuple[int, int]]] = {}
    for word in named or range(len(given)):
        by_window.setdefault(where[word][0], []).append((where[word][1], given[word]))
    name = "all entities" if named else "that there is no entity"
    return [_tags_of_window(name, batch, window, places) for window, places in by_window.items()]


def _tags_of_window(name: str, batch: Mapping[str, np.ndarray], window: int, places: Sequence[tuple[int, int]]) -> Target:
    """Args: places: words of the window, and the tag of each."""
    length = int(batch["word_positions_mask"][window].sum())

    def odds(outputs: Outputs, place: int, tag: int) -> tf.Tensor:
        scores = outputs["scores"]  # [versions, words, tags]
        if "transitions" not in outputs:
            return log_odds(scores[:, place], tag)
        # Tags that are chosen together: all ways to tag the window with this one, against all without it.
        is_word = (tf.range(tf.shape(scores)[1]) == place)[:, tf.newaxis]
        is_tag = tf.range(tf.shape(scores)[2]) == tag
        with_tag, without = (
            crf.log_total(
                tf.where(is_word & left_out, crf.IMPOSSIBLE, scores),
                outputs["transitions"],
                tf.fill(tf.shape(scores)[:1], length),
            )
            for left_out in (~is_tag, is_tag)
        )
        return with_tag - without

    unit = LOG_ODDS if len(places) == 1 else f"sum of {LOG_ODDS}"
    return Target(name, unit, lambda outputs: tf.add_n([odds(outputs, *place) for place in places]), window)


def of_span(asked: Answered) -> list[Target]:
    """The first and the last token of the answer; both are [CLS] where there is none."""
    passage = asked.texts[1]
    begin, end = int(asked.answer["start"]), int(asked.answer["end"])
    if asked.label is not None:
        begin = passage.find(asked.label)
        end = begin + len(asked.label)
    if begin < 0:
        raise BertlineError(
            f"--label {asked.label!r}: the text does not contain it; give a part of it, or '' for no answer."
        )
    start_scores, end_scores = asked.outputs["start"], asked.outputs["end"]
    if begin == end:
        # As in the served answer, the window speaks for none that likes it least.
        window, first, last = int((start_scores[:, 0] + end_scores[:, 0]).argmin()), 0, 0
        names = {"start": "no answer, by its start", "end": "no answer, by its end"}
    else:
        window, first, last = _tokens_of_span(asked, begin, end)
        names = {side: f"{side} of {passage[begin:end]!r}" for side in ("start", "end")}

    def of_side(side: str, at: int) -> Target:
        return Target(names[side], LOG_ODDS, lambda outputs: log_odds(outputs[side], at), window)

    return [of_side("start", first), of_side("end", last)]


def _tokens_of_span(asked: Answered, begin: int, end: int) -> tuple[int, int, int]:
    """The window where a part of the text begins with the most context, and the tokens that it begins and ends with."""
    starts, ends = asked.batch["start_chars"], asked.batch["end_chars"]
    touched = (asked.batch["places"] > 0) & (starts < end) & (ends > begin)
    first = touched & asked.batch["most_context"] & (starts == starts.min(where=touched, initial=end))
    if not first.any():
        raise BertlineError("--label: the model reads nothing in this part of the text; give another one.")
    window = int(first.any(axis=1).argmax())
    last = touched[window] & (ends[window] == ends[window].max(where=touched[window], initial=begin))
    # One character may be several tokens; then it is the one that the model likes best.
    liked = (np.where(are, asked.outputs[side][window], -np.inf) for side, are in (("start", first[window]), ("end", last)))
    at_first, at_last = (int(scores.argmax()) for scores in liked)
    return window, at_first, at_last


def of_masks(asked: Answered) -> list[Target]:
    count = int(asked.batch["masked_positions_mask"][0].sum())
    if not count:
        raise BertlineError("there is no [MASK] in the text; put one where the model is to predict a token.")
    place = asked.place([f"[MASK] {number}" for number in range(1, count + 1)], "[MASK]") or 0
    token = int(asked.outputs["guesses"][0, place].argmax())
    if asked.label is not None:
        token = known(asked.label, asked.vocab, "the vocabulary has no such token")
    name = f"{asked.vocab[token]} for [MASK]" + (f" {place + 1}" if count > 1 else "")
    return [Target(name, LOG_ODDS, lambda outputs: log_odds(outputs["guesses"][:, place], token))]


def of_translation(asked: Answered) -> list[Target]:
    """All that was written, or one word of it: each token after those before it, which are given."""
    ids = asked.batch["target_ids"][0].tolist()
    tokens = [asked.vocab[number] for number in ids]
    begins = [at for at, token in enumerate(tokens) if not token.startswith(CONTINUATION)]
    spans = list(zip(begins, [*begins[1:], len(ids)], strict=True))
    words = ["".join(tokens[begin:end]).replace(CONTINUATION, "").replace(JOINER, "") for begin, end in spans]
    at = asked.place(words, "word of the translation")
    begin, end = (0, len(ids)) if at is None else spans[at]

    def score(outputs: Outputs) -> tf.Tensor:
        shares = tf.nn.log_softmax(outputs[ONLY][:, begin:end])  # [versions, tokens, vocabulary]
        return tf.reduce_sum(shares * tf.one_hot(ids[begin:end], shares.shape[-1]), axis=[1, 2])

    return [Target("the translation" if at is None else words[at], LOG_PROBABILITY, score)]
