"""A tag for each word: names of persons, places, products, and whatever else the tags of a corpus tell apart.

Each word is tagged at its first token. A text that is longer than the encoder is read in overlapping windows, and each word
is tagged by the window that shows the most of what stands around it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from bertline.models.data import tag_schemes
from bertline.models.encoders.bert.backbone import Dropout, Encoder
from bertline.models.heads import crf
from bertline.models.tasks.base.task import Context, Tensors
from bertline.models.tasks.graphs import classification
from bertline.models.tokenization.packing import most_context
from bertline.models.tokenization.places import PLACES, places_of

_PACE = 10.0
"""Transitions start from nothing, at a learning rate that is made for an encoder: they go so many times as fast."""
_MARKS_AT_BEGIN = r"^(\pM*)\C*$"
"""Combining marks, and then anything: \\C is any byte, for a text may be ill-formed."""


def features(columns: Mapping[str, Any], context: Context) -> Tensors:
    """The words as Ingest wrote them, with a space between."""
    words = tf.strings.split(columns["text"], " ")
    tokens = context.text.word_tokens(words)
    return {**_first_tokens(tokens), "word_tags": tag_ids(columns["label"], context.labels)}


def request(columns: Mapping[str, tf.Tensor], context: Context) -> Tensors:
    """A caller's text, split as the tokenizer does: at white space, punctuation and Chinese characters."""
    text = columns["text"]
    tokens = context.text.tokens(text)
    found = {**_first_tokens(tokens), "text": text, **(places_of(tokens) if context.places else {})}
    begins, ends = _first_of_words(tokens["word_ids"]), _last_of_words(tokens["word_ids"])
    for unit in ("bytes", "chars"):
        found[f"word_start_{unit}"] = tf.ragged.boolean_mask(tokens[f"start_{unit}"], begins)
        found[f"word_end_{unit}"] = tf.ragged.boolean_mask(tokens[f"end_{unit}"], ends)
    return found


def _first_tokens(tokens: Mapping[str, tf.RaggedTensor]) -> Tensors:
    """The ids of the tokens, and the number of each word at its first token; -1 at the others."""
    word_ids = tokens["word_ids"]
    first = _first_of_words(word_ids).flat_values
    return {
        "token_ids": tokens["token_ids"],
        "word_ids": word_ids.with_flat_values(tf.where(first, word_ids.flat_values, -1)),
    }


def _first_of_words(word_ids: tf.RaggedTensor) -> tf.RaggedTensor:
    return word_ids.with_flat_values(word_ids.flat_values != _shifted(word_ids, 1))


def _last_of_words(word_ids: tf.RaggedTensor) -> tf.RaggedTensor:
    return word_ids.with_flat_values(word_ids.flat_values != _shifted(word_ids, -1))


def _shifted(ragged: tf.RaggedTensor, by: int, outside: int = -1) -> tf.Tensor:
    """Flat: of each value its neighbour before (1) or behind (-1) in its row, and `outside` where it has none."""
    rows = ragged.value_rowids()

    def moved(values: tf.Tensor, filling: tf.Tensor) -> tf.Tensor:
        edge = tf.fill(tf.minimum(tf.shape(values), 1), filling)
        return tf.concat([edge, values[:-1]] if by > 0 else [values[1:], edge], axis=0)

    other = moved(rows, tf.constant(-1, rows.dtype))
    return tf.where(other == rows, moved(ragged.flat_values, tf.constant(outside, ragged.dtype)), outside)


def tag_ids(names: tf.RaggedTensor, labels: Sequence[str]) -> tf.RaggedTensor:
    """Position of each tag among the labels; -1 for an unknown one, which then has no weight anywhere."""
    same = names.flat_values[:, tf.newaxis] == tf.constant(list(labels))
    found = tf.where(tf.reduce_any(same, axis=1), tf.argmax(tf.cast(same, tf.int8), axis=1, output_type=tf.int32), -1)
    return names.with_flat_values(found)


def expand(features: Tensors, context: Context, training: bool) -> Tensors:
    """The texts in windows.

    Returns:
      What is not of tokens as it was, and of each window: `token_ids`, `word_positions` of its words' first tokens,
      `word_ids` of those, `word_chosen` (whether, of all windows that show a word, it is the one that tags it), `tag_ids`,
      and `window_rows`, the text that it is of.
    """
    placed = [name for name in PLACES if name in features]
    tokens = {name: tf.cast(features[name], tf.int32) for name in ("token_ids", "word_ids", *placed)}
    cut = context.text.windows(tokens, step=context.text.window_step)
    shown = cut.tokens["word_ids"]
    is_word = shown >= 0
    places = shown.with_flat_values(tf.cast(tf.ragged.range(shown.row_lengths()).flat_values, tf.int32))
    word_ids = tf.ragged.boolean_mask(shown, is_word)
    found = {
        **{name: value for name, value in features.items() if name not in (*tokens, "word_tags")},
        **{name: cut.tokens[name] for name in ("token_ids", *placed)},
        "word_positions": tf.ragged.boolean_mask(places, is_word),
        "word_ids": word_ids,
        "word_chosen": tf.ragged.boolean_mask(most_context(cut, tokens["token_ids"]), is_word),
        "window_rows": cut.rows,
    }
    if "word_tags" in features:
        known = tf.cast(features["word_tags"], tf.int32)
        rows = tf.repeat(cut.rows, word_ids.row_lengths())
        # Of a row without tags, or with fewer than words, the rest has none.
        has_tag = word_ids.flat_values < tf.gather(tf.cast(known.row_lengths(), tf.int32), rows)
        at = tf.gather(tf.cast(known.row_starts(), tf.int32), rows) + word_ids.flat_values
        tag = tf.gather(tf.concat([known.flat_values, [-1]], axis=0), tf.where(has_tag, at, tf.size(known.flat_values)))
        found["tag_ids"] = word_ids.with_flat_values(tag)
    return found


def prepare(context: Context, training: bool) -> Callable[[Tensors, Any], Tensors]:
    """Gives each word its share, so that the mean over the rows' losses is the mean over all words of the batch."""

    def share(batch: Tensors, seed: Any) -> Tensors:
        used = tf.cast(batch["weight"] > 0, tf.float32)[:, tf.newaxis]
        counted = tf.cast(batch["word_positions_mask"] & (batch["tag_ids"] >= 0), tf.float32) * used
        return {**batch, "word_share": counted * tf.reduce_sum(used) / tf.maximum(tf.reduce_sum(counted), 1.0)}

    return share


@keras.saving.register_keras_serializable("bertline")
class Tagger(keras.Model):
    """The vector of each word's first token, dropout, one dense layer; of a CRF, also how well tags follow each other."""

    def __init__(self, encoder: Encoder, outputs: int, with_crf: bool, dropout: float, seed: int) -> None:
        super().__init__(name="tagger")
        self.encoder = encoder
        self.dropout = Dropout(dropout, seed, name="head_dropout")
        self.head = keras.layers.Dense(
            outputs, name="head", kernel_initializer=keras.initializers.TruncatedNormal(stddev=0.02, seed=seed)
        )
        self.head.build((None, encoder.size.hidden))
        self.transitions = None
        if with_crf:
            self.transitions = self.add_weight(shape=(outputs, outputs), initializer="zeros", name="transitions")
        self.built = True

    def call(self, batch: Mapping[str, tf.Tensor], training: bool = False) -> Tensors:
        sequence = self.encoder(batch["token_ids"], None, batch["mask"], training=training)
        words = tf.gather(sequence, batch["word_positions"], batch_dims=1)
        outputs = {"scores": self.head(self.dropout(words, training=training))}  # [windows, words, tags]
        if self.transitions is not None:
            outputs["transitions"] = _PACE * tf.convert_to_tensor(self.transitions)
        return outputs


def loss(outputs: Tensors, batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
    scores, known = outputs["scores"], batch["tag_ids"]
    if "transitions" in outputs:
        lengths = tf.math.count_nonzero(batch["word_positions_mask"], axis=1, dtype=tf.int32)
        # A word's share is the same for all words of a batch that have one.
        return -tf.reduce_max(batch["word_share"], axis=1) * crf.log_likelihood(
            scores, outputs["transitions"], known, lengths
        )
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.maximum(known, 0), scores)
    return tf.reduce_sum(batch["word_share"] * losses, axis=1)


def spread_loss(outputs: Tensors, batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
    return tf.reduce_sum(batch["word_share"] * classification.spread_loss(outputs["scores"], batch), axis=1)


def apply_class_weights(batch: Tensors, weights: tf.Tensor) -> Tensors:
    """Each word by its tag."""
    return {**batch, "word_share": batch["word_share"] * tf.gather(weights, tf.maximum(batch["tag_ids"], 0))}


def correct(outputs: Tensors, batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """By each word's own scores: the best way through all of them is looked for when the model is asked."""
    right = tf.argmax(outputs["scores"], axis=-1, output_type=tf.int32) == batch["tag_ids"]
    return tf.reduce_sum(batch["word_share"] * tf.cast(right, tf.float32), axis=1)


def of_texts(outputs: Tensors, batch: Mapping[str, tf.Tensor]) -> tuple[tf.RaggedTensor, tf.Tensor, tf.Tensor]:
    """Windows put together: of each text its words' numbers, and flat, of each word its tag and how sure that is."""
    # Windows of a text stand in its order, and so do the words that each was chosen for.
    chosen = batch["word_positions_mask"] & (batch["word_chosen"] == 1)
    texts = tf.reduce_max(tf.concat([batch["window_rows"], [-1]], axis=0)) + 1
    rows = tf.repeat(batch["window_rows"], tf.math.count_nonzero(chosen, axis=1, dtype=tf.int32))

    def put_together(values: tf.Tensor) -> tf.RaggedTensor:
        return tf.RaggedTensor.from_value_rowids(
            tf.boolean_mask(values, chosen), tf.cast(rows, tf.int64), tf.cast(texts, tf.int64)
        )

    words, scores = put_together(batch["word_ids"]), put_together(outputs["scores"])
    if "transitions" not in outputs:
        share = tf.nn.softmax(scores.flat_values)
        return words, tf.argmax(share, axis=-1, output_type=tf.int32), tf.reduce_max(share, axis=-1)
    # Over the whole text, not window by window: a chain has no gaps.
    lengths = tf.cast(scores.row_lengths(), tf.int32)
    given = scores.to_tensor(), outputs["transitions"], lengths
    real = tf.sequence_mask(lengths, tf.shape(given[0])[1])
    best = tf.boolean_mask(crf.best_tags(*given), real)
    return words, best, tf.gather(tf.boolean_mask(crf.probabilities(*given), real), best, batch_dims=1)


def measure(outputs: Tensors, batch: Mapping[str, tf.Tensor], context: Context) -> Tensors:
    """The tag of every word; a word that has no token (a control character, say) is outside."""
    words, best, _ = of_texts(outputs, batch)
    width = tf.reduce_max(tf.concat([words.flat_values, [-1]], axis=0)) + 1
    places = tf.stack([tf.cast(words.value_rowids(), tf.int32), words.flat_values], axis=1)
    outside = tf.fill(tf.stack([words.nrows(tf.int32), width]), context.labels.index(tag_schemes.OUTSIDE))
    return {"answer": tf.tensor_scatter_nd_update(outside, places, best)}


def targets(features: Mapping[str, Any]) -> Tensors:
    """A row in which no tag is known has no weight."""
    known = features["word_tags"].to_tensor(default_value=-1)
    return {"tag_ids": known, "label_weight": tf.cast(tf.reduce_any(known >= 0, axis=1), tf.float32)}


def answer(outputs: Tensors, batch: Mapping[str, tf.Tensor], context: Context) -> Tensors:
    """The entities of each text, in its order; a text with fewer of them than another has empty ones behind them."""
    words, best, certain = of_texts(outputs, batch)
    begins, is_part, kinds = entity_words(words.with_flat_values(best), context.labels)

    # The words of all texts in one row, and each part of an entity with its number.
    number = tf.cumsum(tf.cast(begins, tf.int32)) - 1
    entity, count = tf.boolean_mask(number, is_part), tf.reduce_sum(tf.cast(begins, tf.int32))
    of_text = tf.RaggedTensor.from_value_rowids(
        tf.range(count), tf.boolean_mask(words.value_rowids(), begins), words.nrows()
    )

    def flat(name: str) -> tf.Tensor:
        return tf.boolean_mask(batch[name], batch[f"{name}_mask"])

    def last(name: str) -> tf.Tensor:
        return tf.math.unsorted_segment_max(tf.boolean_mask(flat(name), is_part), entity, count)

    start_byte, end_byte = tf.boolean_mask(flat("word_start_bytes"), begins), last("word_end_bytes")
    text = tf.gather(batch["text"], of_text.value_rowids())
    # The marks of the last letter belong to it, whether or not the tokenizer keeps them.
    marks = tf.strings.regex_replace(tf.strings.substr(text, end_byte, tf.strings.length(text)), _MARKS_AT_BEGIN, r"\1")
    found_of_entities = {
        "entities": tf.strings.substr(text, start_byte, end_byte - start_byte + tf.strings.length(marks)),
        "types": tf.gather(tf.constant(kinds), tf.boolean_mask(best, begins)),
        "starts": tf.boolean_mask(flat("word_start_chars"), begins),
        "ends": last("word_end_chars") + tf.strings.length(marks, unit="UTF8_CHAR"),
        "probabilities": tf.math.unsorted_segment_mean(tf.boolean_mask(certain, is_part), entity, count),
    }
    made = {name: of_text.with_flat_values(value).to_tensor() for name, value in found_of_entities.items()}
    return {**made, "count": tf.cast(of_text.row_lengths(), tf.int32)}


def entity_words(tag: tf.RaggedTensor, labels: Sequence[str]) -> tuple[tf.Tensor, tf.Tensor, list[str]]:
    """What `tags.entities` says, in the graph.

    Returns:
      Of each word of all rows whether an entity begins with it, and whether it is part of one; and of each label its type.
    """
    known = [tag_schemes.parse(label) or tag_schemes.Tag(tag_schemes.OUTSIDE, "", tag_schemes.OUTSIDE) for label in labels]
    # [tags, tags]: whether a word with the second tag goes on after one with the first.
    pairs = tf.constant([[tag_schemes.goes_on(before, after) for after in known] for before in known])
    before = _shifted(tag, 1, outside=labels.index(tag_schemes.OUTSIDE))
    goes_on = tf.gather_nd(pairs, tf.stack([before, tag.flat_values], axis=1))
    is_part = tf.gather(tf.constant([one.role != tag_schemes.OUTSIDE for one in known]), tag.flat_values)
    return is_part & ~goes_on, is_part, [one.type for one in known]


def build(encoder: Any, context: Context, dropout: float, seed: int) -> Tagger:
    return Tagger(encoder, len(context.labels), context.crf, dropout, seed)
