"""What heads are worth, against numbers that are worked out another way."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from encoder_reference import TINY
from tiny_pushed import SIZE, TEXTS, built, records

from bertline.models.adapters.head_importance import by_ablation, by_gradient, least_important, mask_without, present
from bertline.models.adapters.lora import find_encoder
from bertline.models.adapters.pruning import prune_model
from bertline.models.data.batching import padded
from bertline.models.data.example_parsing import features_of
from bertline.models.encoders.bert.backbone import EncoderSize
from bertline.models.tasks.base.task import expanded
from bertline.pipeline.core.errors import BertlineError


@pytest.fixture(autouse=True, scope="module")
def _eagerly():
    """Tracing would take nearly all of the time."""
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


LOST = {0: [0, 1, 2, 3], 1: [2]}
"""The first layer has no head left."""


@pytest.mark.parametrize("name", TEXTS)
def test_a_pruned_model_of_every_task_answers_as_the_masked_one(name, tmp_path):
    task, context, model = built(name, tmp_path, crf=name == "tagging")
    batch = task.evaluation.prepare(padded(expanded(task, features_of(tf.constant(records(name)), task, context), context)))
    with find_encoder(model).masking(mask_without(SIZE, LOST)):
        masked = task.serving.predict(model, batch, context)
    whole = task.serving.predict(model, batch, context)
    pruned = task.serving.predict(prune_model(task, context, model, LOST), batch, context)
    for given, wanted, before in zip(*map(tf.nest.flatten, (pruned, masked, whole)), strict=True):
        np.testing.assert_allclose(given, wanted, atol=1e-5, rtol=1e-5)
        if before.dtype.is_floating and before.shape.rank > 1 and name != "tagging":  # where transitions stay as they are
            assert np.abs(before - wanted).max() > 1e-3, "the heads matter"


def features(name, tmp_path):
    task, context, model = built(name, tmp_path)
    return task, context, model, features_of(tf.constant(records(name, 6)), task, context)


def test_gradients_are_the_finite_differences_of_each_rows_own_loss(tmp_path):
    task, context, model, rows = features("classification", tmp_path)
    encoder, step = find_encoder(model), 1e-2
    batch = {**padded(rows), "weight": tf.ones([6])}

    def losses(mask):
        with encoder.masking(mask):
            return task.objective.loss(model(batch), batch).numpy().astype(np.float64)

    sums = np.zeros((2, 4))
    for place in np.ndindex(2, 4):
        up, down = np.ones((2, 4), np.float32), np.ones((2, 4), np.float32)
        up[place], down[place] = 1 + step, 1 - step
        sums[place] = np.abs((losses(up) - losses(down)) / (2 * step)).sum()
    expected = sums / np.linalg.norm(sums, axis=1, keepdims=True)
    seen = []
    found = by_gradient(task, context, model, [rows], lambda *done: seen.append(done))
    np.testing.assert_allclose(found, expected, rtol=2e-2, atol=2e-3)
    assert seen == [(1, 1)]


def test_rows_in_other_batches_give_the_same_importance(tmp_path):
    task, context, model, rows = features("regression", tmp_path)
    parts = [{name: tf.gather(value, part) for name, value in rows.items()} for part in ([0, 1], [2, 3, 4, 5])]
    together, apart = (by_gradient(task, context, model, batches) for batches in ([rows], parts))
    np.testing.assert_allclose(apart, together, rtol=1e-4)


@pytest.mark.parametrize("name", [name for name in TEXTS if name not in ("classification", "regression")])
def test_every_task_has_gradients_for_its_heads(name, tmp_path):
    task, context, model, rows = features(name, tmp_path)
    found = by_gradient(task, context, model, [rows])
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-5)
    assert (found > 0).all()


def test_heads_that_are_gone_have_no_importance(tmp_path):
    task, context, model, rows = features("multilabel", tmp_path)
    smaller = prune_model(task, context, model, {0: [0, 1, 2, 3], 1: [1]})
    found = by_gradient(task, context, smaller, [rows])
    assert np.isnan(found).tolist() == [[True] * 4, [False, True, False, False]]
    assert np.linalg.norm(found[1][~np.isnan(found[1])]) == pytest.approx(1, abs=1e-5)


def test_ablation_is_what_the_metric_loses_without_each_head():
    size = EncoderSize(**{**TINY, "layers": 2}, pruned=((), (1,)))
    worth = np.array([[0.25, -0.125], [0.5, 9]])

    def score(mask):
        assert mask[1, 1] == 0, "a head that is gone stays so"
        return float((worth * mask).sum())

    np.testing.assert_array_equal(by_ablation(score, size, "higher"), [[0.25, -0.125], [0.5, np.nan]])
    np.testing.assert_array_equal(by_ablation(lambda mask: -score(mask), size, "lower"), [[0.25, -0.125], [0.5, np.nan]])
    without = by_ablation(lambda mask: float("nan") if mask[0, 0] == 0 else 0.5, size, "higher")
    assert without[0].tolist() == [0.5, 0.0]
    with pytest.raises(BertlineError, match="is undefined on these examples"):
        by_ablation(lambda mask: float("nan"), size, "higher")


def test_the_least_important_go_wherever_they_are():
    importance = np.array([[0.1, 0.9, 0.2], [0.8, np.nan, 0.15]])
    assert least_important(importance, 5) == {}
    assert least_important(importance, 3) == {0: [0], 1: [2]}
    assert least_important(importance, 1) == {0: [0, 2], 1: [0, 2]}
    assert least_important(np.zeros((2, 2)), 2) == {1: [0, 1]}, "of equal ones, those above go first"


def test_layers_that_share_their_weights_lose_the_same_heads():
    importance = np.array([[0.1, 0.5, 0.9], [0.6, 0.0, 0.9]])
    assert least_important(importance, 4, shared=True) == {0: [1], 1: [1]}
    assert least_important(importance, 3, shared=True) == {0: [1], 1: [1]}, "four are left: three cannot be"
    assert least_important(importance, 6, shared=True) == {}


def test_a_mask_knows_what_is_lost_and_what_was_gone():
    size = EncoderSize(**{**TINY, "heads": 4}, pruned=((3,), ()))
    assert present(size).tolist() == [[True, True, True, False], [True] * 4]
    assert mask_without(size, {0: [0], 1: [1, 2]}).tolist() == [[0, 1, 1, 0], [1, 0, 0, 1]]
