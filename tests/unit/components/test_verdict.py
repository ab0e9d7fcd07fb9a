import json
import math

import pytest

from bertline.components.evaluator.undefined import undefined_metrics
from bertline.components.evaluator.verdict import OVERALL, Verdict, check_metrics, judge, length_slice
from bertline.models.tasks.base.task import get_task
from bertline.pipeline.config import EvaluationConfig
from bertline.pipeline.core.errors import BertlineError

SETTINGS = EvaluationConfig(
    thresholds={"accuracy": 0.8}, slice_thresholds={"accuracy": 0.7}, min_slice_examples=50, max_drop=0.01
)


TASK = get_task("classification")


def numbers(accuracy, rows=1000):
    return {"accuracy": accuracy, "rows": rows}


def test_a_model_within_all_bounds_is_blessed():
    assert judge({OVERALL: numbers(0.8), "10-19 words": numbers(0.7, 50)}, {}, SETTINGS, TASK) == []


def test_a_refusal_names_metric_value_bound_and_slice():
    (reason,) = judge({OVERALL: numbers(0.79)}, {}, SETTINGS, TASK)
    assert all(part in reason for part in ("accuracy", "0.7900", "0.8", "all examples"))


BOTH_F1 = EvaluationConfig(thresholds={"f1": 0.5, "accuracy": 0.5}, slice_thresholds={"f1": 0.4}, min_slice_examples=10)


def test_a_threshold_on_an_undefined_metric_refuses_once_and_says_why_and_what_to_do():
    values = {"accuracy": 1.0, "f1": math.nan, "macro_f1": math.nan, "rows": 20}
    undefined = undefined_metrics(values, TASK, [[20, 0], [0, 0]], ["no", "yes"], {})
    assert list(undefined) == ["f1", "macro_f1"]
    for before in ({}, {OVERALL: {"accuracy": 0.9, "f1": 0.9, "rows": 20}}):
        (reason,) = judge({OVERALL: values, "source=web": values}, before, BOTH_F1, TASK, undefined)
        assert reason.startswith("f1 is undefined: no evaluation example has the class 'yes'; add examples of it, or set a")
        assert "threshold on another metric" in reason and "0.5" in reason and "nan" not in reason.lower().split()


def test_a_slice_on_which_a_metric_is_undefined_is_shown_and_not_judged():
    good, one_class = {"accuracy": 1.0, "f1": 0.9, "rows": 20}, {"accuracy": 1.0, "f1": math.nan, "rows": 20}
    assert judge({OVERALL: good, "source=web": one_class}, {}, BOTH_F1, TASK) == []


def test_an_undefined_metric_of_the_pushed_model_holds_nothing_back():
    task = get_task("regression")
    settings = EvaluationConfig(thresholds={"pearson": 0.1}, must_beat=True)
    before = {OVERALL: {"pearson": math.nan, "rows": 9}}  # it predicts the same number whatever it is asked
    assert judge({OVERALL: {"pearson": 0.5, "rows": 9}}, before, settings, task) == []


@pytest.mark.parametrize(
    ("task", "metric", "why"),
    [
        ("classification", "accuracy", "no evaluation example can be measured by it"),
        ("regression", "pearson", "all equal"),
        ("answering", "has_answer_f1", "no evaluation example has an answer"),
        ("tagging", "f1", "no evaluation example has an entity"),
        ("multilabel", "macro_f1", "no evaluation example has any class"),
    ],
)
def test_why_a_metric_is_undefined_follows_from_what_it_measures(task, metric, why):
    found = undefined_metrics({metric: math.nan, "rows": 0}, get_task(task), [], [], {})
    assert why in found[metric]


def test_a_poor_slice_is_refused_unless_it_is_small():
    (reason,) = judge({OVERALL: numbers(0.9), "40+ words": numbers(0.6, 50)}, {}, SETTINGS, TASK)
    assert "0.6000" in reason and "0.7" in reason and "40+ words (50 examples)" in reason
    assert judge({OVERALL: numbers(0.9), "40+ words": numbers(0.0, 49)}, {}, SETTINGS, TASK) == []


def test_a_model_clearly_below_the_pushed_one_is_refused():
    pushed = {OVERALL: numbers(0.9)}
    assert judge({OVERALL: numbers(0.891)}, pushed, SETTINGS, TASK) == []
    (reason,) = judge({OVERALL: numbers(0.88)}, pushed, SETTINGS, TASK)
    assert "0.8800" in reason and "0.9000" in reason and "currently pushed" in reason


def test_a_bound_on_an_unknown_metric_is_refused_before_the_run():
    with pytest.raises(BertlineError, match="no metric 'f2'; it has accuracy"):
        check_metrics(get_task("classification"), EvaluationConfig(thresholds={"f2": 0.5}))


def test_a_bound_on_a_metric_of_two_classes_is_refused_where_there_are_three():
    settings = EvaluationConfig(thresholds={"f1": 0.5})
    check_metrics(TASK, settings)  # before the classes are known
    check_metrics(TASK, settings, 2)
    with pytest.raises(
        BertlineError, match="f1 is a metric of 2 classes, and there are 3; set a threshold for one of accuracy, macro_f1"
    ):
        check_metrics(TASK, settings, 3)


@pytest.mark.parametrize(("words", "name"), [(0, "0-9 words"), (9, "0-9 words"), (10, "10-19 words"), (20, "20+ words")])
def test_lengths_fall_into_slices(words, name):
    assert length_slice(words, (10, 20)) == name


def test_a_verdict_survives_json():
    verdict = Verdict(blessed=False, reasons=["why"], metrics={"accuracy": 0.5}, slices={}, confusion=[[1, 0], [1, 0]])
    assert Verdict.from_json(verdict.to_json()) == verdict


def test_what_is_undefined_is_null_in_json_and_nan_again_after_it():
    undefined = {"f1": math.nan, "accuracy": 1.0}
    verdict = Verdict(
        blessed=True, reasons=[], metrics=undefined, slices={"a": undefined}, per_class={"PER": undefined},
        undefined={"f1": "no evaluation example has the class 'yes'"},
    )  # fmt: skip
    text = verdict.to_json()
    assert json.loads(text, parse_constant=pytest.fail)["metrics"] == {"f1": None, "accuracy": 1.0}
    back = Verdict.from_json(text)
    for found in (back.metrics, back.slices["a"], back.per_class["PER"]):
        assert math.isnan(found["f1"]) and found["accuracy"] == 1.0
    assert back.undefined == verdict.undefined


def test_a_verdict_reports_each_class():
    verdict = Verdict(
        blessed=True, reasons=[], metrics={}, slices={}, confusion=[[3, 1], [0, 0]], labels=["common", "never seen"]
    )
    assert verdict.classes["common"] == {"precision": 1.0, "recall": 0.75, "f1": pytest.approx(6 / 7), "rows": 4.0}
    never_seen = {"precision": math.nan, "recall": math.nan, "f1": math.nan, "rows": 0.0}
    assert verdict.classes["never seen"] == pytest.approx(never_seen, nan_ok=True)
    assert Verdict(blessed=True, reasons=[], metrics={}, slices={}).classes == {}


def test_where_less_is_better_a_bound_is_an_upper_one():
    task = get_task("pretraining")
    bounds = EvaluationConfig(thresholds={"perplexity": 50}, max_drop=0.5)
    assert judge({OVERALL: {"perplexity": 50, "rows": 9}}, {}, bounds, task) == []
    (reason,) = judge({OVERALL: {"perplexity": 50.1, "rows": 9}}, {}, bounds, task)
    assert "above its threshold 50" in reason
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
