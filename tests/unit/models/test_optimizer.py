"""Each rule against a re-computation in numpy, in double precision."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bertline.models.training.optimizer import FIRST_LOSS_SCALE, Optimizer, decays

PEAK, DECAY, CLIP, BETAS, EPSILON = 0.01, 0.1, 0.5, (0.9, 0.999), 1e-6
SHAPES = {"encoder/embeddings/token/embeddings": (7, 3), "encoder/layer_0/expand/kernel": (3, 4), "head/bias": (4,)}


class Weight:
    """A Keras variable under a path of our choice."""

    def __init__(self, path, value):
        self.path, self._variable = path, keras.Variable(value, name="weight")

    @property
    def value(self):
        return self._variable.value

    def numpy(self):
        return self.value.numpy()


def weights():
    random = np.random.default_rng(0)
    return [Weight(path, random.normal(size=shape).astype(np.float32)) for path, shape in SHAPES.items()]


def gradients(step):
    random = np.random.default_rng((1, step))
    return [random.normal(size=shape).astype(np.float32) for shape in SHAPES.values()]


def optimizer(chosen, **changes):
    settings = {"peak": PEAK, "total_steps": 10, "warmup": 0.0, "weight_decay": DECAY, "clip_norm": CLIP}
    return Optimizer(chosen, **{**settings, "schedule": "constant", "betas": BETAS, "epsilon": EPSILON, **changes})


def recomputed(rule, steps, scales=(1.0, 1.0, 1.0)):
    """The rules as their papers write them; epsilon stands beside the uncorrected root for Adam, as TensorFlow has it."""
    values = [weight.numpy().astype(np.float64) for weight in weights()]
    means, squares = [np.zeros_like(v) for v in values], [np.zeros_like(v) for v in values]
    for step in range(steps):
        found = [g.astype(np.float64) for g in gradients(step)]
        norm = np.sqrt(sum((g**2).sum() for g in found))
        found = [g * min(1.0, CLIP / norm) for g in found]
        corrections = [1 - beta ** (step + 1) for beta in BETAS]
        for i, (path, gradient) in enumerate(zip(SHAPES, found, strict=True)):
            rate, decay = PEAK * scales[i], 0.0 if path.endswith("bias") else DECAY
            means[i] = BETAS[0] * means[i] + (1 - BETAS[0]) * gradient
            squares[i] = BETAS[1] * squares[i] + (1 - BETAS[1]) * gradient**2
            if rule == "adamw":
                update = np.sqrt(corrections[1]) / corrections[0] * means[i] / (np.sqrt(squares[i]) + EPSILON)
                values[i] = values[i] - rate * (update + decay * values[i])
            elif rule == "adam_reference":
                values[i] = values[i] - rate * (means[i] / (np.sqrt(squares[i]) + EPSILON) + decay * values[i])
            else:
                update = means[i] / corrections[0] / (np.sqrt(squares[i] / corrections[1]) + EPSILON) + decay * values[i]
                trust = np.linalg.norm(values[i]) / np.linalg.norm(update) if decay else 1.0
                values[i] = values[i] - rate * trust * update
    return values


@pytest.mark.parametrize("rule", ["adamw", "adam_reference", "lamb"])
def test_three_steps_equal_a_recomputation(rule):
    ours = weights()
    chosen = optimizer(ours, rule=rule)
    for step in range(3):
        chosen.apply([tf.constant(gradient) for gradient in gradients(step)])
    for weight, wanted in zip(ours, recomputed(rule, 3), strict=True):
        np.testing.assert_allclose(weight.numpy(), wanted, rtol=1e-5, atol=1e-6)


def test_the_three_rules_differ_from_each_other():
    found = [recomputed(rule, 3)[1] for rule in ("adamw", "adam_reference", "lamb")]
    assert all(np.abs(a - b).max() > 1e-3 for a, b in ((found[0], found[1]), (found[0], found[2]), (found[1], found[2])))


@pytest.mark.parametrize("rule", ["adamw", "lamb"])
def test_layer_decay_scales_each_layers_own_learning_rate(rule):
    ours = weights()
    chosen = optimizer(ours, rule=rule, layer_decay=0.5)
    for step in range(3):
        chosen.apply([tf.constant(gradient) for gradient in gradients(step)])
    for weight, wanted in zip(ours, recomputed(rule, 3, scales=(0.25, 0.5, 1.0)), strict=True):
        np.testing.assert_allclose(weight.numpy(), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("rule", ["adamw", "lamb"])
def test_the_rows_that_a_batch_looked_up_are_as_good_as_a_whole_gradient(rule):
    """A row that was looked up twice has both gradients."""
    rows, values = np.array([2, 5, 2]), np.random.default_rng(3).normal(size=(3, 3)).astype(np.float32)
    dense = np.zeros((7, 3), np.float32)
    np.add.at(dense, rows, values)
    found = []
    for gradient in (tf.IndexedSlices(tf.constant(values), tf.constant(rows), (7, 3)), tf.constant(dense)):
        ours = weights()
        optimizer(ours, rule=rule).apply([gradient, *(tf.constant(g) for g in gradients(0)[1:])])
        found.append(ours[0].numpy())
    np.testing.assert_allclose(*found, atol=1e-7)


def test_a_weight_that_the_loss_does_not_see_stays_as_it_is():
    ours, before = weights(), weights()
    optimizer(ours).apply([tf.constant(gradients(0)[0]), None, tf.constant(gradients(0)[2])])
    assert np.array_equal(ours[1].numpy(), before[1].numpy())
    assert not np.array_equal(ours[0].numpy(), before[0].numpy())


def test_lamb_moves_a_weight_of_length_0():
    ours = [Weight("head/kernel", np.zeros((2, 2), np.float32))]
    optimizer(ours, rule="lamb", weight_decay=0.1).apply([tf.ones((2, 2))])
    np.testing.assert_allclose(ours[0].numpy(), -PEAK, rtol=1e-4)


def test_biases_and_norms_are_not_decayed():
    assert decays("encoder/layer_0/expand/kernel") and decays("encoder/embeddings/token/embeddings")
    assert not any(map(decays, ("head/bias", "encoder/layer_0/attention_norm/gamma", "encoder/embeddings/norm/beta")))


def test_a_scaled_loss_gives_the_same_weights():
    ours = weights()
    chosen = optimizer(ours, scale_loss=True)
    for step in range(3):
        chosen.apply([tf.constant(gradient) * chosen.loss_scale for gradient in gradients(step)])
    for weight, wanted in zip(ours, recomputed("adamw", 3), strict=True):
        np.testing.assert_allclose(weight.numpy(), wanted, rtol=1e-5, atol=1e-6)
    assert float(chosen.loss_scale) == FIRST_LOSS_SCALE


def test_a_gradient_beyond_half_precision_changes_nothing_but_the_scale():
    ours, before = weights(), weights()
    chosen = optimizer(ours, scale_loss=True)
    chosen.apply([tf.constant(gradient) * np.inf for gradient in gradients(0)])
    assert all(np.array_equal(weight.numpy(), first.numpy()) for weight, first in zip(ours, before, strict=True))
    assert all(not moment.numpy().any() for moment in (*chosen.means, *chosen.squares))
    assert float(chosen.loss_scale) == FIRST_LOSS_SCALE / 2


def test_the_scale_grows_again_after_a_thousand_sound_steps():
    chosen = optimizer(weights(), scale_loss=True)
    chosen.state["sound_steps"].assign(998)
    grown = []
    for step in range(3):
        chosen.apply([tf.constant(gradient) for gradient in gradients(step)])
        grown.append(float(chosen.loss_scale) / FIRST_LOSS_SCALE)
    assert grown == [1.0, 2.0, 2.0]


def test_its_state_decides_the_next_update():
    """A second optimizer that takes over the state goes on where the first one stopped."""
    ours = weights()
    first, second = optimizer(ours, schedule="linear"), optimizer(ours, schedule="linear")
    first.apply([tf.constant(gradient) for gradient in gradients(0)])
    kept = [weight.numpy() for weight in ours]
    for name, variable in first.state.items():
        second.state[name].assign(variable)
    found = []
    for chosen in (first, second):
        for weight, value in zip(ours, kept, strict=True):
            weight.value.assign(value)
        chosen.apply([tf.constant(gradient) for gradient in gradients(1)])
        found.append([weight.numpy() for weight in ours])
    assert all(np.array_equal(*pair) for pair in zip(*found, strict=True))
