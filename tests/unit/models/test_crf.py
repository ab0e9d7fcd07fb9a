"""The CRF against every way to tag a row, one by one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tensorflow as tf

from bertline.models.heads import crf

TAGS, WORDS = 3, 5
LENGTHS = [5, 3, 1, 0]


@pytest.fixture(scope="module")
def given():
    chance = np.random.default_rng(0)
    scores, transitions = chance.normal(size=(4, WORDS, TAGS)), chance.normal(size=(TAGS, TAGS)) * 2
    return tf.constant(scores), tf.constant(transitions), tf.constant(LENGTHS)


def ways(scores, transitions, length):
    """(tags, score) of all."""
    for tags in itertools.product(range(TAGS), repeat=length):
        words = sum(scores[place, tag] for place, tag in enumerate(tags))
        yield tags, words + sum(transitions[pair] for pair in itertools.pairwise(tags))


def test_all_ways_are_summed_up(given):
    scores, transitions, _ = (value.numpy() for value in given)
    expected = [
        np.logaddexp.reduce([score for _, score in ways(scores[row], transitions, n)]) for row, n in enumerate(LENGTHS)
    ]
    np.testing.assert_allclose(crf.log_total(*given), expected, atol=1e-9)


def test_the_likelihood_of_tags_is_their_share_and_unknown_ones_may_be_any(given):
    scores, transitions, lengths = given
    tags = np.asarray([[0, 2, 1, 1, 0], [2, -1, 0, 0, 0], [1, 0, 0, 0, 0], [0, 0, 0, 0, 0]])
    expected = []
    for row, length in enumerate(LENGTHS):
        every = list(ways(scores.numpy()[row], transitions.numpy(), length))
        fits = [
            score for way, score in every if all(tag in (-1, given) for given, tag in zip(way, tags[row], strict=False))
        ]
        expected.append(np.logaddexp.reduce(fits) - np.logaddexp.reduce([score for _, score in every]))
    np.testing.assert_allclose(
        crf.log_likelihood(scores, transitions, tf.constant(tags, tf.int32), lengths), expected, atol=1e-6
    )


def test_the_best_way_is_found(given):
    scores, transitions, _ = (value.numpy() for value in given)
    found = crf.best_tags(*given).numpy()
    assert found.shape == (4, WORDS)
    for row, length in enumerate(LENGTHS):
        best, _ = max(ways(scores[row], transitions, length), key=lambda way: way[1])
        assert tuple(found[row, :length]) == best


def test_the_shares_of_tags_are_those_among_all_ways(given):
    scores, transitions, _ = (value.numpy() for value in given)
    found = crf.probabilities(*given).numpy()
    for row, length in enumerate(LENGTHS):
        expected = np.zeros((length, TAGS))
        for tags, score in ways(scores[row], transitions, length):
            for place, tag in enumerate(tags):
                expected[place, tag] += np.exp(score)
        if length:
            np.testing.assert_allclose(found[row, :length], expected / expected.sum(axis=1, keepdims=True), atol=1e-9)


def test_rows_without_any_word_are_no_trouble():
    nothing = tf.zeros([2, 0, TAGS]), tf.zeros([TAGS, TAGS]), tf.constant([0, 0])
    assert crf.best_tags(*nothing).shape == (2, 0) and crf.probabilities(*nothing).shape == (2, 0, TAGS)
    assert crf.log_total(*nothing).numpy().tolist() == [0.0, 0.0]


def test_rows_of_one_word_are_answered_in_a_graph_that_does_not_know_how_many_there_are():
    spec = [tf.TensorSpec([None, None, TAGS]), tf.TensorSpec([TAGS, TAGS]), tf.TensorSpec([None], tf.int32)]
    asked = tf.constant([[[1.0, 3.0, 2.0]], [[0.0, 0.0, 5.0]]]), tf.ones([TAGS, TAGS]), tf.constant([1, 1])

    @tf.function(input_signature=spec)
    def answered(*given):
        return crf.best_tags(*given), crf.probabilities(*given), crf.log_total(*given)

    best, probabilities, total = answered(*asked)
    assert best.numpy().tolist() == [[1], [2]]
    np.testing.assert_allclose(probabilities, tf.nn.softmax(asked[0]), atol=1e-6)
    np.testing.assert_allclose(total, tf.reduce_logsumexp(asked[0][:, 0], axis=-1), atol=1e-6)
