"""BERT's own task: predict masked tokens, and whether the second half of an example follows the first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from bertline.models.checkpoints.names import Weight
from bertline.models.data.masking import MaskingRules, mask_rows
from bertline.models.encoders.bert.backbone import ACTIVATIONS, Encoder
from bertline.models.tasks.base.task import Context, Tensors
from bertline.models.tasks.graphs import classification
from bertline.models.tokenization.places import tokens_of
from bertline.models.tokenization.vocabulary import CONTINUATION, MASK
from bertline.models.training.losses import cross_entropy
from bertline.pipeline.config import PretrainingConfig
from bertline.pipeline.core.errors import BertlineError

LABELS = ("next", "random")
"""Their ids are those of the original: 1 is a random second half."""
PHASE = "phase"
NUMBERS = ("token_ids", "segment_ids", "masked_positions", "masked_ids", PHASE)
"""What an example of `components/sentence_pairs/executor.py` has."""
_SHOWN = 5
_ASKED_WORDS = 100


def masking_rules(text: Any, settings: PretrainingConfig) -> MaskingRules:
    """The rules of a config for the vocabulary of a TextEncoder."""
    if text.mask_id is None:
        raise BertlineError("text.vocab: the vocabulary has no [MASK], so nothing can be masked; add it, or learn another.")
    return MaskingRules(
        mask_id=text.mask_id,
        vocab_size=text.vocab_size,
        special_ids=(text.pad_id, text.cls_id, text.sep_id),
        continues=np.asarray([token.startswith(CONTINUATION) for token in text.vocab]),
        probability=settings.mask_probability,
        max_predictions=settings.max_predictions_per_seq or max(1, round(settings.mask_probability * text.seq_len)),
        units=settings.masking,
    )


def features(columns: Mapping[str, Any], context: Context) -> Tensors:
    """What `components/sentence_pairs/executor.py` wrote: pairs, the masks that were drawn for them, and the phase that
    they are for."""
    numbers = {name: columns[name] for name in NUMBERS}
    return {
        **numbers,
        PHASE: numbers[PHASE].flat_values,  # one an example
        "label_id": classification.label_ids(columns["label"], context.labels),
    }


def request(columns: Mapping[str, tf.Tensor], context: Context) -> Tensors:
    """Texts with [MASK] in them."""
    tokens = context.text.pack_one(tokens_of(columns["text"], context))
    ids = tokens["token_ids"]
    places = tf.ragged.range(ids.row_lengths())
    return {
        **tokens,
        "masked_positions": tf.cast(tf.ragged.boolean_mask(places, ids == context.text.mask_id), tf.int32),
    }


def prepare(context: Context, training: bool) -> Callable[[Tensors, Any], Tensors]:
    """Masks a batch: anew in training, unless the config wants the stored masks; by the stored ones otherwise."""
    if not training or context.pretraining.static_masking:
        return lambda batch, seed: _with_fractions(with_stored_masks(_with_texts(batch)))
    rules = masking_rules(context.text, context.pretraining)

    def draw(ids: np.ndarray, begins: np.ndarray, lengths: np.ndarray, seed: np.ndarray) -> tuple[np.ndarray, ...]:
        return tuple(mask_rows(ids, begins, lengths, rules, np.random.default_rng(int(seed))))

    def mask(batch: Tensors, seed: Any) -> Tensors:
        batch = _with_texts(batch)
        ids = batch["token_ids"]
        kinds = (tf.int32, tf.int32, tf.int32, tf.bool)
        given = (ids, batch["firsts"], _lengths(batch), seed)
        masked, *found = tf.numpy_function(draw, given, kinds, stateful=False)
        names = ("masked_positions", "masked_labels", "masked_positions_mask")
        drawn = {name: tf.ensure_shape(x, [ids.shape[0], None]) for name, x in zip(names, found, strict=True)}
        return _with_fractions({**batch, "token_ids": tf.ensure_shape(masked, ids.shape), **drawn})

    return mask


def _with_texts(batch: Tensors) -> Tensors:
    """A row of one text as a row of several: `firsts`, and a label for each text."""
    if "firsts" in batch:
        return batch
    labels = batch["label_id"][:, tf.newaxis]
    firsts = tf.zeros_like(labels, tf.int32)
    return {**batch, "label_id": labels, "firsts": firsts, "firsts_mask": tf.ones_like(labels, tf.bool)}


def _lengths(batch: Tensors) -> tf.Tensor:
    """Tokens of each text of a row, up to the begin of the next one; 0 for no text."""
    end = tf.reduce_sum(tf.cast(batch["mask"], tf.int32), axis=1, keepdims=True)
    begins = tf.where(batch["firsts_mask"], tf.minimum(batch["firsts"], end), end)
    return tf.concat([begins[:, 1:], end], axis=1) - begins


def with_stored_masks(batch: Mapping[str, Any]) -> Tensors:
    """Puts the masks of an example in; `masked_labels` is what stood there."""
    ids, places, real = batch["token_ids"], batch["masked_positions"], batch["masked_positions_mask"]
    rows = tf.broadcast_to(tf.range(tf.shape(ids)[0])[:, tf.newaxis], tf.shape(places))
    where = tf.stack([tf.boolean_mask(rows, real), tf.boolean_mask(places, real)], axis=1)
    masked = tf.tensor_scatter_nd_update(ids, where, tf.boolean_mask(batch["masked_ids"], real))
    return {**batch, "token_ids": masked, "masked_labels": tf.gather(ids, places, batch_dims=1)}


def _with_fractions(batch: Tensors) -> Tensors:
    """What each prediction and each text counts, so that the mean over the rows' losses is the mean over predictions and
    texts."""
    used = tf.cast(batch["weight"] > 0, tf.float32)[:, tf.newaxis]

    def fractions(real: tf.Tensor) -> tf.Tensor:
        counted = tf.cast(real, tf.float32) * used
        return counted * tf.reduce_sum(used) / (tf.reduce_sum(counted) + 1e-5)

    return {
        **batch,
        "masked_share": fractions(batch["masked_positions_mask"]),
        "text_share": fractions(batch["firsts_mask"]),
    }


@keras.saving.register_keras_serializable("bertline")
class Pretrainer(keras.Model):
    """The encoder with both heads; the predictions go through the token embedding once more, with a bias of their own."""

    def __init__(self, encoder: Encoder, next_sentence: bool, seed: int) -> None:
        super().__init__(name="pretrainer")
        size = encoder.size
        self.encoder = encoder
        normal = keras.initializers.TruncatedNormal(stddev=0.02, seed=seed)
        self.transform = keras.layers.Dense(
            size.embedding_width, ACTIVATIONS[size.activation], kernel_initializer=normal, name="mlm_transform"
        )
        self.norm = keras.layers.LayerNormalization(epsilon=size.layer_norm_eps, name="mlm_norm")
        self.transform.build((None, size.hidden))
        self.norm.build((None, size.embedding_width))
        self.bias = self.add_weight(shape=(size.vocab_size,), initializer="zeros", name="mlm_bias")
        self.follows = keras.layers.Dense(2, kernel_initializer=normal, name="nsp") if next_sentence else None
        if self.follows is not None:
            self.follows.build((None, size.hidden))
        self.built = True

    def call(self, batch: Mapping[str, tf.Tensor], training: bool = False) -> Tensors:
        sequence = self.encoder(
            batch["token_ids"],
            batch.get("segment_ids"),
            batch["mask"],
            training=training,
            blocks=batch.get("blocks"),
            positions=batch.get("positions"),
        )
        asked = tf.gather(sequence, batch["masked_positions"], batch_dims=1)  # [batch, masked, hidden]
        # Flat, as one matrix product: of a batch of them TensorFlow would sum up a table's gradient for every example.
        states = self.norm(self.transform(tf.reshape(asked, [-1, self.encoder.size.hidden])))
        table = tf.convert_to_tensor(self.encoder.embeddings.token.embeddings)
        logits = tf.matmul(states, table, transpose_b=True) + self.bias
        outputs = {"guesses": tf.reshape(logits, [*tf.unstack(tf.shape(asked)[:2]), self.encoder.size.vocab_size])}
        if self.follows is not None:  # [batch, texts, 2]
            starts = tf.gather(sequence, batch["firsts"], batch_dims=1) if "firsts" in batch else sequence[:, :1]
            pooled = self.encoder.pool(tf.reshape(starts, [-1, 1, self.encoder.size.hidden]))
            outputs["follows"] = tf.reshape(self.follows(pooled), [*tf.unstack(tf.shape(starts)[:2]), 2])
        return outputs


def masked_token_losses(outputs: Tensors, batch: Mapping[str, tf.Tensor]) -> tf.Tensor:  # [batch, masked]
    labels, logits = batch["masked_labels"], outputs["guesses"]
    losses = cross_entropy(tf.reshape(logits, [-1, logits.shape[-1]]), tf.reshape(labels, [-1]))
    return tf.reshape(losses, tf.shape(labels))


def masked_tokens_right(outputs: Tensors, batch: Mapping[str, tf.Tensor]) -> tf.Tensor:  # [batch, masked] of 0 and 1
    logits = outputs["guesses"]
    # The largest score is known from the loss already; finding its place would be one more pass over the vocabulary.
    of_label = tf.gather(logits, batch["masked_labels"], batch_dims=2)
    return tf.cast(of_label >= tf.reduce_max(logits, axis=-1), tf.float32)


def loss(outputs: Tensors, batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
    token_losses = masked_token_losses(outputs, batch)
    total = tf.reduce_sum(batch["masked_share"] * token_losses, axis=1)
    if "follows" in outputs:
        followed = tf.nn.sparse_softmax_cross_entropy_with_logits(batch["label_id"], outputs["follows"])
        total += tf.reduce_sum(batch["text_share"] * followed, axis=1)
    return total


def correct(outputs: Tensors, batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
    return tf.reduce_sum(batch["masked_share"] * masked_tokens_right(outputs, batch), axis=1)


def answer(outputs: Tensors, batch: Mapping[str, tf.Tensor], context: Context) -> Tensors:
    """For each [MASK] of a text, the likeliest tokens; a text with fewer of them than another has empty ones after them."""
    probabilities, ids = tf.math.top_k(tf.nn.softmax(outputs["guesses"]), min(_SHOWN, context.text.vocab_size))
    real = batch["masked_positions_mask"][:, :, tf.newaxis]
    return {
        "fillings": tf.where(real, tf.gather(context.text.vocab, ids), ""),
        "probabilities": tf.where(real, probabilities, 0.0),
    }


def as_asked(text: bytes) -> bytes:
    """The begin of a document, with one word to predict."""
    words = text.split()[:_ASKED_WORDS]
    if words:
        words[len(words) // 2] = MASK.encode()
    return b" ".join(words)


def measure(outputs: Tensors, batch: Mapping[str, tf.Tensor], context: Context) -> Tensors:
    """Means over the predictions of each example; the evaluator weighs them by how many there are."""
    real = tf.cast(batch["masked_positions_mask"], tf.float32)
    count = tf.maximum(tf.reduce_sum(real, axis=1), 1.0)
    token_losses = masked_token_losses(outputs, batch)
    found = {
        "guess_loss": tf.reduce_sum(real * token_losses, axis=1) / count,
        "guess_right": tf.reduce_sum(real * masked_tokens_right(outputs, batch), axis=1) / count,
    }
    next_sentence = outputs.get("follows")
    # A model without this head knows nothing of it: even shares.
    probabilities = tf.fill([tf.shape(count)[0], 2], 0.5) if next_sentence is None else tf.nn.softmax(next_sentence[:, 0])
    return {**found, "follows": probabilities}


def targets(features: Mapping[str, Any]) -> Tensors:
    count = tf.cast(features["masked_positions"].row_lengths(), tf.float32)
    return {**classification.targets(features), "guess_target": tf.zeros_like(count), "guess_weight": count}


def _head_weights(model: Pretrainer) -> dict[str, dict[str, Weight]]:
    """Each head's weights as Hugging Face's BertForPreTraining names them."""
    found = {
        "cls.predictions": {
            "cls.predictions.bias": Weight(model.bias),
            "cls.predictions.transform.dense.weight": Weight(model.transform.kernel, transposed=True),
            "cls.predictions.transform.dense.bias": Weight(model.transform.bias),
            "cls.predictions.transform.LayerNorm.weight": Weight(model.norm.gamma),
            "cls.predictions.transform.LayerNorm.bias": Weight(model.norm.beta),
        }
    }
    if model.follows is not None:
        found["cls.seq_relationship"] = {
            "cls.seq_relationship.weight": Weight(model.follows.kernel, transposed=True),
            "cls.seq_relationship.bias": Weight(model.follows.bias),
        }
    return found


def heads(model: Pretrainer) -> dict[str, np.ndarray]:
    return {name: weight.value() for head in _head_weights(model).values() for name, weight in head.items()}


def take_heads(model: Pretrainer, given: Mapping[str, np.ndarray]) -> list[str]:
    """Goes on with the heads of a checkpoint; each head is taken whole, starts from scratch, or is refused."""
    notes: list[str] = []
    taken: dict[str, Weight] = {}
    for head, weights in _head_weights(model).items():
        if any(name in given for name in weights):
            taken |= weights
        else:
            notes.append(f"the checkpoint has no {head}: this head starts from scratch")
    for name, weight in taken.items():  # all of them, before any is assigned
        if name not in given or given[name].shape != weight.file_shape:
            found = f"has the shape {list(given[name].shape)}" if name in given else "is missing"
            raise BertlineError(f"model.checkpoint: {name} {found}; it should be {list(weight.file_shape)}.")
    for name, weight in taken.items():
        weight.assign(given[name])
    if "cls.predictions.decoder.weight" in given:
        notes.append("the checkpoint's decoder is not its token embedding; guesses go through the embedding all the same")
    return notes


def build(encoder: Any, context: Context, dropout: float, seed: int) -> Pretrainer:
    return Pretrainer(encoder, context.pretraining.next_sentence, seed)
