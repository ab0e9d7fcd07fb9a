"""The training loop on a tiny encoder: what must hold for every task, strategy and interruption."""

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from tiny_training import CONTEXT, TASK, build, losses, rows, settings

from bertline.models.data.batching import batches, plan
from bertline.models.training import step as steps
from bertline.models.training.distribution import join
from bertline.models.training.epoch_metrics import scorer
from bertline.models.training.loop import train
from bertline.models.training.step import evaluator
from bertline.pipeline.core.errors import BertlineError


def test_it_learns_what_can_be_learned(tmp_path):
    result = train(build, TASK, settings(epochs=15, learning_rate=1e-2), rows(), rows(seed=1), checkpoint_folder=tmp_path)
    assert result.history[-1]["eval_accuracy"] > 0.95
    assert losses(result)[-1] < 0.3 < losses(result)[0]


def test_one_step_changes_every_trainable_weight(tmp_path):
    before = {w.path: w.numpy() for w in build().trainable_variables}
    result = train(build, TASK, settings(epochs=1, warmup_ratio=0.0), rows(16), rows(16), checkpoint_folder=tmp_path)
    assert result.steps == 1
    same = [w.path for w in result.model.trainable_variables if np.array_equal(w.numpy(), before[w.path])]
    # A bias of the keys shifts all scores of a query alike, which softmax does not see: its gradient is 0 but for rounding.
    assert [path for path in same if not path.endswith("attention/key/bias")] == []


def test_a_training_that_was_stopped_ends_with_the_weights_of_one_that_was_not(tmp_path):
    whole = train(build, TASK, settings(), rows(), rows(seed=1), checkpoint_folder=tmp_path / "whole")

    class Stop(Exception):
        pass

    def stop_at(record):
        if record.step == 8 and hasattr(record, "loss"):
            raise Stop

    interrupted = settings(checkpoint_steps=3)
    with pytest.raises(Stop):
        train(build, TASK, interrupted, rows(), rows(seed=1), checkpoint_folder=tmp_path / "cut", report=stop_at)
    resumed = train(build, TASK, interrupted, rows(), rows(seed=1), checkpoint_folder=tmp_path / "cut")
    assert resumed.resumed_at == 6  # dropout is on: its random state has to come back too
    assert losses(resumed) == losses(whole)
    for ours, theirs in zip(resumed.model.variables, whole.model.variables, strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


def test_a_half_written_checkpoint_is_not_taken_up(tmp_path):
    (tmp_path / "step-000000004.part").write_bytes(b"half")
    assert train(build, TASK, settings(epochs=1), rows(16), rows(16), checkpoint_folder=tmp_path).resumed_at == 0


def test_whatever_the_lengths_and_epochs_each_function_is_traced_once(tmp_path):
    passes, prepared = [], []

    def counted():
        model = build()
        call = model.call
        model.call = lambda batch, training=False: passes.append(training) or call(batch, training=training)
        return model

    def prepare(batch, seed):
        prepared.append(seed)
        return batch

    def ragged(corpus, begin, end):
        tokens = tf.RaggedTensor.from_row_splits(corpus.values, corpus.starts)
        return {"token_ids": tokens[begin:end], "label_id": tf.constant(corpus.targets["label_id"][begin:end])}

    evaluation = rows(37, seed=1)
    parts = [ragged(evaluation, begin, begin + 16) for begin in range(0, 37, 16)]
    train(
        counted,
        TASK,
        settings(epochs=3, gradient_accumulation_steps=2),
        replace(rows(100), prepare=prepare),
        evaluation,
        checkpoint_folder=tmp_path,
        score=scorer(TASK, CONTEXT, lambda: parts),
    )
    assert passes == [True, False, False]  # the step, evaluation loss, evaluation scores
    assert len(prepared) == 2  # what a batch looks like, and all batches


def test_epochs_give_the_same_batches_whether_or_not_they_share_a_dataset(monkeypatch):
    corpus, chosen = rows(50), settings()
    plans = [steps.plan(corpus, chosen, seed=1, epoch=epoch) for epoch in range(4)]

    def found():
        return [[batch["token_ids"].numpy() for batch in epoch] for epoch in steps.epochs(join(), corpus, plans, chosen)]

    together = found()
    monkeypatch.setattr(steps, "_LISTED", 120)
    two_by_two = found()
    monkeypatch.setattr(steps, "_LISTED", 1)
    apart = found()
    for one, two, three, planned in zip(together, two_by_two, apart, plans, strict=True):
        assert len(one) == len(two) == len(three) == len(planned)
        for a, b, c in zip(one, two, three, strict=True):
            np.testing.assert_array_equal(a, b)
            np.testing.assert_array_equal(a, c)


def test_padding_and_batch_composition_never_change_logits():
    model, data = build(), rows(12)
    alone = []
    for batch in batches(data, plan(data.lengths, 1, range(4, 21), seed=None), 1):
        alone.append(model(batch, training=False).numpy()[0])
    order = np.concatenate([batch.rows for batch in plan(data.lengths, 1, range(4, 21), seed=None)])
    (together,) = batches(data, plan(data.lengths, 12, (64,), seed=None), 12)
    together = model({**together}, training=False).numpy()
    rows_together = plan(data.lengths, 12, (64,), seed=None)[0].rows
    for logits, row in zip(alone, order, strict=True):
        np.testing.assert_allclose(logits, together[list(rows_together).index(row)], atol=1e-5)


def test_evaluation_is_the_plain_mean_over_rows():
    model, data = build(), rows(21)
    loss, accuracy = evaluator(join(), model, TASK, data, settings(batch_size=4))()
    found = []
    for batch in batches(data, plan(data.lengths, 1, (32,), seed=None), 1):
        logits = model(batch, training=False)
        found.append((float(TASK.objective.loss(logits, batch)[0]), float(TASK.objective.accuracy(logits, batch)[0])))
    np.testing.assert_allclose((loss, accuracy), np.mean(found, axis=0), rtol=1e-5)


def test_a_step_compiled_by_xla_gives_the_same_losses(tmp_path):
    found = []
    for xla in (False, True):
        chosen = settings(epochs=1, xla=xla)
        result = train(lambda: build(0.0), TASK, chosen, rows(48), rows(16), checkpoint_folder=tmp_path / str(xla))
        found.append(losses(result))
    np.testing.assert_allclose(*found, rtol=1e-4)


def test_mistakes_are_named():
    with pytest.raises(BertlineError, match="GPU:7 not found; this machine has CPU:0"):
        join(("GPU:7",))


def test_a_diverging_training_stops_and_says_what_to_do(tmp_path):
    with pytest.raises(BertlineError, match="lower training.learning_rate"):
        broken = settings(epochs=3, learning_rate=0.9, clip_norm=1e30, warmup_ratio=0.0)
        model = build()
        model.head.kernel.assign(model.head.kernel * np.inf)
        train(lambda: model, TASK, broken, rows(), rows(), checkpoint_folder=tmp_path)
