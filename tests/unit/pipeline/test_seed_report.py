"""Seeds side by side: mean and deviation with the collapsed ones and without, and which is the best."""

import math

import numpy as np
import pytest

from bertline.pipeline.studies.seed_report import SeedRun, best_of, make_report
from bertline.pipeline.studies.statistics import spread_of


def run(seed, accuracy, loss=0.5, **changes):
    return SeedRun(seed=seed, metrics={"accuracy": accuracy, "cross_entropy": loss}, **changes)


def test_mean_and_deviation_are_those_of_a_sample():
    values = [0.81, 0.84, 0.79, 0.9]
    spread = spread_of([{"accuracy": value} for value in values])
    assert spread.runs == 4 and spread.mean["accuracy"] == pytest.approx(np.mean(values))
    assert spread.std["accuracy"] == pytest.approx(np.std(values, ddof=1))


def test_one_run_alone_has_no_deviation():
    spread = spread_of([{"accuracy": 0.8}])
    assert spread.std == {"accuracy": None} and spread.shown("accuracy") == "0.8000 ± ?"


def test_a_metric_that_is_not_a_number_somewhere_has_no_mean():
    assert spread_of([{"f1": math.nan, "accuracy": 0.5}, {"f1": 0.5, "accuracy": 0.7}]).mean == {
        "accuracy": pytest.approx(0.6)
    }
    assert spread_of([]).mean == {}


def test_collapsed_seeds_count_in_one_mean_and_not_in_the_other():
    runs = [run(1, 0.8), run(2, 0.9), run(3, 0.5, collapsed=["the training loss did not clearly fall"])]
    report = make_report("accuracy", runs)
    assert report.spread.mean["accuracy"] == pytest.approx(2.2 / 3) and report.collapsed == [3]
    assert report.without_collapsed.mean["accuracy"] == pytest.approx(0.85) and report.without_collapsed.runs == 2


def test_without_collapsed_seeds_there_is_one_mean():
    assert make_report("accuracy", [run(1, 0.8), run(2, 0.9)]).without_collapsed is None


def test_a_seed_that_broke_off_is_in_no_mean():
    report = make_report("accuracy", [run(1, 0.8), SeedRun(seed=2, collapsed=["the loss is nan"])])
    assert report.spread.runs == 1 and report.without_collapsed.runs == 1


def test_the_best_is_chosen_among_those_that_are_blessed():
    runs = [run(1, 0.95), run(2, 0.85, 0.6, blessed=True), run(3, 0.84, 0.3, blessed=True), SeedRun(seed=4)]
    assert best_of(runs, "accuracy", "higher").seed == 2
    assert best_of(runs, "cross_entropy", "lower").seed == 3


def test_where_none_is_blessed_the_best_of_all_is_shown_and_without_any_none():
    assert best_of([run(1, 0.5), run(2, 0.6)], "accuracy", "higher").seed == 2
    assert best_of([SeedRun(seed=1)], "accuracy", "higher") is None
