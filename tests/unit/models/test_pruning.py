"""Heads removed for good against heads that are masked."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from encoder_reference import MASK, SEGMENTS, TINY, TOKENS, reference, scramble, tiny

from bertline.models.adapters.pruning import prune
from bertline.models.checkpoints import load_encoder, save_encoder, save_keras
from bertline.models.encoders.bert.backbone import Encoder, EncoderSize
from bertline.pipeline.core.errors import BertlineError

FOUR_HEADS = dict(heads=4, layers=3)
REMOVED = {0: [2], 2: [3, 0, 1]}
HEAD_MASK = np.array([[1, 1, 0, 1], [1, 1, 1, 1], [0, 0, 1, 0]])


@keras.saving.register_keras_serializable("test_pruning")
class Pooled(keras.Model):
    """A subclass that owns an encoder, as the tasks' models do."""

    def __init__(self, encoder: Encoder, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.encoder = encoder
        self.built = True

    def call(self, token_ids: Any) -> Any:
        return self.encoder.pool(self.encoder(token_ids))

    def get_config(self) -> dict[str, Any]:
        return {"name": self.name, "encoder": keras.saving.serialize_keras_object(self.encoder)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Pooled:
        return cls(**{**config, "encoder": keras.saving.deserialize_keras_object(config["encoder"])})


def test_pruned_heads_give_what_masked_heads_give():
    encoder = scramble(tiny(**FOUR_HEADS))
    smaller = prune(encoder, REMOVED)
    assert smaller.size == EncoderSize(**{**TINY, **FOUR_HEADS}, pruned=((2,), (), (0, 1, 3)))
    expected = encoder(TOKENS, SEGMENTS, MASK, head_mask=HEAD_MASK)
    np.testing.assert_allclose(smaller(TOKENS, SEGMENTS, MASK), expected, atol=1e-5)
    np.testing.assert_allclose(smaller(TOKENS, SEGMENTS, MASK, first_only=True)[:, 0], expected[:, 0], atol=1e-5)
    np.testing.assert_allclose(smaller.pool(expected), encoder.pool(expected), atol=1e-6)


def test_a_pruned_encoder_equals_the_numpy_reference_of_masked_heads_and_shows_the_others():
    encoder = scramble(tiny(**FOUR_HEADS))
    shown = prune(encoder, REMOVED).inspect(TOKENS, SEGMENTS, MASK)
    expected = reference(encoder, TOKENS[2], SEGMENTS[2], HEAD_MASK)
    for found, states in zip(shown.hidden_states, expected.hidden_states, strict=True):
        np.testing.assert_allclose(found[2], states, atol=2e-5)
    for found, weights, kept in zip(shown.attentions, expected.attentions, HEAD_MASK.astype(bool), strict=True):
        np.testing.assert_allclose(found[2], weights[kept], atol=2e-5)


def test_columns_of_the_projections_and_rows_of_the_output_are_gone():
    encoder = tiny(**FOUR_HEADS)
    attention = prune(encoder, REMOVED).layers[2].attention
    assert [getattr(attention, name).kernel.shape for name in ("query", "key", "value")] == [(8, 2)] * 3
    assert attention.query.bias.shape == (2,) and attention.output_projection.kernel.shape == (2, 8)
    before, after = (
        sum(weight.numpy().size for weight in e.trainable_variables) for e in (encoder, prune(encoder, REMOVED))
    )
    assert before - after == 4 * (3 * (8 * 2 + 2) + 2 * 8)  # four heads of size 2


def test_pruning_twice_adds_up_in_the_original_numbering():
    encoder = scramble(tiny(**FOUR_HEADS))
    once, twice = prune(encoder, REMOVED), prune(prune(encoder, {2: [0, 3]}), {0: [2], 2: [1, 0]})
    assert twice.size == once.size
    for left, right in zip(once.variables, twice.variables, strict=True):
        np.testing.assert_array_equal(left, right)


def test_pruning_leaves_the_given_encoder_as_it_is_and_nothing_pruned_is_a_copy():
    encoder = scramble(tiny(**FOUR_HEADS))
    before = [variable.numpy() for variable in encoder.variables]
    prune(encoder, REMOVED)
    copy = prune(encoder, {1: []})
    assert copy is not encoder and copy.size == encoder.size and copy.size.pruned == ()
    for variable, same, value in zip(encoder.variables, copy.variables, before, strict=True):
        np.testing.assert_array_equal(variable, value)
        np.testing.assert_array_equal(same, value)


def test_name_precision_seed_and_the_stream_of_dropout_are_kept():
    encoder = Encoder(EncoderSize(**{**TINY, **FOUR_HEADS}), seed=7, name="small", dtype="mixed_bfloat16")
    encoder(TOKENS, training=True)
    smaller = prune(encoder, REMOVED)
    assert (smaller.name, smaller.seed, smaller.dtype_policy.name) == ("small", 7, "mixed_bfloat16")
    assert [variable.path for variable in smaller.variables] == [variable.path for variable in encoder.variables]
    np.testing.assert_array_equal(smaller.embeddings.dropout.state, encoder.embeddings.dropout.state)
    np.testing.assert_array_equal(smaller.embeddings(TOKENS, training=True), encoder.embeddings(TOKENS, training=True))


def test_a_head_mask_of_a_pruned_encoder_keeps_the_original_numbering():
    encoder = scramble(tiny(**FOUR_HEADS))
    further = HEAD_MASK * [1, 1, 1, 0.5]
    expected = encoder(TOKENS, SEGMENTS, MASK, head_mask=further)
    rubbish = np.where(HEAD_MASK, further, 9)  # what is gone has nothing to multiply
    found = prune(encoder, REMOVED)(TOKENS, SEGMENTS, MASK, head_mask=rubbish)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_pruned_encoder_comes_back_from_keras_files(tmp_path):
    encoder = prune(scramble(tiny(**FOUR_HEADS)), REMOVED)
    tokens = keras.Input((None,), dtype="int32")
    for name, model in {"functional": keras.Model(tokens, encoder(tokens)), "subclass": Pooled(encoder)}.items():
        model.save(tmp_path / f"{name}.keras")
        loaded = keras.saving.load_model(tmp_path / f"{name}.keras")
        np.testing.assert_allclose(loaded(TOKENS), model(TOKENS), atol=1e-6)
    assert loaded.encoder.size == encoder.size and loaded.encoder.size.pruned == ((2,), (), (0, 1, 3))


def test_a_pruned_encoder_learns_and_comes_back_from_a_checkpoint(tmp_path):
    encoder = prune(scramble(tiny(**FOUR_HEADS)), REMOVED)
    attention = encoder.layers[2].attention
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(encoder(TOKENS, SEGMENTS, MASK, training=True)[:, :, 0] ** 2)
    weights = [attention.query.kernel.value, attention.value.kernel.value, attention.output_projection.kernel.value]
    assert all(np.abs(gradient).max() > 1e-6 for gradient in tape.gradient(loss, weights))

    copy = Encoder(encoder.size, seed=9)
    tf.train.Checkpoint(encoder=encoder).write(str(tmp_path / "state"))
    tf.train.Checkpoint(encoder=copy).read(str(tmp_path / "state")).assert_consumed()
    np.testing.assert_array_equal(copy(TOKENS, SEGMENTS, MASK), encoder(TOKENS, SEGMENTS, MASK))


def test_shared_layers_lose_the_same_heads_or_none():
    encoder = scramble(tiny(**FOUR_HEADS, shared_layers=True, embedding=4))
    smaller = prune(encoder, {layer: [1, 3] for layer in range(3)})
    assert len(smaller.distinct_layers) == 1 and smaller.layers[0].attention.heads == 2
    expected = encoder(TOKENS, SEGMENTS, MASK, head_mask=np.tile([1, 0, 1, 0], (3, 1)))
    np.testing.assert_allclose(smaller(TOKENS, SEGMENTS, MASK), expected, atol=1e-5)
    with pytest.raises(BertlineError, match="share their weights, so that all of them must lose the same heads"):
        prune(encoder, {0: [1]})


@pytest.mark.parametrize(
    "heads, reason",
    [
        ({3: [0]}, "the layers are 0 to 2; there is no layer 3"),
        ({"0": [0]}, "there is no layer '0'"),
        ({1: [4]}, "the heads of layer 1 are 0 to 3; 4 cannot be pruned"),
    ],
)
def test_heads_that_cannot_go_are_refused(heads, reason):
    with pytest.raises(BertlineError, match=reason):
        prune(tiny(**FOUR_HEADS), heads)


def test_an_encoder_with_adapters_is_refused():
    encoder = tiny(**FOUR_HEADS)
    encoder.layers[0].attention.query.enable_lora(1)
    with pytest.raises(BertlineError, match="carries adapters"):
        prune(encoder, REMOVED)


ALL_OF_A_LAYER = {0: [2], 1: [0, 1, 2, 3]}
WITHOUT_A_LAYER = np.array([[1, 1, 0, 1], [0, 0, 0, 0], [1, 1, 1, 1]])


def test_a_layer_that_lost_all_its_heads_gives_what_it_gives_with_all_of_them_masked():
    encoder = scramble(tiny(**FOUR_HEADS))
    smaller = prune(encoder, ALL_OF_A_LAYER)
    expected = encoder(TOKENS, SEGMENTS, MASK, head_mask=WITHOUT_A_LAYER)
    np.testing.assert_allclose(smaller(TOKENS, SEGMENTS, MASK), expected, atol=1e-5)
    traced = tf.function(smaller, input_signature=[tf.TensorSpec([None, None], tf.int32)] * 2)
    alone = encoder(TOKENS, SEGMENTS, head_mask=WITHOUT_A_LAYER)
    np.testing.assert_allclose(traced(TOKENS, SEGMENTS), alone, atol=1e-5)
    again = prune(prune(encoder, {0: [2], 1: [3, 1]}), {1: [0, 2]})
    np.testing.assert_array_equal(again(TOKENS), smaller(TOKENS))

    shown = smaller.inspect(TOKENS, SEGMENTS, MASK)
    states = reference(encoder, TOKENS[2], SEGMENTS[2], WITHOUT_A_LAYER).hidden_states
    for found, wanted in zip(shown.hidden_states, states, strict=True):
        np.testing.assert_allclose(found[2], wanted, atol=2e-5)
    assert [tuple(weights.shape) for weights in shown.attentions] == [(3, 3, 5, 5), (3, 0, 5, 5), (3, 4, 5, 5)]


def test_the_last_layer_may_lose_all_its_heads_where_only_the_first_position_is_wanted():
    encoder = scramble(tiny(**FOUR_HEADS))
    smaller = prune(encoder, {2: range(4)})
    expected = encoder(TOKENS, SEGMENTS, MASK, head_mask=[[1] * 4, [1] * 4, [0] * 4])
    np.testing.assert_allclose(smaller(TOKENS, SEGMENTS, MASK, first_only=True)[:, 0], expected[:, 0], atol=1e-5)


def test_an_encoder_with_a_layer_without_heads_learns_and_comes_back_from_files(tmp_path):
    encoder = prune(scramble(tiny(**FOUR_HEADS)), ALL_OF_A_LAYER)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(encoder(TOKENS, SEGMENTS, MASK, training=True)[:, :, 0] ** 2)
    bias = encoder.layers[1].attention.output_projection.bias.value
    assert np.abs(tape.gradient(loss, bias)).max() > 1e-6
    save_encoder(encoder, tmp_path / "hugging-face")
    save_keras(encoder, tmp_path / "keras")
    for folder in ("hugging-face", "keras"):
        loaded, _ = load_encoder(tmp_path / folder)
        assert loaded.size.pruned == ((2,), (0, 1, 2, 3), ())
        np.testing.assert_array_equal(loaded(TOKENS, SEGMENTS, MASK), encoder(TOKENS, SEGMENTS, MASK))


def test_each_text_may_have_a_head_mask_of_its_own():
    encoder = scramble(tiny(**FOUR_HEADS))
    masks = np.random.default_rng(0).random((3, 3, 4)).astype(np.float32)
    found = encoder(TOKENS, SEGMENTS, MASK, head_mask=masks)
    for row in range(3):
        alone = encoder(TOKENS[row : row + 1], SEGMENTS[row : row + 1], MASK[row : row + 1], head_mask=masks[row])
        np.testing.assert_allclose(found[row], alone[0], atol=1e-5)
    with pytest.raises(BertlineError, match="or one of these for each text"):
        encoder(TOKENS, head_mask=masks[:, :2])


def test_calls_have_the_head_mask_that_they_stand_under():
    encoder = scramble(tiny(**FOUR_HEADS))
    plain, masked = encoder(TOKENS), encoder(TOKENS, head_mask=HEAD_MASK)
    with encoder.masking(HEAD_MASK):
        np.testing.assert_array_equal(encoder(TOKENS), masked)
        np.testing.assert_array_equal(encoder(TOKENS, head_mask=np.ones((3, 4))), plain)
    np.testing.assert_array_equal(encoder(TOKENS), plain)


def test_heads_ranked_by_numpy_can_be_pruned():
    encoder = tiny(**FOUR_HEADS)
    ranked = np.argsort([0.3, 0.1, 0.4, 0.2])
    assert prune(encoder, {np.int64(1): ranked[:2]}).size.pruned == ((), (1, 3), ())


def test_pruned_heads_have_one_spelling():
    size = EncoderSize(**TINY, pruned=[[1, 1], []])
    assert size == EncoderSize(**TINY, pruned=((1,), ())) and size.pruned == ((1,), ())
    assert EncoderSize(**TINY, pruned=[[], []]) == EncoderSize(**TINY)
