"""ALBERT and RoBERTa by configuration: parameters counted by hand, states against NumPy."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf
from encoder_reference import MASK, SEGMENTS, TOKENS, dense, normalise, scramble, table, tiny, transform

ALBERT = dict(embedding=4, shared_layers=True, activation="gelu_new")
ROBERTA = dict(position_offset=2, segments=1)
# hidden 8, intermediate 16: four projections, two norms, the feed-forward part
LAYER = 4 * (8 * 8 + 8) + 2 * (8 + 8) + (8 * 16 + 16) + (16 * 8 + 8)
POOLER = 8 * 8 + 8


@pytest.mark.parametrize(
    "changes, expected",
    [
        ({}, 8 * (30 + 2 + 12) + 16 + 2 * LAYER + POOLER),
        (ALBERT, 4 * (30 + 2 + 12) + 8 + (4 * 8 + 8) + LAYER + POOLER),
        ({"embedding": 8}, 8 * (30 + 2 + 12) + 16 + (8 * 8 + 8) + 2 * LAYER + POOLER),
        ({"shared_layers": True, "layers": 7}, 8 * (30 + 2 + 12) + 16 + LAYER + POOLER),
        (ROBERTA, 8 * (30 + 1 + 14) + 16 + 2 * LAYER + POOLER),
        ({"segments": 0}, 8 * (30 + 12) + 16 + 2 * LAYER + POOLER),
    ],
)
def test_parameters_are_as_many_as_counted_by_hand(changes, expected):
    assert sum(weight.numpy().size for weight in tiny(**changes).trainable_variables) == expected


def test_a_layer_of_albert_equals_a_numpy_reference():
    encoder = scramble(tiny(**ALBERT, layers=1))
    tables = encoder.embeddings
    found = encoder.inspect(TOKENS, SEGMENTS, MASK)
    for row, length in enumerate(MASK.sum(1)):
        tokens, segments = TOKENS[row, :length], SEGMENTS[row, :length]
        narrow = table(tables.token)[tokens] + table(tables.segment)[segments] + table(tables.position)[:length]
        assert narrow.shape == (length, 4)
        embedded = dense(tables.projection, normalise(tables.norm, narrow))
        expected, _ = transform(encoder.layers[0], embedded, "gelu_new")
        np.testing.assert_allclose(found.hidden_states[0][row, :length], embedded, atol=2e-5)
        np.testing.assert_allclose(found.sequence[row, :length], expected, atol=2e-5)


def test_shared_layers_are_one_layer_used_again_and_again():
    encoder = scramble(tiny(**ALBERT, layers=3))
    (only,) = encoder.distinct_layers
    assert len(encoder.layers) == 3 and all(layer is only for layer in encoder.layers)
    found = encoder.inspect(TOKENS, SEGMENTS, MASK)
    for before, after in zip(found.hidden_states, found.hidden_states[1:], strict=False):
        expected, _ = transform(only, before.numpy()[2].astype(np.float64), "gelu_new")
        np.testing.assert_allclose(after[2], expected, atol=2e-5)


def test_layers_of_their_own_are_all_distinct():
    encoder = tiny(layers=3)
    assert len({id(layer) for layer in encoder.layers}) == 3
    assert [id(layer) for layer in encoder.layers] == [id(layer) for layer in encoder.distinct_layers]


def test_narrow_embeddings_are_dropped_before_they_are_projected():
    embeddings = scramble(tiny(**ALBERT, dropout=0.5)).embeddings
    kept = embeddings(TOKENS, SEGMENTS).numpy().reshape(-1, 8) - embeddings.projection.bias.numpy()
    dropped = embeddings(TOKENS, SEGMENTS, training=True).numpy().reshape(-1, 8) - embeddings.projection.bias.numpy()
    back = np.linalg.pinv(embeddings.projection.kernel.numpy().astype(np.float64))  # [8, 4]
    ratio = (dropped @ back) / (kept @ back)
    np.testing.assert_allclose(ratio, np.where(ratio > 1, 2, 0), atol=1e-3)
    assert set(np.round(ratio).ravel()) == {0, 2}


def test_roberta_counts_its_positions_over_tokens_and_equals_a_numpy_reference():
    encoder = scramble(tiny(**ROBERTA, layers=1))
    tables = encoder.embeddings
    mask = np.array([[1, 1, 1, 1, 0], [1, 1, 1, 0, 0], [0, 1, 1, 0, 1]])  # the last row has gaps
    rows = np.array([[2, 3, 4, 5, 1], [2, 3, 4, 1, 1], [1, 2, 3, 1, 4]])
    found = encoder.inspect(TOKENS, None, mask)
    summed = table(tables.token)[TOKENS] + table(tables.segment)[0] + table(tables.position)[rows]
    embedded = normalise(tables.norm, summed)
    np.testing.assert_allclose(found.hidden_states[0], embedded, atol=2e-5)
    for row, tokens in enumerate(mask.astype(bool)):
        expected, _ = transform(encoder.layers[0], embedded[row][tokens], "gelu")
        np.testing.assert_allclose(found.sequence.numpy()[row][tokens], expected, atol=2e-5)


def test_roberta_takes_as_many_tokens_as_it_has_usable_positions():
    encoder = scramble(tiny(**ROBERTA))
    tokens = np.full((1, 12), 7)
    np.testing.assert_allclose(encoder(tokens), encoder(tokens, None, np.ones_like(tokens)), atol=1e-6)
    place = table(encoder.embeddings.position)[2:]
    assert place.shape == (12, 8)
    summed = table(encoder.embeddings.token)[tokens] + table(encoder.embeddings.segment)[0] + place
    np.testing.assert_allclose(encoder.embeddings(tokens), normalise(encoder.embeddings.norm, summed), atol=2e-5)


@pytest.mark.parametrize("segments", [0, 1])
def test_an_encoder_without_a_choice_of_segments_takes_texts_of_two_segments(segments):
    encoder = scramble(tiny(segments=segments))
    assert (encoder.embeddings.segment is None) == (segments == 0)
    np.testing.assert_array_equal(encoder(TOKENS, SEGMENTS, MASK), encoder(TOKENS, None, MASK))


def test_without_a_segment_table_the_sum_is_of_tokens_and_positions():
    embeddings = scramble(tiny(segments=0)).embeddings
    expected = normalise(embeddings.norm, table(embeddings.token)[TOKENS] + table(embeddings.position)[:5])
    np.testing.assert_allclose(embeddings(TOKENS), expected, atol=2e-5)


@pytest.mark.parametrize("changes", [ALBERT, ROBERTA, {"segments": 0}])
def test_every_weight_of_a_relative_learns_and_comes_back_from_its_files(changes, tmp_path):
    encoder = scramble(tiny(**changes))
    targets = np.random.default_rng(0).normal(size=(3, 5, 8))
    with tf.GradientTape() as tape:
        sequence = encoder(TOKENS, SEGMENTS, MASK, training=True)
        loss = tf.reduce_mean((sequence - targets) ** 2) + tf.reduce_mean(encoder.pool(sequence) ** 2)
    weights = encoder.trainable_variables
    for weight, gradient in zip(weights, tape.gradient(loss, [weight.value for weight in weights]), strict=True):
        if not weight.path.endswith("key/bias"):  # it moves all scores of a query alike, which softmax does not see
            assert np.abs(tf.convert_to_tensor(gradient)).max() > 1e-6, weight.path

    expected = encoder(TOKENS, SEGMENTS, MASK)
    copy = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(encoder))
    assert copy.size == encoder.size
    tf.train.Checkpoint(encoder=encoder).write(str(tmp_path / "state"))
    tf.train.Checkpoint(encoder=copy).read(str(tmp_path / "state")).assert_consumed()
    np.testing.assert_array_equal(copy(TOKENS, SEGMENTS, MASK), expected)

    inputs = [keras.Input((None,), dtype="int32") for _ in range(3)]
    keras.Model(inputs, encoder(*inputs)).save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded([TOKENS, SEGMENTS, MASK.astype(np.int32)]), expected, atol=1e-6)
