"""Our cross-entropy is TensorFlow's, in value and in gradient."""

import numpy as np
import pytest
import tensorflow as tf

from bertline.models.training.losses import cross_entropy, mean_cross_entropy


@pytest.mark.parametrize("spread", [1.0, 30.0, 1000.0])
def test_loss_and_gradient_are_tensorflows(spread):
    rng = np.random.default_rng(1)
    logits = tf.constant(rng.normal(0, spread, (40, 300)), tf.float32)
    labels = tf.constant(rng.integers(0, 300, 40), tf.int32)
    upstream = tf.constant(rng.random(40), tf.float32)
    found = []
    for function in (cross_entropy, lambda x, y: tf.nn.sparse_softmax_cross_entropy_with_logits(y, x)):
        with tf.GradientTape() as tape:
            tape.watch(logits)
            losses = function(logits, labels)
        found.append((losses.numpy(), tape.gradient(losses, logits, upstream).numpy()))
    (ours, our_gradient), (theirs, their_gradient) = found
    np.testing.assert_allclose(ours, theirs, rtol=2e-6, atol=1e-5)
    np.testing.assert_allclose(our_gradient, their_gradient, atol=1e-6)


def test_a_class_that_is_all_but_impossible_has_a_finite_loss():
    loss = cross_entropy(tf.constant([[500.0, -500.0]]), tf.constant([1]))
    assert loss.numpy() == pytest.approx([1000.0])


@pytest.mark.parametrize("spread", [1.0, 30.0])
def test_the_mean_over_all_classes_and_its_gradient_are_tensorflows(spread):
    rng = np.random.default_rng(2)
    logits = tf.constant(rng.normal(0, spread, (20, 50)), tf.float32)
    upstream = tf.constant(rng.random(20), tf.float32)
    found = []
    for function in (mean_cross_entropy, lambda x: -tf.reduce_mean(tf.nn.log_softmax(x), axis=-1)):
        with tf.GradientTape() as tape:
            tape.watch(logits)
            losses = function(logits)
        found.append((losses.numpy(), tape.gradient(losses, logits, upstream).numpy()))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-5)
    np.testing.assert_allclose(found[0][1], found[1][1], atol=1e-6)
