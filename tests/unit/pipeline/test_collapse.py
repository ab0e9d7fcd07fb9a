"""A training that learned nothing is told from one that learned little, each with its numbers."""

import math
import random

import pytest

from bertline.pipeline.studies.collapse import Evidence, find_collapsed


def losses(begin, end, steps=200, noise=0.05, seed=0):
    chance = random.Random(seed)
    return [begin + (end - begin) * step / steps + chance.gauss(0, noise) for step in range(steps)]


def sound(value=0.8, **changes):
    return Evidence(**{"losses": losses(0.7, 0.3), "value": value, "confusion": [[40, 10], [10, 40]], **changes})


def reasons(evidence, others=(), better="higher"):
    runs = dict(enumerate([evidence, *others]))
    return find_collapsed(runs, "accuracy", better).get(0, [])


def test_sound_runs_are_not_flagged():
    assert find_collapsed({1: sound(0.8), 2: sound(0.78), 3: sound(0.83)}, "accuracy") == {}


def test_a_training_that_broke_off_is_flagged_with_its_own_reason():
    assert reasons(Evidence(broke_off="the loss is nan at step 7")) == ["the loss is nan at step 7"]


@pytest.mark.parametrize("seed", range(20))
def test_a_loss_that_stays_where_it_was_is_flagged_and_one_that_falls_is_not(seed):
    assert reasons(sound(losses=losses(0.69, 0.55, seed=seed))) == []
    (flat,) = reasons(sound(losses=losses(0.69, 0.72, seed=seed)))
    assert "did not clearly fall" in flat and "first 20 steps" in flat


def test_a_training_of_few_steps_is_not_judged_by_its_losses():
    assert reasons(sound(losses=[0.7] * 9)) == []
    assert "did not clearly fall: 0.7000 in the first 5 steps, 0.7000 in the last" in reasons(sound(losses=[0.7] * 10))[0]


def test_a_loss_that_is_not_finite_is_flagged():
    assert reasons(sound(losses=[0.7] * 50 + [math.inf])) == ["the training loss is not finite"]


def test_one_answer_for_everything_is_flagged():
    (reason,) = reasons(sound(confusion=[[0, 30], [0, 70]]))
    assert reason == "100.0% of the predictions are one class, but at most 70.0% of the evaluation labels"
    assert reasons(sound(confusion=[[2, 28], [0, 70]])) == []  # two answers in a hundred are others


def test_one_answer_is_right_where_the_labels_are_nearly_all_the_same():
    assert reasons(sound(confusion=[[0, 4], [0, 96]])) == []


def test_a_metric_that_is_not_a_number_is_flagged():
    assert reasons(sound(value=math.nan)) == ["accuracy is nan"]


def test_a_run_far_below_the_others_is_flagged():
    others = [sound(0.85), sound(0.83)]
    assert reasons(sound(0.55), others) == ["accuracy 0.5500 is far from 0.8400, the median of the other seeds"]
    assert reasons(sound(0.75), others) == []  # a poor seed, but one that learned
    assert reasons(sound(0.99), others) == []


def test_where_less_is_better_a_run_far_above_the_others_is_flagged():
    others = [sound(20.0), sound(21.0)]
    assert reasons(sound(60.0), others, better="lower") and not reasons(sound(5.0), others, better="lower")


def test_of_two_runs_nobody_knows_which_is_odd():
    assert reasons(sound(0.1), [sound(0.9)]) == []


def test_where_all_lie_far_apart_none_is_far_from_the_others():
    assert find_collapsed({1: sound(0.3), 2: sound(0.5), 3: sound(0.9)}, "accuracy") == {}


def test_collapsed_runs_do_not_make_each_other_look_ordinary():
    same_answer = sound(0.5, confusion=[[0, 50], [0, 50]])
    runs = {1: same_answer, 2: same_answer, 3: sound(0.9), 4: sound(0.91), 5: sound(0.4)}
    assert list(find_collapsed(runs, "accuracy")) == [1, 2, 5]
