"""The linear model on a frozen encoder's vectors, held against vectors that are computed one by one."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from bertline.models.data.batching import Corpus
from bertline.models.encoders.bert.backbone import Encoder, EncoderSize
from bertline.models.heads.pooled import PAIR, TOGETHER, PooledHead, attend, pool, vectors
from bertline.models.training import probing

VOCAB_SIZE, FIRST = 40, 5


@pytest.fixture(scope="module")
def encoder():
    """Large weights, so that vectors of different tokens differ."""
    made = Encoder(
        EncoderSize(vocab_size=VOCAB_SIZE, layers=1, hidden=16, heads=2, intermediate=16, max_positions=32), seed=3
    )
    made.embeddings.token.embeddings.assign(np.random.default_rng(0).normal(0, 1, (VOCAB_SIZE, 16)))
    return made


def corpus(count, seed, **targets):
    """Texts of which the first token after [CLS] tells the class."""
    random = np.random.default_rng(seed)
    label = random.integers(3, size=count)
    rows = [[2, FIRST + kind, *random.integers(10, VOCAB_SIZE, random.integers(2, 8)), 3] for kind in label]
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
    found = probing.vectors_of(encoder, rows, TOGETHER)
    for at in range(len(rows)):
        tokens = tf.constant(rows.values[rows.starts[at] : rows.starts[at + 1]])[tf.newaxis]
        mask = tf.ones_like(tokens, tf.bool)
        states = encoder(tokens, None, mask)
        for name in TOGETHER:
            np.testing.assert_allclose(found[name][at], pool(name, encoder, states, {"mask": mask})[0], atol=1e-5)


def test_padding_is_no_part_of_the_mean(encoder):
    states = tf.constant([[[1.0, 2.0], [3.0, 4.0], [100.0, 100.0]]])
    np.testing.assert_allclose(pool("mean", encoder, states, {"mask": tf.constant([[True, True, False]])}), [[2.0, 3.0]])


@pytest.mark.parametrize(("linearly", "outputs"), [(probing.CLASSES, 3), (probing.FLAGS, 3), (probing.NUMBER, 1)])
def test_the_head_answers_unseen_texts_through_the_model_that_begins_with_it(encoder, linearly, outputs):
    found = probing.probe(encoder, corpus(400, 1), linearly, outputs)
    assert found is not None and found.pooling in TOGETHER and set(found.scores) == set(TOGETHER)
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


def pairs():
    """Two texts a row, of different lengths."""
    first, second = [[2, 11, 12, 3], [2, 13, 3], [2, 14, 15, 16, 3]], [[17, 3], [18, 19, 20, 3], [21, 22, 3]]
    tokens = tf.ragged.constant([a + b for a, b in zip(first, second, strict=True)], dtype=tf.int32)
    segments = tf.ragged.constant([[0] * len(a) + [1] * len(b) for a, b in zip(first, second, strict=True)], dtype=tf.int32)
    batch = {
        "token_ids": tokens.to_tensor(),
        "segment_ids": segments.to_tensor(),
        "mask": tf.sequence_mask(tokens.row_lengths()),
    }
    return batch, first, [[2, *text] for text in second]


def test_the_texts_of_a_pair_are_read_as_if_each_stood_alone(encoder):
    batch, first, second = pairs()
    found = vectors(encoder, batch, (PAIR, "mean"))
    assert set(found) == {PAIR, "mean"}
    for at, texts in enumerate(zip(first, second, strict=True)):
        u, v = (tf.math.l2_normalize(tf.reduce_mean(encoder(tf.constant([text]))[0], axis=0)) for text in texts)
        np.testing.assert_allclose(found[PAIR][at], tf.concat([u, v, tf.abs(u - v), u * v], axis=0), atol=1e-5)


def test_a_head_over_pairs_begins_as_the_probe_left_it_and_is_shown_by_the_tokens_of_the_request(encoder):
    batch, _, _ = pairs()
    model = PooledHead(encoder, 2, 0.1, 0, PAIR)
    kernel = np.random.default_rng(0).normal(0, 1, (64, 2))
    model.head.kernel.assign(kernel)
    np.testing.assert_allclose(model(batch), vectors(encoder, batch, (PAIR,))[PAIR] @ kernel, atol=1e-4)
    embedded = model({**batch, "token_ids": encoder.embeddings.token(batch["token_ids"])})
    np.testing.assert_allclose(embedded, model(batch), atol=1e-5)
    (layer,) = attend(model, batch)["encoder"]
    assert layer.shape == (3, 2, 8, 8)
    np.testing.assert_allclose(tf.reduce_sum(layer, axis=-1)[0, :, :6], 1.0, atol=1e-5)
    # Neither text looks at the other, but that the second has its [CLS] where the first has it.
    assert (layer[0, :, :4, 4:].numpy() == 0).all() and (layer[0, :, 4:6, 1:4].numpy() == 0).all()
    assert (layer[0, :, 4:6, 0].numpy() > 0).all()


def test_pairs_that_are_alike_are_told_from_others_by_their_vectors_where_reading_both_at_once_does_not(encoder):
    random = np.random.default_rng(0)
    words = random.integers(10, VOCAB_SIZE, (300, 2))
    label = random.integers(2, size=300)
    others = np.where(label == 1, words[:, 0], words[:, 1])
    values = np.stack([np.full(300, 2), words[:, 0], np.full(300, 3), others, np.full(300, 3)], axis=1).astype(np.int32)
    segments = tf.RaggedTensor.from_tensor(np.tile(np.asarray([[0, 0, 0, 1, 1]], np.int32), (300, 1)))
    rows = Corpus(values.reshape(-1), np.arange(301) * 5, {"label_id": label}, {"segment_ids": segments})
    found = probing.probe(encoder, rows, probing.CLASSES, 2, poolings=(*TOGETHER, PAIR))
    assert found.pooling == PAIR and found.scores[PAIR] > 0.85 > max(found.scores[name] for name in TOGETHER)
