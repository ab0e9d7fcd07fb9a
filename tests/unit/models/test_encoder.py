"""The encoder against a NumPy reference, and its promises on padding, seeds, strategies and compilation."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf
from encoder_reference import ACTIVATIONS, MASK, SEGMENTS, TINY, TOKENS, attend, dense, reference, scramble, tiny

from bertline.models.encoders.bert.backbone import Encoder, EncoderSize
from bertline.pipeline.core.errors import BertlineError


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_states_and_pooled_vector_equal_a_numpy_reference(activation):
    encoder = scramble(tiny(activation=activation))
    sequence = encoder(TOKENS, SEGMENTS, MASK)
    pooled = encoder.pool(sequence)
    for row, length in enumerate(MASK.sum(1)):
        expected = reference(encoder, TOKENS[row, :length], SEGMENTS[row, :length]).hidden_states[-1]
        np.testing.assert_allclose(sequence[row, :length], expected, atol=2e-5)
        np.testing.assert_allclose(pooled[row], np.tanh(dense(encoder.pooler, expected[0])), atol=2e-5)


def test_one_attention_layer_equals_a_numpy_reference():
    attention = scramble(tiny(layers=1)).layers[0].attention
    states = np.random.default_rng(0).normal(size=(6, 8)).astype(np.float32)  # two examples of three tokens
    found, _ = attention(states, None, seq=3)
    np.testing.assert_allclose(found[:3], attend(attention, states[:3])[0], atol=1e-5)
    np.testing.assert_allclose(found[3:], attend(attention, states[3:])[0], atol=1e-5)


def test_what_stands_in_the_padding_never_changes_a_token():
    encoder = scramble(tiny())
    rubbish, segments = np.where(MASK, TOKENS, 29), np.where(MASK, SEGMENTS, 1)
    expected, found = encoder(TOKENS, SEGMENTS, MASK).numpy(), encoder(rubbish, segments, MASK).numpy()
    np.testing.assert_array_equal(found[MASK], expected[MASK])
    assert not np.array_equal(found[~MASK], expected[~MASK])


def test_more_padding_and_other_rows_never_change_a_token():
    encoder = scramble(tiny())
    alone = encoder(TOKENS[1:2, :3], SEGMENTS[1:2, :3], MASK[1:2, :3])
    padded = encoder(*(np.pad(part, ((0, 0), (0, 6))) for part in (TOKENS, SEGMENTS, MASK)))
    np.testing.assert_allclose(padded[1, :3], alone[0], atol=1e-5)


def test_masks_may_be_bool_or_int_and_segments_or_mask_may_be_left_out():
    encoder = scramble(tiny())
    np.testing.assert_array_equal(encoder(TOKENS, SEGMENTS, MASK), encoder(TOKENS, SEGMENTS, MASK.astype(np.int32)))
    np.testing.assert_array_equal(encoder(TOKENS, None, MASK), encoder(TOKENS, 0 * SEGMENTS, MASK))
    np.testing.assert_array_equal(encoder(TOKENS, SEGMENTS), encoder(TOKENS, SEGMENTS, np.ones_like(MASK)))


@pytest.mark.parametrize("policy", ["float32", "mixed_float16", "mixed_bfloat16"])
def test_a_row_without_tokens_stays_finite(policy):
    encoder = Encoder(EncoderSize(**TINY), dtype=policy)
    assert np.isfinite(tf.cast(encoder(TOKENS, SEGMENTS, 0 * TOKENS), tf.float32)).all()


def test_one_trace_serves_every_shape():
    encoder, traces = tiny(), []

    @tf.function(input_signature=[tf.TensorSpec((None, None), tf.int32)])
    def run(tokens):
        traces.append(1)
        return encoder(tokens, None, tokens > 0)

    for shape in ((1, 1), (3, 5), (2, 12)):
        tokens = np.ones(shape, np.int32)
        np.testing.assert_allclose(run(tokens), encoder(tokens, None, tokens > 0), atol=1e-6)
    assert len(traces) == 1


def test_it_fits_into_a_functional_keras_model():
    encoder = tiny()
    inputs = [keras.Input((None,), dtype="int32") for _ in range(3)]
    model = keras.Model(inputs, encoder.pool(encoder(*inputs)))
    assert model.output_shape == (None, 8)
    expected = encoder.pool(encoder(TOKENS, SEGMENTS, MASK))
    np.testing.assert_allclose(model([TOKENS, SEGMENTS, MASK.astype(np.int32)]), expected, atol=1e-6)


def test_one_seed_gives_equal_weights_and_equal_dropout():
    first, second, other = tiny(seed=5), tiny(seed=5), tiny(seed=6)
    for left, right in zip(first.variables, second.variables, strict=True):
        np.testing.assert_array_equal(left, right)
    for _ in range(2):
        states = [encoder(TOKENS, SEGMENTS, MASK, training=True).numpy() for encoder in (first, second, other)]
        np.testing.assert_array_equal(states[0], states[1])
        assert not np.array_equal(states[0], states[2])
    assert not np.array_equal(first.embeddings.token.embeddings, other.embeddings.token.embeddings)


def test_every_kernel_is_drawn_anew_from_a_truncated_normal():
    encoder = tiny(hidden=64, intermediate=64)
    kernels = [weight.numpy() for weight in encoder.trainable_variables if weight.name in ("kernel", "embeddings")]
    assert len(kernels) == 3 + 2 * 6 + 1
    assert len({kernel.tobytes() for kernel in kernels}) == len(kernels)
    assert max(np.abs(kernel).max() for kernel in kernels) <= 0.04
    assert np.concatenate([kernel.ravel() for kernel in kernels]).std() == pytest.approx(0.0176, abs=5e-4)


def test_dropout_only_happens_in_training_and_never_at_rate_0():
    encoder, without = tiny(), tiny(dropout=0.0, attention_dropout=0.0)
    expected = encoder(TOKENS, SEGMENTS, MASK)
    np.testing.assert_array_equal(encoder(TOKENS, SEGMENTS, MASK), expected)
    np.testing.assert_array_equal(without(TOKENS, SEGMENTS, MASK, training=True), expected)
    assert not np.array_equal(encoder(TOKENS, SEGMENTS, MASK, training=True), expected)


def test_the_dropout_stream_goes_on_exactly_from_restored_variables(tmp_path):
    encoder, resumed = tiny(seed=1), tiny(seed=2)
    encoder(TOKENS, SEGMENTS, MASK, training=True)
    tf.train.Checkpoint(encoder=encoder).write(str(tmp_path / "state"))
    values = [variable.numpy() for variable in encoder.variables]
    expected = encoder(TOKENS, SEGMENTS, MASK, training=True)

    tf.train.Checkpoint(encoder=resumed).read(str(tmp_path / "state")).assert_consumed()
    np.testing.assert_array_equal(resumed(TOKENS, SEGMENTS, MASK, training=True), expected)
    for variable, value in zip(resumed.variables, values, strict=True):
        variable.assign(value)
    np.testing.assert_array_equal(resumed(TOKENS, SEGMENTS, MASK, training=True), expected)


def test_every_weight_exists_at_once_under_its_own_path():
    encoder = tiny(layers=1)
    paths = [variable.path for variable in encoder.variables]
    assert len(set(paths)) == len(paths) == 5 + 16 + 2 + 4  # embeddings, a layer, the pooler, four dropouts
    assert {"encoder/embeddings/token/embeddings", "encoder/layer_0/attention/query/kernel"} <= set(paths)
    encoder.pool(encoder(TOKENS, SEGMENTS, MASK, training=True))
    assert [variable.path for variable in encoder.variables] == paths


def test_every_weight_learns():
    encoder = scramble(tiny())
    targets = np.random.default_rng(0).normal(size=(3, 5, 8))
    with tf.GradientTape() as tape:
        sequence = encoder(TOKENS, SEGMENTS, MASK, training=True)
        loss = tf.reduce_mean((sequence - targets) ** 2) + tf.reduce_mean(encoder.pool(sequence) ** 2)
    weights = encoder.trainable_variables
    for weight, gradient in zip(weights, tape.gradient(loss, [weight.value for weight in weights]), strict=True):
        size = np.abs(tf.convert_to_tensor(gradient)).max()
        # A key's bias moves all scores of a query alike, which softmax does not see.
        assert size < 1e-6 if weight.path.endswith("key/bias") else size > 1e-6, weight.path


def test_config_makes_an_equal_encoder():
    encoder = tiny(seed=4, activation="relu")
    copy = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(encoder))
    assert copy.size == encoder.size
    np.testing.assert_array_equal(copy(TOKENS, SEGMENTS, MASK), encoder(TOKENS, SEGMENTS, MASK))


def test_too_many_tokens_are_refused():
    with pytest.raises(BertlineError, match="13 tokens do not fit its 12 positions"):
        tiny()(np.ones((1, 13), np.int32))


@pytest.mark.parametrize(
    "changes, reason",
    [
        ({"layers": 0}, "layers must be a whole number from 1 on. Received: layers=0"),
        ({"hidden": 8.0}, "hidden must be a whole number"),
        ({"vocab_size": True}, "vocab_size must be a whole number"),
        ({"heads": 3}, "hidden must be a multiple of heads. Received: hidden=8, heads=3"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1"),
        ({"attention_dropout": "a"}, "attention_dropout must be"),
        ({"layer_norm_eps": 0}, "layer_norm_eps must lie between"),
        ({"activation": "swish"}, "activation must be one of gelu, gelu_tanh, gelu_new, relu"),
        ({"segments": -1}, "segments must be a whole number from 0 on"),
        ({"position_offset": None}, "position_offset must be a whole number from 0 on"),
        ({"embedding": 0}, "embedding must be a whole number from 1 on, or none. Received: embedding=0"),
        ({"shared_layers": 1}, "shared_layers must be true or false"),
        ({"pruned": 3}, "pruned must be lists of heads. Received: pruned=3"),
        ({"pruned": ((0,),)}, "pruned must have one list for each of the 2 layers"),
        ({"pruned": ((), (2,))}, "the heads of layer 1 are 0 to 1; 2 cannot be pruned"),
        ({"pruned": ((), (-1,))}, "the heads of layer 1 are 0 to 1; -1 cannot be pruned"),
        ({"pruned": ((), ("a", 1))}, "pruned must be lists of heads"),
        ({"pruned": ((1,), ()), "shared_layers": True}, "all of them must lose the same heads"),
    ],
)
def test_a_size_that_cannot_be_is_refused(changes, reason):
    with pytest.raises(BertlineError, match=reason):
        EncoderSize(**{**TINY, **changes})


def test_the_first_position_alone_is_that_of_the_whole_sequence() -> None:
    encoder = scramble(tiny())
    whole = encoder(TOKENS, SEGMENTS, MASK)
    alone = encoder(TOKENS, SEGMENTS, MASK, first_only=True)
    assert alone.shape == (3, 1, 8)
    np.testing.assert_allclose(alone[:, 0], whole[:, 0], atol=1e-6)
    np.testing.assert_allclose(encoder.pool(alone), encoder.pool(whole), atol=1e-6)
