"""Dropout: the right share of units, scaled so that nothing changes on average, other ones each time."""

import numpy as np
import pytest
import tensorflow as tf

from bertline.models.encoders.bert.layers import Dropout


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_the_share_that_is_dropped_is_the_rate_and_the_mean_stays(rate):
    found = Dropout(rate, seed=1)(tf.ones([1000, 1001]), training=True).numpy()
    assert (found == 0).mean() == pytest.approx(rate, abs=5 * np.sqrt(rate * (1 - rate) / found.size))
    assert np.unique(found).size == 2
    assert found.max() == pytest.approx(1 / (1 - rate), rel=2e-4)  # of a rate in steps of 1 / 65,536


def test_neighbouring_units_are_dropped_independently():
    """Four units share one random word."""
    dropped = Dropout(0.5, seed=2)(tf.ones([100_000, 4]), training=True).numpy() == 0
    assert np.abs(np.corrcoef(dropped.T) - np.eye(4)).max() < 0.02


def test_calls_differ_and_follow_from_the_seed():
    first, again, other = Dropout(0.3, seed=3), Dropout(0.3, seed=3), Dropout(0.3, seed=4)
    x = tf.ones([7, 13])
    one, two = first(x, training=True).numpy(), first(x, training=True).numpy()
    assert (one != two).any()
    np.testing.assert_array_equal(one, again(x, training=True).numpy())
    assert (one != other(x, training=True).numpy()).any()


def test_nothing_is_dropped_outside_training_or_at_rate_0():
    x = tf.random.normal([5, 3])
    np.testing.assert_array_equal(Dropout(0.5, seed=1)(x), x)
    np.testing.assert_array_equal(Dropout(0.0, seed=1)(x, training=True), x)


def test_gradients_go_through_what_is_kept():
    x = tf.ones([50, 50])
    layer = Dropout(0.4, seed=5)
    with tf.GradientTape() as tape:
        tape.watch(x)
        found = layer(x, training=True)
    np.testing.assert_array_equal(tape.gradient(found, x), found)


def test_half_precision_stays_half_precision():
    assert Dropout(0.1, seed=1, dtype="bfloat16")(tf.ones([4, 4], tf.bfloat16), training=True).dtype == tf.bfloat16
