"""Pre-training in phases, on packed rows: the data of each, and a resume that is exact."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from wordpiece import VOCAB, write_vocab

from bertline.components.trainer.rows import phases_of
from bertline.models.data.batching import Corpus
from bertline.models.encoders.bert.backbone import Encoder, EncoderSize
from bertline.models.tasks.base.task import Context, get_task
from bertline.models.tasks.graphs.pretraining import LABELS
from bertline.models.tokenization.tokenizer import TextEncoder
from bertline.models.training.loop import Phase, StepRecord, train
from bertline.pipeline.config import PretrainingConfig, TextConfig, TrainingConfig

TASK = get_task("pretraining")
PHASES = [{"seq_len": 12, "epochs": 2, "batch_size": 8}, {"seq_len": 24, "epochs": 1, "batch_size": 4}]
SETTINGS = TrainingConfig(batch_size=32, epochs=7, buckets=(12, 24), learning_rate=1e-3, checkpoint_steps=3)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return TextEncoder(write_vocab(tmp_path_factory.mktemp("vocab"), VOCAB), tokenizer_variant="huggingface", seq_len=24)


def make_rows(text, settings, count=60) -> Corpus:
    """Examples of both phases: the even ones are short."""
    rng = np.random.default_rng(0)
    lengths = np.where(np.arange(count) % 2, rng.integers(5, 25, count), rng.integers(5, 13, count))
    ids = [[text.cls_id, *rng.integers(5, len(VOCAB), length - 2), text.sep_id] for length in lengths]
    ragged = tf.ragged.constant(ids, dtype=tf.int32)
    targets = {"label_id": rng.integers(0, 2, count), "phase": np.arange(count) % 2}
    others = {"segment_ids": tf.zeros_like(ragged)}
    prepare = TASK.preprocessing.prepare(Context(text, LABELS, settings), True)
    return Corpus(ragged.flat_values.numpy(), ragged.row_splits.numpy(), targets, others, prepare)


def phases(text, pack: bool) -> list[Phase]:
    settings = PretrainingConfig(phases=PHASES, pack=pack)
    return phases_of(make_rows(text, settings), SETTINGS, TextConfig(seq_len=24), settings)


@pytest.mark.parametrize("pack", [True, False])
def test_each_phase_has_its_own_examples_epochs_and_batch_size(text, pack):
    first, second = phases(text, pack)
    assert (first.settings.epochs, first.settings.batch_size) == (2, 8)
    assert (second.settings.epochs, second.settings.batch_size) == (1, 4)
    assert first.rows.lengths.max() <= 12 < second.rows.lengths.max() <= 24
    whole = make_rows(text, PretrainingConfig())
    assert first.rows.lengths.sum() == whole.where(whole.targets["phase"] == 0).lengths.sum()
    if pack:
        assert len(first.rows) < 30 and len(second.rows) < 30
    else:
        assert len(first.rows) == len(second.rows) == 30


def test_without_phases_the_training_settings_are_the_one_phase(text):
    settings = PretrainingConfig(pack=False)
    rows = make_rows(text, settings)
    rows = replace(rows, targets={**rows.targets, "phase": np.zeros(len(rows), np.int64)})
    (only,) = phases_of(rows, SETTINGS, TextConfig(seq_len=24), settings)
    assert only.settings == SETTINGS and len(only.rows) == len(rows)


def build(text):
    size = EncoderSize(vocab_size=len(VOCAB), layers=1, hidden=16, heads=2, intermediate=32)
    return TASK.model.build(Encoder(size, seed=2), Context(text, LABELS, PretrainingConfig()), 0.1, 2)


class Killed(Exception):
    pass


@pytest.mark.parametrize(
    "killed_at", [pytest.param(4, marks=pytest.mark.full), 8, pytest.param(11, marks=pytest.mark.full)]
)
def test_a_training_killed_in_either_phase_ends_with_the_same_weights(text, tmp_path, killed_at):
    """Data order, masks, dropout, moments: all that decides a step is drawn as if nothing had happened."""
    evaluation = phases(text, False)[1].rows.where(np.arange(30) < 8)

    def run(folder, report=lambda record: None):
        made = train(
            lambda: build(text), TASK, SETTINGS, phases(text, True), evaluation, checkpoint_folder=folder, report=report
        )
        return made, [variable.numpy() for variable in made.model.trainable_variables]

    def kill(record):
        if isinstance(record, StepRecord) and record.step == killed_at:
            raise Killed

    whole, weights = run(tmp_path / "whole")
    assert whole.steps > 11
    with pytest.raises(Killed):
        run(tmp_path / "cut", kill)
    resumed, again = run(tmp_path / "cut")
    assert 0 < resumed.resumed_at <= killed_at
    for ours, theirs in zip(again, weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    seen = [record["loss"] for record in whole.history if "loss" in record]
    assert seen == [record["loss"] for record in resumed.history if "loss" in record]
