"""Vectors of texts: each is that of its text alone; what is learned from them; and what a search with them finds."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from wordpiece import VOCAB, write_vocab

from bertline.models.data.batching import padded
from bertline.models.encoders.bert.backbone import Encoder, EncoderSize
from bertline.models.metrics.retrieval import OF_RANKS, ranks
from bertline.models.tasks.base.task import Context, check_label, check_texts, get_task
from bertline.models.tokenization.tokenizer import TextEncoder
from bertline.pipeline.config import TEXT_KEYS
from bertline.pipeline.core.errors import BertlineError
from bertline.serving.export.saved_model import ServedModel

MATCHING, SIMILARITY = get_task("matching"), get_task("similarity")
FIRST, SECOND = ["the cafe", "un", "a b c the"], ["abc the un a", "cafe", "the the"]


@pytest.fixture(scope="module")
def context(tmp_path_factory):
    text = TextEncoder(write_vocab(tmp_path_factory.mktemp("vocab"), VOCAB), seq_len=16)
    return Context(text, (), text_keys=TEXT_KEYS)


@pytest.fixture(scope="module")
def model(context):
    size = EncoderSize(vocab_size=len(VOCAB), layers=2, hidden=8, heads=2, intermediate=16)
    return MATCHING.model.build(Encoder(size, seed=3), context, 0.0, 3)


def columns(**further):
    return {"text": tf.constant(FIRST), "text_2": tf.constant(SECOND), **further}


def vector_alone(model, context, text):
    """Mean over the tokens of one text, read without blocks, scaled to length 1."""
    states = model.encoder(context.text(tf.constant([text])).to_tensor()).numpy()[0]
    return states.mean(axis=0) / np.linalg.norm(states.mean(axis=0))


def test_a_vector_is_the_mean_over_its_own_texts_tokens(model, context):
    vectors = model(padded(MATCHING.preprocessing.request(columns(), context))).numpy()
    assert vectors.shape == (3, 2, 8)
    for row, texts in enumerate(zip(FIRST, SECOND, strict=True)):
        for number, text in enumerate(texts):
            np.testing.assert_allclose(vectors[row, number], vector_alone(model, context, text), atol=1e-5)


def test_the_signatures_give_vectors_and_their_cosine(model, context):
    served = ServedModel(MATCHING, context, model)
    signatures = served.signatures()
    one, other = (signatures["embed"](tf.constant(texts))["vector"].numpy() for texts in (FIRST, SECOND))
    np.testing.assert_allclose(one[0], vector_alone(model, context, FIRST[0]), atol=1e-5)
    given = signatures["serving_default"](tf.constant(FIRST), tf.constant(SECOND))["similarity"].numpy()
    np.testing.assert_allclose(given, (one * other).sum(axis=1), atol=1e-5)
    assert MATCHING.serving.response.readable({"similarity": np.float32(0.5)}) == "0.500"


def unit(*angles):
    return tf.stack([tf.cos(tf.constant(angles)), tf.sin(tf.constant(angles))], axis=1)


def test_other_second_texts_of_the_batch_are_wrong_ones_but_not_the_same_text_nor_filling():
    vectors = tf.stack([unit(0.0, 1.0, 2.0, 3.0), unit(0.1, 1.2, 0.1, 0.5)], axis=1)
    batch = {"second": tf.constant([7, 8, 7, 9], tf.int64), "weight": tf.constant([1 / 3, 1 / 3, 1 / 3, 0.0])}
    found = MATCHING.objective.loss(vectors, batch).numpy()
    near = (vectors[:, 0] @ tf.transpose(vectors[:, 1])).numpy() * 20
    allowed = {0: [0, 1], 1: [0, 1, 2], 2: [1, 2]}  # row 3 fills up, and 0 and 2 have the same second text
    for row, candidates in allowed.items():
        expected = np.log(np.exp(near[row, candidates]).sum()) - near[row, row]
        assert found[row] == pytest.approx(expected, rel=1e-4, abs=1e-5)
    assert np.isfinite(found).all()


def test_only_the_order_of_scores_counts_and_rows_without_weight_do_not():
    vectors = tf.stack([unit(0.0, 0.0, 0.0, 0.0), unit(0.2, 0.9, 1.5, 0.0)], axis=1)  # ever less alike
    weight = tf.constant([1 / 3, 1 / 3, 1 / 3, 0.0])

    def loss(*scores):
        return SIMILARITY.objective.loss(vectors, {"label_value": tf.constant(scores), "weight": weight}).numpy()

    right = loss(5.0, 3.0, 1.0, 0.0)
    assert (right == right[0]).all() and right[0] < 0.01
    np.testing.assert_allclose(loss(500.0, 300.0, -100.0, 7.0), right, rtol=1e-6)
    assert loss(1.0, 3.0, 5.0, 0.0)[0] > 10
    np.testing.assert_allclose(loss(2.0, 2.0, 2.0, 9.0), 0, atol=1e-6)


def test_a_place_counts_every_other_text_that_is_as_near():
    candidates = np.asarray([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.6, 0.8]])
    questions = np.asarray([[1.0, 0.0], [0.7, 0.7], [0.0, 1.0], [0.6, 0.8]])
    names = np.asarray([5, 6, 5, 8])  # the first and the third are the same text
    # The second question's own is as near as the text of name 5, and farther than that of 8.
    assert ranks(questions, candidates, names).tolist() == [1, 3, 3, 1]


def test_places_are_those_of_a_plain_sort_over_many_chunks():
    chance = np.random.default_rng(0)
    questions, candidates = chance.normal(size=(2, 1500, 4))
    found = ranks(questions, candidates, chance.permutation(1500))
    near = questions @ candidates.T
    assert found.tolist() == [1 + int((row > row[own]).sum()) for own, row in enumerate(near)]
    scores = {name: score(np.asarray([1, 2, 5, 10])) for name, score in OF_RANKS.items()}
    assert scores == {"ReciprocalRank": pytest.approx(0.45), "RecallAt1": 0.25, "RecallAt5": 0.75, "RecallAt10": 1.0}


def test_equal_vectors_find_nothing():
    same = np.ones((100, 3))
    assert ranks(same, same, np.arange(100)).tolist() == [100] * 100


def test_a_config_has_two_texts_and_a_label_only_where_it_is_learned_from():
    with pytest.raises(BertlineError, match="the task matching reads 2 texts per example"):
        check_texts(MATCHING, ["text"])
    with pytest.raises(BertlineError, match="data.label: the task matching learns from the texts alone"):
        check_label(MATCHING, "label")
    check_label(MATCHING, None)
    check_label(SIMILARITY, "score")
