"""Several texts in a row: nothing is lost, nothing is mixed up, and the loss is that of the texts apart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from bertline.models.data.batching import Batch, Corpus, batches
from bertline.models.data.masking import MaskingRules, how_many, mask_rows
from bertline.models.data.sequence_packing import best_fit, pack_rows
from bertline.models.encoders.bert.backbone import Encoder, EncoderSize
from bertline.models.tasks.base.task import Context, get_task
from bertline.models.tasks.graphs.pretraining import LABELS
from bertline.pipeline.config import PretrainingConfig

TASK = get_task("pretraining")
VOCAB, CLS, SEP, MASK = 60, 2, 3, 4
LENGTHS = [12, 3, 7, 16, 5, 4, 9, 3, 6]


@settings(max_examples=100, deadline=None)
@given(lengths=st.lists(st.integers(1, 40), min_size=1, max_size=60), room=st.integers(40, 60))
def test_every_text_is_in_one_row_that_has_room_for_it(lengths, room):
    rows = best_fit(np.asarray(lengths), room)
    assert sorted(np.concatenate(rows).tolist()) == list(range(len(lengths)))
    taken = sorted(sum(lengths[text] for text in row) for row in rows)
    assert taken[-1] <= room
    if len(taken) > 1:  # two rows that fit into one would have been one
        assert taken[0] + taken[1] > room


def make_corpus() -> Corpus:
    rng = np.random.default_rng(0)
    texts = [[CLS, *rng.integers(5, VOCAB, length - 2).tolist(), SEP] for length in LENGTHS]
    segments = [[0] * (length // 2) + [1] * (length - length // 2) for length in LENGTHS]
    masked = [sorted(rng.choice(np.arange(1, length - 1), min(2, length - 2), replace=False)) for length in LENGTHS]
    stored = [[MASK] * len(row) for row in masked]
    others = {"segment_ids": segments, "masked_positions": masked, "masked_ids": stored}
    return Corpus(
        np.concatenate(texts).astype(np.int32),
        np.concatenate([[0], LENGTHS]).cumsum(),
        {"label_id": rng.integers(0, 2, len(LENGTHS))},
        {name: tf.ragged.constant(value, dtype=tf.int32) for name, value in others.items()},
    )


def test_a_packed_corpus_holds_the_same_texts():
    plain = make_corpus()
    packed = pack_rows(plain, 20)
    assert len(packed) < len(plain) and packed.lengths.max() <= 20 and not packed.targets
    found = []
    for row in range(len(packed)):
        ids = packed.values[packed.starts[row] : packed.starts[row + 1]]
        columns = {name: value[row].numpy() for name, value in packed.others.items()}
        for number, first in enumerate(columns["firsts"]):
            mine = columns["blocks"] == number + 1
            assert np.flatnonzero(mine)[0] == first
            assert columns["positions"][mine].tolist() == list(range(mine.sum()))
            places = [p - first for p in columns["masked_positions"] if mine[p]]
            found.append((ids[mine].tolist(), columns["segment_ids"][mine].tolist(), places, columns["label_id"][number]))
    expected = [
        (
            plain.values[plain.starts[i] : plain.starts[i + 1]].tolist(),
            *(plain.others[name][i].numpy().tolist() for name in ("segment_ids", "masked_positions")),
            plain.targets["label_id"][i],
        )
        for i in range(len(plain))
    ]
    assert sorted(found) == sorted(expected)


class FakeText:
    """What masking asks of a TextEncoder."""

    mask_id, pad_id, cls_id, sep_id, vocab_size, seq_len = MASK, 0, CLS, SEP, VOCAB, 20
    vocab = ("piece",) * VOCAB


def loss_and_gradients(model, corpus, static):
    context = Context(FakeText, LABELS, PretrainingConfig(static_masking=static))
    rows = replace(corpus, prepare=TASK.preprocessing.prepare(context, True))
    (batch,) = batches(rows, [Batch(np.arange(len(rows)), 20, 7)], len(rows) + 2)  # with rows that fill up
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(batch["weight"] * TASK.objective.loss(model(batch, training=True), batch))
    gradients = tape.gradient(loss, [weight.value for weight in model.trainable_variables])
    return batch, loss.numpy(), [tf.convert_to_tensor(gradient).numpy() for gradient in gradients]


def test_the_loss_and_gradients_of_packed_rows_are_those_of_the_texts_apart():
    size = EncoderSize(vocab_size=VOCAB, layers=2, hidden=16, heads=2, intermediate=32, dropout=0, attention_dropout=0)
    model = TASK.model.build(Encoder(size, seed=3), Context(FakeText, LABELS, PretrainingConfig()), 0.0, 3)
    corpus = make_corpus()
    _, apart, apart_gradients = loss_and_gradients(model, corpus, static=True)
    _, packed, packed_gradients = loss_and_gradients(model, pack_rows(corpus, 20), static=True)
    np.testing.assert_allclose(packed, apart, rtol=1e-6)
    for ours, theirs in zip(packed_gradients, apart_gradients, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_masks_are_drawn_for_each_text_of_a_row():
    rules = MaskingRules(
        mask_id=MASK,
        vocab_size=VOCAB,
        special_ids=(0, CLS, SEP),
        continues=np.zeros(VOCAB, bool),
        probability=0.3,
        max_predictions=9,
    )
    corpus = pack_rows(make_corpus(), 20)
    ids = tf.RaggedTensor.from_row_splits(corpus.values, corpus.starts).to_tensor().numpy()
    begins = corpus.others["firsts"].to_tensor().numpy()
    lengths = np.zeros_like(begins)
    for row, blocks in enumerate(corpus.others["blocks"]):
        counts = np.bincount(blocks.numpy())[1:]
        lengths[row, : len(counts)] = counts
    found = mask_rows(ids, begins, lengths, rules, np.random.default_rng(1))
    assert found.chosen.shape[1] % 8 == 0
    for row in range(len(ids)):
        places = found.positions[row][found.chosen[row]]
        assert (found.labels[row][found.chosen[row]] == ids[row, places]).all()
        untouched = np.setdiff1d(np.arange(ids.shape[1]), places)
        assert (found.token_ids[row, untouched] == ids[row, untouched]).all()
        for begin, length in zip(begins[row], lengths[row], strict=True):
            if length:
                inside = (places >= begin) & (places < begin + length)
                assert inside.sum() == min(how_many(length, rules), length - 2)
