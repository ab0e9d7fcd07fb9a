"""Encoder-decoders that are trained: what they learn, and what a training of them promises."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from tiny_translation import TASK, backwards, build, context, corpus, features, settings, texts

from bertline.models.data.batching import Batch, padded
from bertline.models.tasks.graphs.translation import ask
from bertline.models.training import step as steps
from bertline.models.training.distribution import join
from bertline.models.training.epoch_metrics import scorer
from bertline.models.training.loop import train
from bertline.models.training.optimizer import Optimizer


def written(model, given, sources):
    batch = padded(TASK.preprocessing.request({"text": tf.constant(sources)}, given))
    return [text.decode() for text in tf.function(lambda: ask(model, batch, given)["n_best"][:, 0])().numpy()]


@pytest.mark.full
@pytest.mark.parametrize("say", [str, backwards], ids=["copying", "reversal"])
def test_sequences_that_were_never_seen_are_said_again_and_backwards(say, tmp_path):
    given = context(tmp_path)
    every = texts(4400)
    seen, unseen = every[:4000], every[4000:]
    rows, evaluation = (corpus(some, [say(text) for text in some], given) for some in (seen, unseen))
    result = train(build, TASK, settings(epochs=16), rows, evaluation, checkpoint_folder=tmp_path / "checkpoints")
    right = [said == say(text) for said, text in zip(written(result.model, given, unseen), unseen, strict=True)]
    assert np.mean(right) >= 0.99


class Stop(Exception):
    pass


@pytest.mark.full
def test_a_killed_training_ends_with_the_weights_of_one_that_was_not(tmp_path):
    given = context(tmp_path)
    some = texts(160)
    rows, evaluation = (corpus(part, part, given) for part in (some[:120], some[120:]))
    options = {
        "epochs": 4,
        "average_epochs": 2,
        "restore_best": True,
        "monitor": "bleu",
        "label_smoothing": 0.1,
        "checkpoint_steps": 3,
        "batch_tokens": 400,
    }
    score = scorer(TASK, given, lambda: [features(some[120:], some[120:], given)])

    def run(name, report=lambda record: None):
        return train(
            lambda: build(16, 0.1), TASK, settings(**options), rows, evaluation,
            checkpoint_folder=tmp_path / name, score=score, report=report,
        )  # fmt: skip

    def stop(record):
        if record.step == 8:
            raise Stop

    whole = run("whole")
    with pytest.raises(Stop):
        run("killed", stop)
    again = run("killed")
    assert 0 < again.resumed_at < 8
    assert [record.get("loss") for record in again.history] == [record.get("loss") for record in whole.history]
    for mine, its in zip(again.model.variables, whole.model.variables, strict=True):
        np.testing.assert_array_equal(mine, its, err_msg=mine.path)


@pytest.mark.full
def test_the_mean_of_the_last_epochs_is_measured_and_kept(tmp_path):
    given = context(tmp_path)
    rows = corpus(some := texts(64), some, given)
    weights = []
    score = lambda model: weights.append([v.numpy() for v in model.trainable_variables]) or {}  # noqa: E731

    def run(name, **changes):
        weights.clear()
        model = train(
            lambda: build(16),
            TASK,
            settings(epochs=3, **changes),
            rows,
            rows,
            checkpoint_folder=tmp_path / name,
            score=score,
        ).model
        return [list(found) for found in weights], [v.numpy() for v in model.trainable_variables]

    (one, two, three), last = run("plain")
    measured, exported = run("mean", average_epochs=2)
    for mine, its in zip(measured, (one, [*map(mean, one, two)], [*map(mean, two, three)]), strict=True):
        for a, b in zip(mine, its, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-6)
    for a, b in zip(exported, measured[-1], strict=True):
        np.testing.assert_array_equal(a, b)
    for a, b in zip(last, three, strict=True):  # and the steps themselves went on from their own weights
        np.testing.assert_array_equal(a, b)


def mean(one, other):
    return (one + other) / 2


def test_the_best_epoch_is_that_of_the_best_score(tmp_path):
    given = context(tmp_path)
    rows = corpus(some := texts(64), some, given)
    scores = iter([1.0, 5.0, 3.0, 4.0])
    result = train(
        lambda: build(16), TASK, settings(epochs=4, restore_best=True, monitor="bleu"), rows, rows,
        checkpoint_folder=tmp_path / "run", score=lambda model: {"bleu": next(scores)},
    )  # fmt: skip
    assert result.kept_step == result.steps // 2


@pytest.mark.full
def test_parts_of_a_batch_by_tokens_give_the_gradients_of_the_whole(tmp_path):
    given = context(tmp_path)
    rows = corpus(some := texts(7), some, given)
    found = []
    for parts in (1, 3):
        model, options = build(16), settings(gradient_accumulation_steps=parts, clip_norm=1e9)
        optimizer = Optimizer(
            model.trainable_variables, peak=1e-3, total_steps=10, warmup=0.0, weight_decay=0.0, clip_norm=1e9
        )
        step = steps.step_function(join(), model, TASK, optimizer, rows, options)
        (batch,) = steps.batches(rows, [Batch(np.arange(7), int(rows.lengths.max()))], options)
        assert batch["weight"].shape[0] == (9 if parts == 3 else 7)
        loss, accuracy, tokens = (float(value) for value in step(batch))
        found.append(([loss, accuracy, tokens], [moment.numpy() for moment in optimizer.means]))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-5)
    assert found[0][0][2] == rows.lengths.sum() + rows.weights.sum()
    for one, other in zip(found[0][1], found[1][1], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_evaluation_loss_is_the_mean_over_tokens_whatever_the_batches(tmp_path):
    given = context(tmp_path)
    rows = corpus(some := texts(40), some, given)
    model = build(16)
    sizes = (settings(batch_tokens=tokens) for tokens in (4096, 64))
    wide, narrow = (steps.evaluator(join(), model, TASK, rows, size)() for size in sizes)
    np.testing.assert_allclose(wide, narrow, rtol=1e-5)
    batch = padded({"token_ids": tf.RaggedTensor.from_row_splits(rows.values, rows.starts), **rows.others})
    logits = tf.nn.log_softmax(model(batch))
    picked = tf.gather(logits, batch["target_ids"], batch_dims=2)[batch["target_ids_mask"]]
    assert wide[0] == pytest.approx(-float(tf.reduce_mean(picked)), rel=1e-5)


def test_a_batch_is_translated_as_its_rows_one_by_one(tmp_path):
    given = context(tmp_path, n_best=3)
    model = build(32)
    for variable in model.trainable_variables:
        variable.assign(variable * 1.5)  # less sure of one answer, and so more to differ in
    some = [*texts(12), "", "a", "zzz unknown"]
    together = ask(model, padded(TASK.preprocessing.request({"text": tf.constant(some)}, given)), given)
    for row, text in enumerate(some):
        alone = ask(model, padded(TASK.preprocessing.request({"text": tf.constant([text])}, given)), given)
        assert alone["n_best"][0].numpy().tolist() == together["n_best"][row].numpy().tolist(), text
        np.testing.assert_allclose(alone["n_best_scores"][0], together["n_best_scores"][row], atol=1e-4)
    assert together["n_best"][12, 0].numpy() == b""  # nothing is made up for an empty text
