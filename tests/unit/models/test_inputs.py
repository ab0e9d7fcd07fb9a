from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from bertline.models.data.batching import Batch, Corpus, batches, by_length, plan, plan_by_tokens, read_corpus

BUCKETS = (8, 16, 32)


def corpus(lengths, seed=0):
    random = np.random.default_rng(seed)
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Corpus(
        random.integers(5, 100, starts[-1]).astype(np.int32),
        starts,
        {"label_id": random.integers(0, 2, len(lengths)).astype(np.int64)},
    )


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=200), st.integers(1, 17), st.integers(0, 3))
def test_an_epoch_holds_every_row_once_in_batches_that_fit(lengths, batch_size, epoch):
    lengths = np.asarray(lengths)
    planned = plan(lengths, batch_size, BUCKETS, seed=1, epoch=epoch)
    assert sorted(np.concatenate([batch.rows for batch in planned])) == list(range(len(lengths)))
    assert all(lengths[batch.rows].max() <= batch.length for batch in planned)
    assert sum(len(batch.rows) < batch_size for batch in planned) <= 1


def test_the_plan_follows_from_seed_and_epoch_alone():
    lengths = np.random.default_rng(0).integers(1, 40, 300)

    def rows(**changes):
        return [batch.rows.tolist() for batch in plan(lengths, 16, BUCKETS, **{"seed": 1, "epoch": 0, **changes})]

    assert rows() == rows()
    assert rows() != rows(epoch=1) and rows() != rows(seed=2)


def test_batches_hold_the_rows_padded_and_masked():
    data = corpus([3, 9, 5, 40, 2])
    planned = plan(data.lengths, 2, BUCKETS, seed=0)
    for batch, part in zip(batches(data, planned, 2), planned, strict=True):
        assert batch["token_ids"].shape == (2, part.length)
        for i, row in enumerate(part.rows):
            tokens = data.values[data.starts[row] : data.starts[row + 1]]
            assert batch["token_ids"][i, : len(tokens)].numpy().tolist() == tokens.tolist()
            assert batch["mask"][i].numpy().sum() == len(tokens)
            assert batch["label_id"][i] == data.targets["label_id"][row]
        assert float(tf.reduce_sum(batch["weight"])) == pytest.approx(1.0)
        assert (batch["weight"].numpy()[len(part.rows) :] == 0).all()


def test_rows_without_a_usable_label_are_left_out(tmp_path):
    spec = {
        "token_ids": tf.io.RaggedFeature(tf.int64, value_key="token_ids$ragged_values"),
        "label_id": tf.io.FixedLenFeature([], tf.int64),
    }
    path = str(tmp_path / "rows.gz")
    with tf.io.TFRecordWriter(path, "GZIP") as writer:
        for tokens, label in (([1, 2, 3], 0), ([4], -1), ([5, 6], 1)):
            ints = {"token_ids$ragged_values": tokens, "label_id": [label]}
            feature = {k: tf.train.Feature(int64_list=tf.train.Int64List(value=v)) for k, v in ints.items()}
            writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    read = read_corpus([path], spec)
    assert read.values.tolist() == [1, 2, 3, 5, 6] and read.starts.tolist() == [0, 3, 5]
    assert read.targets["label_id"].tolist() == [0, 1]


def test_other_ragged_features_keep_their_rows_and_get_a_mask_of_their_own():
    rows = corpus([3, 5, 4])
    segments = tf.RaggedTensor.from_row_splits(np.arange(12, dtype=np.int32), rows.starts)
    places = tf.ragged.constant([[1], [2, 3], []], dtype=tf.int32)
    rows = replace(rows, others={"segment_ids": segments, "places": places})
    planned = [Batch(np.asarray([2, 1]), 6)]
    (batch,) = batches(rows, planned, 3)
    assert batch["segment_ids"].numpy().tolist() == [[8, 9, 10, 11, 0, 0], [3, 4, 5, 6, 7, 0], [0, 1, 2, 0, 0, 0]]
    assert batch["places"].numpy()[:2].tolist() == [[0, 0], [2, 3]]
    assert batch["places_mask"].numpy()[:2].tolist() == [[False, False], [True, True]]
    assert batch["mask"].numpy().sum(axis=1).tolist() == [4, 5, 1]  # the last row fills up, and keeps one token


def test_what_is_drawn_for_a_batch_is_new_in_each_epoch_and_the_same_in_each_run():
    lengths = np.full(40, 5)

    def seeds(epoch, seed=7):
        return [batch.seed for batch in plan(lengths, 4, BUCKETS, seed=seed, epoch=epoch)]

    assert seeds(0) == seeds(0) and len(set(seeds(0) + seeds(1))) == 20 and seeds(0) != seeds(0, seed=8)
    prepared = replace(corpus(lengths), prepare=lambda batch, seed: {**batch, "seed": seed})
    planned = plan(lengths, 4, BUCKETS, seed=7)
    assert [int(batch["seed"]) for batch in batches(prepared, planned, 4)] == [batch.seed for batch in planned]


SIDES = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=1, max_size=300)


@settings(max_examples=50, deadline=None)
@given(SIDES, st.integers(64, 600), st.sampled_from([None, 0, 1]))
def test_batches_by_tokens_hold_every_row_once_and_keep_to_the_budget(sides, most, seed):
    source, target = np.asarray(sides).T
    planned = plan_by_tokens([source, target], most, seed=seed)
    assert sorted(np.concatenate([batch.rows for batch in planned])) == list(range(len(source)))
    for batch in planned:
        tokens = len(batch.rows) * (source[batch.rows].max() + target[batch.rows].max())
        assert tokens <= most or len(batch.rows) == 1
        assert batch.length == source[batch.rows].max()


def test_batches_by_tokens_are_little_padding():
    random = np.random.default_rng(0)
    source = random.integers(5, 40, 20_000)
    target = np.clip(source + random.integers(-4, 5, 20_000), 1, None)
    planned = plan_by_tokens([source, target], 2048, seed=3)
    padded_tokens = sum(len(batch.rows) * (batch.length + target[batch.rows].max()) for batch in planned)
    assert (source.sum() + target.sum()) / padded_tokens > 0.93


def test_the_plan_by_tokens_follows_from_seed_and_epoch_alone():
    lengths = np.random.default_rng(0).integers(1, 40, 500)

    def rows(**changes):
        planned = plan_by_tokens([lengths, lengths[::-1]], 512, **{"seed": 1, "epoch": 0, **changes})
        return [batch.rows.tolist() for batch in planned]

    assert rows() == rows()
    assert rows() != rows(epoch=1) and rows() != rows(seed=2)


def test_batches_as_large_as_planned_are_filled_up_to_a_multiple():
    data = corpus([3, 9, 5, 40, 2])
    planned = [Batch(np.asarray([0, 2, 4]), 5), Batch(np.asarray([3]), 40)]
    first, second = batches(data, planned, None, multiple=2)
    assert first["token_ids"].shape == (4, 5) and second["token_ids"].shape == (2, 40)
    np.testing.assert_allclose(first["weight"], [1 / 3, 1 / 3, 1 / 3, 0])


def test_a_row_weighs_as_much_as_it_has_to_write():
    written = tf.ragged.constant([[1, 2, 3], [4], [5, 6], [], [7]], dtype=tf.int32)
    data = replace(corpus([3, 9, 5, 40, 2]), others={"target_ids": written}, counted="target_ids")
    (batch,) = batches(data, [Batch(np.asarray([0, 1, 2]), 9)], 4)
    np.testing.assert_allclose(batch["weight"], [3 / 6, 1 / 6, 2 / 6, 0])


def test_rows_by_length_are_all_rows_in_batches():
    lengths = [5, 1, 4, 2, 3]
    tokens = tf.RaggedTensor.from_row_lengths(tf.range(15), lengths)
    given = [{"token_ids": tokens[:3], "at": tf.constant([0, 1, 2])}, {"token_ids": tokens[3:], "at": tf.constant([3, 4])}]
    found = list(by_length(given, 2))
    assert [batch["at"].numpy().tolist() for batch in found] == [[1, 3], [4, 2], [0]]
    assert [batch["token_ids"].row_lengths().numpy().tolist() for batch in found] == [[1, 2], [3, 4], [5]]
    assert list(by_length([], 2)) == []
