"""A text in one language, written in another: the original Transformer, encoder and decoder.

The tokens of the target are learned one by one, each after the right ones before it. The evaluator and a caller are
answered by what the model writes on its own: `models/seq2seq/decoding.py` looks for it inside the exported graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from bertline.models.data.batching import TOKENS, padded
from bertline.models.seq2seq import decoding
from bertline.models.seq2seq.config import Seq2SeqSize
from bertline.models.seq2seq.generation import Decoder, alignment
from bertline.models.seq2seq.model import Seq2Seq
from bertline.models.tasks.base.task import Context, Tensors
from bertline.models.tokenization.places import tokens_of
from bertline.models.training.losses import cross_entropy, mean_cross_entropy
from bertline.pipeline.config import TEXT_KEYS, ModelConfig

SOURCE = TEXT_KEYS[0]


def request(columns: Mapping[str, tf.Tensor], context: Context) -> Tensors:
    """The tokens of the source, cut to length, and [SEP]."""
    tokens = tokens_of(columns[SOURCE], context)
    ends = {name: context.text.sep_id if name == TOKENS else 0 for name in tokens}
    return {name: _ended(value[:, : context.text.seq_len - 1], ends[name]) for name, value in tokens.items()}


def features(columns: Mapping[str, tf.Tensor], context: Context) -> Tensors:
    """A target that is too long is cut without a [SEP]: nothing is to be learned from its end. One that is missing has no
    tokens."""
    reference = columns["label"]
    target = _ended(context.target.tokenize(reference), context.target.sep_id)[:, : context.target.seq_len]
    lengths = tf.where(reference == "", tf.zeros_like(target.row_lengths()), target.row_lengths())
    target = tf.RaggedTensor.from_tensor(target.to_tensor(), lengths=lengths)
    return {**request(columns, context), "target_ids": target, "reference": reference}


def _ended(tokens: tf.RaggedTensor, end_id: int) -> tf.RaggedTensor:
    return tf.concat([tokens, tf.fill([tokens.nrows(), 1], end_id)], axis=1)


def expand(features: Tensors, context: Context, training: bool) -> Tensors:
    """The texts themselves are not learned from, nor are rows without a target."""
    if not training:
        return features
    usable = features["target_ids"].row_lengths() > 0
    return {name: tf.ragged.boolean_mask(features[name], usable) for name in ("token_ids", "target_ids")}


def make_model(settings: ModelConfig, context: Context, seed: int) -> Seq2Seq:
    shape = context.translation
    size = Seq2SeqSize(
        source_pieces=context.text.vocab_size,
        target_pieces=context.target.vocab_size,
        layers=settings.num_layers or 1,
        decoder_layers=shape.num_decoder_layers or settings.num_layers or 1,
        hidden=settings.hidden_dim or 1,
        heads=settings.num_heads or 1,
        intermediate=settings.intermediate_dim or 1,
        max_positions=context.text.seq_len,
        dropout=settings.dropout,
        attention_dropout=shape.attention_dropout,
        activation=shape.activation,
        positions=shape.positions,
        norm=shape.norm,
        share_embeddings=shape.share_embeddings and context.target is context.text,
        tie_output=shape.tie_output,
    )
    return Seq2Seq(size, begin_id=context.target.cls_id, seed=seed)


def _of_tokens(values: tf.Tensor, batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """[batch]: the mean of a number of each token of the target, [batch * target], over the tokens of each row."""
    mask = tf.cast(batch["target_ids_mask"], tf.float32)
    sums = tf.reduce_sum(tf.reshape(values, tf.shape(mask)) * mask, axis=1)
    return tf.math.divide_no_nan(sums, tf.reduce_sum(mask, axis=1))


def _flat(outputs: tf.Tensor) -> tf.Tensor:
    return tf.reshape(outputs, [-1, outputs.shape[-1]])


def _targets_of(batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
    return tf.reshape(tf.cast(batch["target_ids"], tf.int32), [-1])


def loss(outputs: tf.Tensor, batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
    return _of_tokens(cross_entropy(_flat(outputs), _targets_of(batch)), batch)


def spread_loss(outputs: tf.Tensor, batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
    return _of_tokens(mean_cross_entropy(_flat(outputs)), batch)


def correct(outputs: tf.Tensor, batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
    right = tf.argmax(_flat(outputs), axis=1, output_type=tf.int32) == _targets_of(batch)
    return _of_tokens(tf.cast(right, tf.float32), batch)


def ask(model: Seq2Seq, batch: Mapping[str, tf.Tensor], context: Context) -> Tensors:
    """What the model writes; with a target, as the evaluator has one, also how well it follows that."""
    decoder = Decoder(model, batch, context)
    best = decoder.best()
    found: Tensors = {"n_best": _texts(best.ids, context), "n_best_scores": best.scores}
    if "target_ids" in batch:
        logits = tf.cast(model(batch, training=False), tf.float32)
        found["token_loss"], found["token_right"] = loss(logits, batch), correct(logits, batch)
        found["greedy"] = context.target.detokenize(decoder.greedy().ids)
    return found


def _texts(ids: tf.RaggedTensor, context: Context) -> tf.Tensor:
    """[batch, n_best, (tokens)] -> [batch, n_best] string."""
    return tf.reshape(context.target.detokenize(ids.values), [-1, ids.bounding_shape(axis=1)])


def answer(outputs: Tensors, batch: Mapping[str, tf.Tensor], context: Context) -> Tensors:
    return {
        "translation": outputs["n_best"][:, 0],
        "score": outputs["n_best_scores"][:, 0],
        "n_best": outputs["n_best"],
        "n_best_scores": outputs["n_best_scores"],
    }


def measure(outputs: Tensors, batch: Mapping[str, tf.Tensor], context: Context) -> Tensors:
    return {
        "translation": outputs["n_best"][:, 0],
        "greedy_translation": outputs["greedy"],
        "token_loss": outputs["token_loss"],
        "token_right": outputs["token_right"],
    }


def targets(features: Mapping[str, Any]) -> Tensors:
    """A row without a target has no weight."""
    tokens = tf.cast(features["target_ids"].row_lengths(), tf.float32)
    return {
        "reference": features["reference"],
        "row_weight": tf.cast(tokens > 0, tf.float32),
        "token_weight": tokens,
        "zero": tf.zeros_like(tokens),
    }


def greedy_answer(model: Seq2Seq, columns: Mapping[str, tf.Tensor], context: Context) -> Tensors:
    """The likeliest token each time: the quickest way, and a little worse than a beam search."""
    return _written(Decoder(model, padded(request(columns, context)), context).greedy(), context)


def sample_answer(model: Seq2Seq, columns: Mapping[str, tf.Tensor], context: Context) -> Tensors:
    """Each token by chance; what is drawn follows from the row's own seed."""
    choose = decoding.by_chance(columns["temperature"], columns["top_k"], columns["top_p"], columns["seed"])
    return _written(Decoder(model, padded(request(columns, context)), context).follow(choose), context)


def _written(found: decoding.Texts, context: Context) -> Tensors:
    return {"translation": context.target.detokenize(found.ids), "score": found.scores}


def align_answer(model: Seq2Seq, columns: Mapping[str, tf.Tensor], context: Context) -> Tensors:
    """The translation, and for each of its tokens how much it looked at each of the source's, its closing [SEP] too."""
    asked = request(columns, context)
    batch = padded(asked)
    written = Decoder(model, batch, context).best().first()
    return {
        "translation": context.target.detokenize(written),
        "source_pieces": tf.gather(context.text.vocab, asked["token_ids"]).to_tensor(),
        "target_pieces": tf.gather(context.target.vocab, written).to_tensor(),
        "alignment": alignment(model, batch, written),
    }


def build(model: Seq2Seq, context: Context, dropout: float, seed: int) -> Seq2Seq:
    return model


def vectors(model: Seq2Seq) -> Any:
    return model.source_embeddings.token


def attend(model: Seq2Seq, batch: Mapping[str, Any]) -> dict[str, list[Any]]:
    return {name: list(layers) for name, layers in model.inspect(batch).items()}


def heads(model: Seq2Seq) -> dict[str, list[list[int]]]:
    size, every = model.size, list(range(model.size.heads))
    layers = {"encoder": size.layers, "decoder": size.decoder_layers, "source": size.decoder_layers}
    return {name: [every] * count for name, count in layers.items()}
