"""What an encoder shows on request, masked heads, and several texts in one row."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf
from encoder_reference import MASK, SEGMENTS, TINY, TOKENS, reference, scramble, tiny

from bertline.models.encoders.bert.backbone import Encoder, EncoderSize
from bertline.pipeline.core.errors import BertlineError

# Three tokens, two tokens and padding in one row; the second row is one text of four tokens.
PACKED = np.array([[2, 7, 3, 2, 9, 0], [2, 8, 9, 3, 0, 0]], np.int32)
PACKED_SEGMENTS = np.array([[0, 1, 1, 0, 1, 0], [0, 0, 1, 1, 0, 0]], np.int32)
BLOCKS = np.array([[1, 1, 1, 2, 2, 0], [1, 1, 1, 1, 0, 0]], np.int32)
POSITIONS = np.array([[0, 1, 2, 0, 1, 0], [0, 1, 2, 3, 0, 0]], np.int32)
TEXTS = [(0, slice(0, 3)), (0, slice(3, 5)), (1, slice(0, 4))]


def test_an_inspection_holds_every_state_and_weight_of_a_numpy_reference():
    encoder = scramble(tiny())
    shown = encoder.inspect(TOKENS, SEGMENTS, MASK)
    assert [states.shape for states in shown.hidden_states] == [(3, 5, 8)] * 3
    assert [weights.shape for weights in shown.attentions] == [(3, 2, 5, 5)] * 2
    for row, length in enumerate(MASK.sum(1)):
        expected = reference(encoder, TOKENS[row, :length], SEGMENTS[row, :length])
        for states, numbers in zip(shown.hidden_states, expected.hidden_states, strict=True):
            np.testing.assert_allclose(states[row, :length], numbers, atol=2e-5)
        for weights, numbers in zip(shown.attentions, expected.attentions, strict=True):
            np.testing.assert_allclose(weights[row, :, :length, :length], numbers, atol=1e-5)
            assert not np.any(weights[row, :, :length, length:])  # nobody looks at padding


def test_an_inspection_gives_the_numbers_of_a_call():
    encoder = scramble(tiny())
    shown = encoder.inspect(TOKENS, SEGMENTS, MASK)
    np.testing.assert_array_equal(shown.sequence, encoder(TOKENS, SEGMENTS, MASK))
    np.testing.assert_array_equal(shown.hidden_states[-1], shown.sequence)
    packed = dict(blocks=BLOCKS, positions=POSITIONS, head_mask=np.array([[1, 0], [0.5, 1]]))
    shown = encoder.inspect(PACKED, PACKED_SEGMENTS, **packed)
    np.testing.assert_array_equal(shown.sequence, encoder(PACKED, PACKED_SEGMENTS, **packed))


def test_in_training_an_inspection_drops_what_a_call_drops_and_shows_undropped_weights():
    inspected, called = (scramble(tiny(seed=5, dropout=0.4, attention_dropout=0.4)) for _ in range(2))
    shown = inspected.inspect(TOKENS, SEGMENTS, MASK, training=True)
    np.testing.assert_array_equal(shown.sequence, called(TOKENS, SEGMENTS, MASK, training=True))
    assert not np.array_equal(shown.sequence, called(TOKENS, SEGMENTS, MASK))
    for weights in shown.attentions:
        np.testing.assert_allclose(np.sum(weights, -1), 1, atol=1e-5)
        assert np.all(weights.numpy()[2] > 0)  # the row without padding


def test_dropped_weights_that_are_made_again_give_the_gradients_of_kept_ones(monkeypatch):
    """To the bit: the second time drops what the first one dropped, and every product is the same."""

    def gradients():
        encoder = scramble(tiny(seed=5, dropout=0.1, attention_dropout=0.4))

        @tf.function(autograph=False)
        def found():
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(encoder(TOKENS, SEGMENTS, MASK, training=True) ** 3)
            return tape.gradient(loss, [weight.value for weight in encoder.trainable_variables[:-2]])

        return [tf.convert_to_tensor(gradient).numpy() for gradient in found()]

    made_again = gradients()
    monkeypatch.setattr(tf, "recompute_grad", lambda function: function)
    for found, wanted in zip(made_again, gradients(), strict=True):
        np.testing.assert_array_equal(found, wanted)
    assert all(np.abs(gradient).max() > 0 for gradient in made_again)


def test_an_inspection_fits_into_a_functional_keras_model():
    encoder = scramble(tiny())
    inputs = [keras.Input((None,), dtype="int32") for _ in range(3)]
    shown = encoder.inspect(*inputs)
    model = keras.Model(inputs, [shown.hidden_states[1], shown.attentions[1]])
    found = model([TOKENS, SEGMENTS, MASK.astype(np.int32)])
    expected = encoder.inspect(TOKENS, SEGMENTS, MASK)
    np.testing.assert_allclose(found[0], expected.hidden_states[1], atol=1e-6)
    np.testing.assert_allclose(found[1], expected.attentions[1], atol=1e-6)


def test_an_inspection_of_half_precision_shows_full_precision_weights():
    encoder = Encoder(EncoderSize(**TINY), dtype="mixed_bfloat16")
    shown = encoder.inspect(TOKENS, SEGMENTS, MASK, head_mask=np.ones((2, 2)))
    np.testing.assert_array_equal(shown.sequence, encoder(TOKENS, SEGMENTS, MASK))
    assert shown.sequence.dtype == "bfloat16" and shown.attentions[0].dtype == "float32"


def test_the_first_position_alone_cannot_be_inspected():
    with pytest.raises(BertlineError, match="first_only and everything exclude each other"):
        tiny()(TOKENS, first_only=True, everything=True)


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("head", [0, 1])
def test_a_silenced_head_is_one_whose_rows_of_the_output_projection_are_0(layer, head):
    encoder = scramble(tiny())
    head_mask = np.ones((2, 2))
    head_mask[layer, head] = 0
    masked = encoder(TOKENS, SEGMENTS, MASK, head_mask=head_mask)
    first = encoder(TOKENS, SEGMENTS, MASK, head_mask=head_mask, first_only=True)
    np.testing.assert_allclose(first[:, 0], masked[:, 0], atol=1e-6)
    assert np.abs(masked - encoder(TOKENS, SEGMENTS, MASK)).max() > 0.01

    kernel = encoder.layers[layer].attention.output_projection.kernel
    rows = kernel.numpy()
    rows[4 * head : 4 * head + 4] = 0
    kernel.assign(rows)
    np.testing.assert_allclose(masked, encoder(TOKENS, SEGMENTS, MASK), atol=1e-6)


def test_a_head_mask_weighs_heads_as_a_numpy_reference_does():
    encoder = scramble(tiny())
    head_mask = np.array([[0.25, 1.5], [1.0, 0.5]])
    expected = reference(encoder, TOKENS[2], SEGMENTS[2], head_mask).hidden_states[-1]
    np.testing.assert_allclose(encoder(TOKENS, SEGMENTS, MASK, head_mask=head_mask)[2], expected, atol=2e-5)
    np.testing.assert_array_equal(
        encoder(TOKENS, SEGMENTS, MASK, head_mask=[[1, 1], [1, 1]]), encoder(TOKENS, SEGMENTS, MASK)
    )


def test_gradients_of_a_head_mask_are_the_slopes_of_the_reference():
    encoder = scramble(tiny())
    direction = np.random.default_rng(0).normal(size=(5, 8))
    head_mask = tf.Variable(np.ones((2, 2), np.float32))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(encoder(TOKENS[2:], SEGMENTS[2:], head_mask=head_mask)[0] * direction)
    gradient = tape.gradient(loss, head_mask).numpy()

    for place in np.ndindex(2, 2):
        sides = []
        for step in (1e-4, -1e-4):
            moved = np.ones((2, 2))
            moved[place] += step
            states = reference(encoder, TOKENS[2], SEGMENTS[2], moved).hidden_states[-1]
            sides.append((states * direction).sum())
        slope = (sides[0] - sides[1]) / 2e-4
        assert abs(slope) > 0.01
        assert gradient[place] == pytest.approx(slope, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("shape", [(2,), (2, 3), (1, 2), (3, 2, 3), (1, 3, 2, 2)])
def test_a_head_mask_of_another_shape_is_refused(shape):
    with pytest.raises(BertlineError, match=r"\[layers, heads\], here \[2, 2\], or one of these for each text. Received: "):
        tiny()(TOKENS, head_mask=np.ones(shape))


@pytest.mark.parametrize("offset", [0, 2])
def test_texts_packed_into_one_row_have_the_states_they_have_alone(offset):
    encoder = scramble(tiny(position_offset=offset))
    packed = encoder(PACKED, PACKED_SEGMENTS, blocks=BLOCKS, positions=POSITIONS)
    for row, place in TEXTS:
        alone = encoder(PACKED[row, place][None], PACKED_SEGMENTS[row, place][None])[0]
        np.testing.assert_allclose(packed[row, place], alone, atol=1e-5)
    first = encoder(PACKED, PACKED_SEGMENTS, blocks=BLOCKS, positions=POSITIONS, first_only=True)
    np.testing.assert_allclose(first[:, 0], packed[:, 0], atol=1e-6)


def test_nobody_looks_into_another_block_or_at_padding():
    shown = scramble(tiny()).inspect(PACKED, PACKED_SEGMENTS, blocks=BLOCKS, positions=POSITIONS)
    for row, place in TEXTS:
        inside = np.zeros(6, bool)
        inside[place] = True
        for weights in shown.attentions:
            weights = weights.numpy()[row][:, inside]
            assert np.all(weights[..., inside] > 0) and not np.any(weights[..., ~inside])


def test_mask_and_blocks_both_hold():
    encoder = scramble(tiny())
    mask = BLOCKS > 0
    mask[0, 2] = False  # the first text loses its last token
    masked = encoder(PACKED, PACKED_SEGMENTS, mask.astype(np.int32), blocks=BLOCKS, positions=POSITIONS)
    for row, place in [(0, slice(0, 2)), *TEXTS[1:]]:
        alone = encoder(PACKED[row, place][None], PACKED_SEGMENTS[row, place][None])[0]
        np.testing.assert_allclose(masked[row, place], alone, atol=1e-5)


def test_padding_between_blocks_is_padding_to_an_encoder_that_counts_tokens_only():
    encoder = scramble(tiny(position_offset=2))
    blocks = np.array([[1, 1, 0, 2, 2, 0]])
    shown = encoder.inspect(PACKED[:1], blocks=blocks)
    np.testing.assert_array_equal(shown.hidden_states[0], encoder.inspect(PACKED[:1], mask=blocks > 0).hidden_states[0])


def test_positions_count_on_through_a_row_unless_they_are_given():
    encoder = scramble(tiny())
    counted = encoder(PACKED, blocks=BLOCKS)
    np.testing.assert_array_equal(counted, encoder(PACKED, blocks=BLOCKS, positions=np.tile(np.arange(6), (2, 1))))
    assert np.abs(counted - encoder(PACKED, blocks=BLOCKS, positions=POSITIONS))[0, 3:5].max() > 0.01


def test_a_row_may_be_longer_than_the_positions_of_its_texts():
    encoder = scramble(tiny(max_positions=3))
    tokens, positions = np.tile([2, 7, 3], (1, 3)), np.tile([0, 1, 2], (1, 3))
    packed = encoder(tokens, blocks=np.repeat([[1, 2, 3]], 3, axis=1), positions=positions)
    np.testing.assert_allclose(packed[0].numpy().reshape(3, 3, 8), [encoder(tokens[:, :3])[0]] * 3, atol=1e-5)


@pytest.mark.parametrize("policy", ["float32", "mixed_float16"])
def test_a_row_of_nothing_but_padding_stays_finite_with_blocks(policy):
    encoder = Encoder(EncoderSize(**TINY), dtype=policy)
    assert np.isfinite(tf.cast(encoder(PACKED, blocks=0 * BLOCKS, positions=POSITIONS), tf.float32)).all()


def test_one_trace_serves_every_shape_of_packed_rows():
    encoder, traces = scramble(tiny()), []

    @tf.function(input_signature=[tf.TensorSpec((None, None), tf.int32)] * 3)
    def run(tokens, blocks, positions):
        traces.append(1)
        return encoder(tokens, blocks=blocks, positions=positions)

    for part in (np.s_[:, :], np.s_[:1, :3]):
        inputs = PACKED[part], BLOCKS[part], POSITIONS[part]
        expected = encoder(inputs[0], blocks=inputs[1], positions=inputs[2])
        np.testing.assert_allclose(run(*inputs), expected, atol=1e-5)
    assert len(traces) == 1
