import math

import pytest

from components.verdict import OVERALL, Verdict, check_metrics, judge, length_slice
from models.task import get_task
from pipeline.config import EvaluationConfig
from pipeline.errors import BertlineError

SETTINGS = EvaluationConfig(
    thresholds={"accuracy": 0.8}, slice_thresholds={"accuracy": 0.7}, min_slice_rows=50, max_drop=0.01
)


TASK = get_task("classification")


def numbers(accuracy, rows=1000):
    return {"accuracy": accuracy, "rows": rows}


def test_a_model_within_all_bounds_is_blessed():
    assert judge({OVERALL: numbers(0.8), "10-19 words": numbers(0.7, 50)}, {}, SETTINGS, TASK) == []


@pytest.mark.parametrize("value", [0.79, math.nan])
def test_a_refusal_names_metric_value_bound_and_slice(value):
    (reason,) = judge({OVERALL: numbers(value)}, {}, SETTINGS, TASK)
    assert all(part in reason for part in ("accuracy", f"{value:.4f}", "0.8", "all rows"))


def test_a_poor_slice_is_refused_unless_it_is_small():
    (reason,) = judge({OVERALL: numbers(0.9), "40+ words": numbers(0.6, 50)}, {}, SETTINGS, TASK)
    assert "0.6000" in reason and "0.7" in reason and "40+ words (50 rows)" in reason
    assert judge({OVERALL: numbers(0.9), "40+ words": numbers(0.0, 49)}, {}, SETTINGS, TASK) == []


def test_a_model_clearly_below_the_pushed_one_is_refused():
    pushed = {OVERALL: numbers(0.9)}
    assert judge({OVERALL: numbers(0.891)}, pushed, SETTINGS, TASK) == []
    (reason,) = judge({OVERALL: numbers(0.88)}, pushed, SETTINGS, TASK)
    assert "0.8800" in reason and "0.9000" in reason and "pushed now" in reason


def test_a_bound_on_an_unknown_metric_is_refused_before_the_run():
    with pytest.raises(BertlineError, match="no metric 'f2'; it has accuracy"):
        check_metrics(get_task("classification"), EvaluationConfig(thresholds={"f2": 0.5}))


def test_a_bound_on_a_metric_of_two_classes_is_refused_where_there_are_three():
    settings = EvaluationConfig(thresholds={"f1": 0.5})
    check_metrics(TASK, settings)  # before the classes are known
    check_metrics(TASK, settings, 2)
    with pytest.raises(
        BertlineError, match="f1 is a metric of 2 classes, and there are 3; bound one of accuracy, macro_f1"
    ):
        check_metrics(TASK, settings, 3)


@pytest.mark.parametrize(("words", "name"), [(0, "0-9 words"), (9, "0-9 words"), (10, "10-19 words"), (20, "20+ words")])
def test_lengths_fall_into_slices(words, name):
    assert length_slice(words, (10, 20)) == name


def test_a_verdict_survives_json():
    verdict = Verdict(blessed=False, reasons=["why"], metrics={"accuracy": 0.5}, slices={}, confusion=[[1, 0], [1, 0]])
    assert Verdict.from_json(verdict.to_json()) == verdict


def test_a_verdict_reports_each_class():
    verdict = Verdict(
        blessed=True, reasons=[], metrics={}, slices={}, confusion=[[3, 1], [0, 0]], labels=["common", "never seen"]
    )
    assert verdict.classes["common"] == {"precision": 1.0, "recall": 0.75, "f1": pytest.approx(6 / 7), "rows": 4.0}
    assert verdict.classes["never seen"] == {"precision": 0.0, "recall": 0.0, "f1": 0.0, "rows": 0.0}
    assert Verdict(blessed=True, reasons=[], metrics={}, slices={}).classes == {}


def test_where_less_is_better_a_bound_is_an_upper_one():
    task = get_task("pretraining")
    bounds = EvaluationConfig(thresholds={"perplexity": 50}, max_drop=0.5)
    assert judge({OVERALL: {"perplexity": 50, "rows": 9}}, {}, bounds, task) == []
    (reason,) = judge({OVERALL: {"perplexity": 50.1, "rows": 9}}, {}, bounds, task)
    assert "above its bound 50" in reason
    pushed = {OVERALL: {"perplexity": 40, "rows": 9}}
    assert judge({OVERALL: {"perplexity": 40.4, "rows": 9}}, pushed, bounds, task) == []
    (reason,) = judge({OVERALL: {"perplexity": 41, "rows": 9}}, pushed, bounds, task)
    assert "more than 0.5 above 40" in reason
    assert judge({OVERALL: {"perplexity": math.nan, "rows": 9}}, {}, bounds, task)


@pytest.mark.parametrize(
    ("value", "said"), [(0.91, []), (0.9, ["does not beat"]), (0.899, ["is worse than"]), (float("nan"), None)]
)
def test_what_must_beat_the_pushed_model_is_better_than_it(value, said):
    wanted = SETTINGS.model_copy(update={"must_beat": True})
    assert judge({OVERALL: numbers(value)}, {}, SETTINGS.model_copy(update={"thresholds": {}}), TASK) == []
    reasons = judge({OVERALL: numbers(value)}, {OVERALL: numbers(0.9)}, wanted, TASK)
    if said is None:
        assert reasons
    else:
        assert len(reasons) == len(said) and all(words in reason for words, reason in zip(said, reasons, strict=True))
