"""Skewed data: what rare classes weigh, how often they are drawn, and how sure a target is."""

from __future__ import annotations

from collections import Counter

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from sklearn.utils.class_weight import compute_class_weight

from bertline.models.data.class_balance import class_counts, class_weights, drawn_rows
from bertline.models.tasks.base.task import check_training, get_task
from bertline.pipeline.config import TrainingConfig
from bertline.pipeline.core.errors import BertlineError

NAMES = ["a", "b", "c", "d"]


@given(st.lists(st.integers(0, 3), min_size=1))
def test_balanced_weights_are_those_of_scikit_learn(ids):
    occurring = np.unique(ids)
    found = class_weights("balanced", class_counts(np.asarray(ids), 4), NAMES)
    expected = compute_class_weight("balanced", classes=occurring, y=ids)
    assert found[occurring] == pytest.approx(expected)
    assert np.delete(found, occurring).tolist() == [1.0] * (4 - len(occurring))


def test_classes_are_counted_by_row_by_word_and_by_flag():
    assert class_counts(np.asarray([0, 2, 2, -1]), 3).tolist() == [1, 0, 2]
    assert class_counts(tf.ragged.constant([[1, 1], [], [-1, 0]]), 2).tolist() == [1, 2]
    assert class_counts(np.asarray([[1, 0], [1, 1]]), 2).tolist() == [2, 1]


def test_named_weights_are_taken_as_they_are_and_a_wrong_name_is_refused():
    assert class_weights({"b": 5.0}, np.ones(4), NAMES).tolist() == [1, 5, 1, 1]
    with pytest.raises(BertlineError, match="there is no class 'seldon'; did you mean seldom?"):
        class_weights({"seldon": 2.0}, np.ones(2), ["often", "seldom"])


@given(st.lists(st.integers(0, 3), min_size=1), st.sampled_from(["natural", "square_root", "balanced"]))
def test_an_epoch_has_as_many_rows_as_ever_and_no_row_much_oftener_than_another_of_its_class(ids, sampling):
    classes = np.asarray(ids)
    drawn = drawn_rows(classes, sampling, seed=1, epoch=2)
    assert len(drawn) == len(classes)
    times = Counter(drawn.tolist())
    for name in np.unique(classes):
        of_class = [times[row] for row in np.flatnonzero(classes == name)]
        assert max(of_class) - min(of_class) <= 1
    if sampling == "natural":
        assert sorted(drawn) == list(range(len(ids)))
    if sampling == "balanced":
        counts = np.bincount(classes[drawn], minlength=4)[np.unique(classes)]
        assert counts.max() - counts.min() <= 1


def test_the_rows_of_an_epoch_follow_from_the_seed_and_differ_from_the_next():
    classes = np.repeat([0, 1], [90, 10])
    first, again, other = (drawn_rows(classes, "square_root", seed=5, epoch=epoch) for epoch in (0, 0, 1))
    assert first.tolist() == again.tolist() != other.tolist()
    assert np.bincount(classes[first]).tolist() == [75, 25]  # the square roots of 90 and 10 are as 3 to 1


LOGITS = tf.constant([[2.0, -1.0, 0.5], [-3.0, 1.0, 0.0]])


def smoothed(task, outputs, batch, share):
    return ((1 - share) * task.objective.loss(outputs, batch) + share * task.objective.smoothing(outputs, batch)).numpy()


def test_a_smoothed_class_is_that_of_keras():
    batch = {"label_id": tf.constant([0, 2])}
    keras_loss = keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.2, reduction=None)
    expected = keras_loss(tf.one_hot(batch["label_id"], 3), LOGITS)
    np.testing.assert_allclose(smoothed(get_task("classification"), LOGITS, batch, 0.2), expected, rtol=1e-5)


def test_smoothed_flags_are_those_of_keras():
    batch = {"label_flags": tf.constant([[1, 0, 1], [0, 0, 0]], tf.int64)}
    keras_loss = keras.losses.BinaryCrossentropy(from_logits=True, label_smoothing=0.2, reduction=None)
    expected = keras_loss(tf.cast(batch["label_flags"], tf.float32), LOGITS)
    np.testing.assert_allclose(smoothed(get_task("multilabel"), LOGITS, batch, 0.2), expected, rtol=1e-5)


def test_smoothing_deals_out_to_the_choices_that_a_row_has():
    scores = tf.constant([[2.0, -1.0, -1e9]])
    batch = {"label_id": tf.constant([0]), "firsts_mask": tf.constant([[True, True, False]])}
    of_two = keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.2, reduction=None)
    expected = of_two(tf.constant([[1.0, 0.0]]), scores[:, :2])
    np.testing.assert_allclose(smoothed(get_task("choice"), scores, batch, 0.2), expected, rtol=1e-5)


def test_smoothing_goes_word_by_word_where_words_have_tags():
    tagging = get_task("tagging")
    batch = {"tag_ids": tf.constant([[0, 2]]), "word_share": tf.constant([[0.5, 0.5]])}
    keras_loss = keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.2, reduction=None)
    expected = np.mean(keras_loss(tf.one_hot([0, 2], 3), LOGITS))
    np.testing.assert_allclose(smoothed(tagging, {"scores": LOGITS[None]}, batch, 0.2), [expected], rtol=1e-5)


def test_classes_weigh_in_rows_words_and_flags():
    weights = tf.constant([1.0, 4.0, 0.5])
    of_rows = get_task("classification").objective.class_weights(
        {"label_id": tf.constant([1, 2]), "weight": tf.constant([0.5, 0.5])}, weights
    )
    assert of_rows["weight"].numpy().tolist() == [2.0, 0.25]
    words = {"tag_ids": tf.constant([[1, -1]]), "word_share": tf.constant([[1.0, 0.0]])}
    assert get_task("tagging").objective.class_weights(words, weights)["word_share"].numpy().tolist() == [[4.0, 0.0]]
    multilabel = get_task("multilabel")
    flags = {"label_flags": tf.constant([[0, 1, 0]], tf.int64)}
    weighed = multilabel.objective.loss(LOGITS[:1], multilabel.objective.class_weights(flags, weights))
    each = tf.nn.sigmoid_cross_entropy_with_logits(tf.constant([0.0, 1.0, 0.0]), LOGITS[0]).numpy()
    np.testing.assert_allclose(weighed, [(each * [1, 4, 1]).mean()], rtol=1e-5)


@pytest.mark.parametrize(
    ("task", "crf", "setting", "part"),
    [
        ("regression", False, {"label_smoothing": 0.1}, "training.label_smoothing: the loss of the task regression"),
        ("tagging", True, {"class_weights": "balanced"}, "with model.crf"),
        ("choice", False, {"class_weights": {"a": 2}}, "training.class_weights"),
        ("tagging", False, {"sampling": "balanced"}, "do not have one class each"),
    ],
)
def test_a_setting_that_a_task_does_not_know_is_refused(task, crf, setting, part):
    with pytest.raises(BertlineError, match=part):
        check_training(get_task(task), TrainingConfig(**setting), crf)
