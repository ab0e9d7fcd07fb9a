"""The linear model on a frozen encoder's vectors, held against vectors that are computed one by one."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from models import probing
from models.encoder import Encoder, EncoderSize
from models.inputs import Corpus
from models.pooled import POOLINGS, PooledHead, pool

PIECES, FIRST = 40, 5


@pytest.fixture(scope="module")
def encoder():
    """Large weights, so that vectors of different tokens differ."""
    made = Encoder(EncoderSize(vocab_size=PIECES, layers=1, hidden=16, heads=2, intermediate=16, max_positions=32), seed=3)
    made.embeddings.token.embeddings.assign(np.random.default_rng(0).normal(0, 1, (PIECES, 16)))
    return made


def corpus(count, seed, **targets):
    """Texts of which the first token after [CLS] tells the class."""
    random = np.random.default_rng(seed)
    label = random.integers(3, size=count)
    rows = [[2, FIRST + kind, *random.integers(10, PIECES, random.integers(2, 8)), 3] for kind in label]
    values = np.asarray([token for row in rows for token in row], np.int32)
    starts = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    of = {
        "label_id": label,
        "label_flags": np.eye(3, dtype=np.int64)[label],
        "label_value": label.astype(np.float32),
    }
    return Corpus(values, starts, {name: of[name] for name in (targets or of)})


def test_vectors_are_those_of_each_text_alone(encoder):
    rows = corpus(20, 0)
    found = probing.vectors_of(encoder, rows, POOLINGS)
    for at in range(len(rows)):
        tokens = tf.constant(rows.values[rows.starts[at] : rows.starts[at + 1]])[tf.newaxis]
        mask = tf.ones_like(tokens, tf.bool)
        states = encoder(tokens, None, mask)
        for name in POOLINGS:
            np.testing.assert_allclose(found[name][at], pool(name, encoder, states, mask)[0], atol=1e-5)


def test_padding_is_no_part_of_the_mean(encoder):
    states = tf.constant([[[1.0, 2.0], [3.0, 4.0], [100.0, 100.0]]])
    np.testing.assert_allclose(pool("mean", encoder, states, tf.constant([[True, True, False]])), [[2.0, 3.0]])


@pytest.mark.parametrize(("linearly", "outputs"), [(probing.CLASSES, 3), (probing.FLAGS, 3), (probing.NUMBER, 1)])
def test_the_head_answers_unseen_texts_through_the_model_that_begins_with_it(encoder, linearly, outputs):
    found = probing.probe(encoder, corpus(400, 1), linearly, outputs)
    assert found is not None and found.pooling in POOLINGS and set(found.scores) == set(POOLINGS)
    model = PooledHead(encoder, outputs, 0.1, 0, found.pooling)
    model.head.kernel.assign(found.layer.kernel)
    model.head.bias.assign(found.layer.bias)
    rows = corpus(60, 2)
    tokens = tf.RaggedTensor.from_row_splits(rows.values, rows.starts)
    answers = model({"token_ids": tokens.to_tensor(), "mask": tf.sequence_mask(tokens.row_lengths())}).numpy()
    label = rows.targets["label_id"]
    if outputs == 3:
        assert (answers.argmax(axis=1) == label).mean() > 0.9, "a third are right by chance"
    else:
        assert np.corrcoef(answers[:, 0], label)[0, 1] > 0.7, "the classes are no numbers to this encoder"


def test_the_same_examples_give_the_same_probe(encoder):
    one, other = (probing.probe(encoder, corpus(200, 1), probing.CLASSES, 3, seed=4) for _ in range(2))
    assert one.pooling == other.pooling and np.array_equal(one.layer.kernel, other.layer.kernel)


def test_a_class_without_an_example_is_never_the_answer(encoder):
    found = probing.probe(encoder, corpus(200, 1), probing.CLASSES, 5)
    assert (found.layer.kernel[:, 3:] == 0).all() and (found.layer.bias[3:] < -10).all()


def test_where_there_is_too_little_to_compare_by_there_is_no_probe(encoder):
    assert probing.probe(encoder, corpus(8, 1), probing.CLASSES, 3) is None


def test_a_pooling_that_does_not_read_the_pooler_does_not_train_it(encoder):
    trained = {variable.path for variable in PooledHead(encoder, 2, 0.0, 0, "mean").trainable_variables}
    assert not any("pooler" in path for path in trained)
    encoder.pooler.trainable = True
