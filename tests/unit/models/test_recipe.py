"""What the data decides of a training, where the config leaves it out."""

from __future__ import annotations

import pytest

from bertline.models.encoders.bert.config import EncoderSize
from bertline.models.tasks.base.task import get_task
from bertline.models.training.recipe import cannot_be_beaten, choose, keeps_too_much
from bertline.pipeline.config import TrainingConfig
from bertline.pipeline.config.training import RECIPE
from bertline.pipeline.settings.defaults import apply_recipe

ASKED = {"evaluated": 300, "classes": 3, "hidden": 384, "from_checkpoint": True}


def chosen(task="classification", recipe=RECIPE, **given):
    return choose(get_task(task), TrainingConfig(recipe=recipe), **{"examples": 3_000, **ASKED, **given})


@pytest.mark.parametrize("from_checkpoint", [True, False])
def test_few_examples_are_seen_more_often_and_no_training_is_without_end(from_checkpoint):
    epochs = [
        chosen(examples=count, from_checkpoint=from_checkpoint).settings.epochs for count in (50, 500, 5_000, 10**5, 10**7)
    ]
    assert epochs == sorted(epochs, reverse=True) and epochs[0] > 10 and epochs[-1] == 1


def test_a_wide_encoder_takes_smaller_steps_and_one_from_scratch_larger_ones():
    wide, narrow = (chosen(hidden=hidden).settings.learning_rate for hidden in (1024, 384))
    assert wide < narrow < chosen(from_checkpoint=False).settings.learning_rate


def test_the_best_epoch_is_kept_by_what_the_task_is_measured_by():
    assert chosen().settings.restore_best and chosen().settings.monitor == "micro_f1"
    assert chosen("regression").settings.monitor == "pearson" and chosen("tagging").settings.monitor == "f1"
    assert chosen("choice").settings.monitor == "accuracy"  # the loss of a confident model rises while it still learns


def test_the_metric_that_is_judged_first_chooses_the_best_epoch_where_it_is_measured_after_each():
    def best_by(metric, classes=2):
        judged = TrainingConfig(recipe=RECIPE, monitor=metric)
        return choose(get_task("classification"), judged, examples=3_000, **{**ASKED, "classes": classes}).settings.monitor

    assert best_by("matthews") == "matthews" and best_by("f1") == "f1"
    assert best_by("f1", classes=3) == "micro_f1" == best_by("accuracy")


def test_without_evaluation_examples_nothing_is_chosen_by_them():
    settings = chosen(evaluated=0).settings
    assert not settings.restore_best and settings.early_stopping_patience is None


def test_what_the_config_gives_is_left_alone_and_the_rest_has_a_reason():
    given = TrainingConfig(recipe=("epochs",), learning_rate=0.5, batch_size=7)
    found = choose(get_task("classification"), given, examples=100, **ASKED)
    assert (found.settings.learning_rate, found.settings.batch_size, found.settings.restore_best) == (0.5, 7, False)
    assert set(found.reasons) == {"epochs"} and "steps of 7 examples" in found.reasons["epochs"]
    assert set(chosen().reasons) == set(RECIPE)


def test_a_head_that_a_probe_has_learned_is_trained_more_gently_and_never_faster():
    usual, gentle = chosen(hidden=384), chosen(hidden=384, probed=True)
    assert gentle.settings.learning_rate < usual.settings.learning_rate
    assert "the head of the probe" in gentle.reasons["learning_rate"] and "probe" not in usual.reasons["learning_rate"]
    assert chosen(hidden=1024).settings == chosen(hidden=1024, probed=True).settings


def test_without_a_recipe_nothing_changes():
    settings = TrainingConfig(learning_rate=1e-3)
    assert choose(get_task("classification"), settings, examples=10, **ASKED).settings == settings


@pytest.mark.parametrize(
    ("raw", "left"),
    [
        ({}, RECIPE),
        ({"training": "auto"}, RECIPE),
        ({"training": {"learning_rate": 1e-4}}, tuple(name for name in RECIPE if name != "learning_rate")),
        ({"training": {"epochs": 3}}, None),
        ({"task": "pretraining"}, None),
        ({"task": "translation", "training": {}}, None),
    ],
)
def test_a_config_without_epochs_leaves_them_and_all_else_it_does_not_give_to_the_data(raw, left):
    apply_recipe(raw)
    assert raw["training"].get("recipe") == (None if left is None else list(left))


def test_the_first_threshold_names_what_the_best_epoch_is_chosen_by():
    raw = {"evaluation": {"thresholds": {"matthews": 0.2, "accuracy": 0.9}}}
    apply_recipe(raw)
    assert raw["training"]["monitor"] == "matthews" and "monitor" in raw["training"]["recipe"]
    own = {"evaluation": {"thresholds": {"matthews": 0.2}}, "training": {"monitor": "f1"}}
    apply_recipe(own)
    assert own["training"]["monitor"] == "f1"


def test_layers_are_computed_twice_where_windows_would_keep_too_much():
    def size(layers, hidden):
        return EncoderSize(vocab_size=30, layers=layers, hidden=hidden, heads=12, intermediate=4 * hidden)

    assert not keeps_too_much(8 * 512, 512, size(6, 384)), "measured: 2.7 GB"
    assert keeps_too_much(16 * 512, 512, size(6, 384)) and keeps_too_much(8 * 512, 512, size(12, 768))
    assert not keeps_too_much(32 * 128, 128, size(6, 384)), "shorter windows have fewer weights"


@pytest.mark.parametrize(
    ("last", "so"),
    [
        ({"eval_accuracy": 1.0, "eval_f1": 1.0}, True),
        ({"eval_accuracy": 1.0, "eval_f1": 0.98}, False),
        ({"eval_accuracy": 1.0, "eval_f1": float("nan")}, False),
        ({}, False),
    ],
)
def test_what_is_right_by_every_score_of_the_last_epoch_cannot_be_beaten(last, so):
    history = [
        {"eval_loss": 0.1, "eval_f1": 0.5, "step": 4},
        {"eval_loss": 0.4, **last, "step": 8},
        {"loss": 0.2, "step": 9},
    ]
    assert cannot_be_beaten(get_task("classification"), history) is so
    assert not cannot_be_beaten(get_task("classification"), [])


def test_a_correlation_of_1_can_be_beaten():
    measured = [{"eval_loss": 0.1, "eval_accuracy": float("nan"), "eval_pearson": 1.0, "eval_spearman": 1.0}]
    assert not cannot_be_beaten(get_task("regression"), measured)
