"""What is tuned on evaluation examples: that it is right, that it is honest, and that too few examples tune nothing."""

import numpy as np
import pytest
from made_rows import make

from bertline.components.evaluator.predictions.decisions import coverage_curve, decided
from bertline.components.evaluator.predictions.outcomes import outcomes
from bertline.components.reports.certainty import Certainty, charts
from bertline.models.decisions.decision import CONFIDENCE, TEMPERATURE, THRESHOLD, Decision
from bertline.models.decisions.tuning import (
    best_abstention,
    best_temperature,
    best_threshold,
    check_deciding,
    cross_fitted,
    tempered,
    tune,
)
from bertline.models.tasks.base.task import get_task
from bertline.pipeline.config import AbstainConfig, DecisionConfig, EvaluationConfig
from bertline.pipeline.core.errors import BertlineError

COUNT = 4000
CALIBRATED, TUNED = DecisionConfig(), DecisionConfig(decision="tuned")


def drawn(temperature=1.0, classes=3, seed=0, several=False, shift=0.0):
    """Probabilities that are `temperature` times too sure of themselves, and what is true."""
    chance = np.random.default_rng(seed)
    logits = chance.normal(0, 1.5, (COUNT, classes)) + shift
    if several:
        true = (chance.random(logits.shape) < 1 / (1 + np.exp(-logits))).astype(int)
        return 1 / (1 + np.exp(-logits * temperature)), true
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    true = (shares.cumsum(axis=1) > chance.random((COUNT, 1))).argmax(axis=1)
    powers = np.exp(logits * temperature)
    return powers / powers.sum(axis=1, keepdims=True), true


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("temperature", [0.5, 3.0])
def test_the_temperature_undoes_what_made_the_probabilities_too_sure_or_too_careful(several, temperature):
    given, true = drawn(temperature, several=several)
    assert best_temperature(given.astype(np.float32), true) == pytest.approx(temperature, rel=0.07)


def test_where_every_answer_is_right_or_examples_are_few_the_temperature_stays_as_it_is():
    given, _ = drawn()
    assert best_temperature(given, given.argmax(axis=1)) is None
    sure = np.asarray([[1.0, 1e-25], [1e-12, 1.0], [1.0, 1e-35]], np.float32)  # so sure that one of them rounds to 0
    assert best_temperature(sure, np.asarray([0, 1, 0])) is None
    assert best_temperature(np.asarray([[0.9, 0.1], [0.2, 0.3]], np.float32), np.asarray([[1, 0], [0, 0]])) is None
    given, true = drawn(3.0)
    assert tune(given[:49], true[:49], CALIBRATED, -1) == {} != tune(given[:50], true[:50], CALIBRATED, -1)
    assert tune(given, true, DecisionConfig(calibration=False), -1) == {}


def test_a_temperature_changes_no_decision_and_undoes_itself():
    given, _ = drawn()
    warm = tempered(given, 2.5, several=False)
    assert (warm.argmax(axis=1) == given.argmax(axis=1)).all()
    assert np.abs(tempered(warm, 1 / 2.5, several=False) - given).max() < 1e-9


def test_the_threshold_has_the_highest_f1_of_all():
    chance = np.random.default_rng(1)
    true = (chance.random(300) < 0.1).astype(int)
    given = np.round(chance.random(300) * 0.4 + true * 0.2, 2)  # with many that are equal

    def f1(above):
        taken = given > above
        return 2 * (taken & (true > 0)).sum() / (taken.sum() + true.sum())

    best = max(f1(above) for above in [*given, *(given - 1e-6)])
    found = best_threshold(given, true)
    assert f1(found) == pytest.approx(best) and f1(0.5) < best


def test_the_threshold_is_of_the_positive_class_and_is_served_counted_and_cross_fitted_alike():
    given, true = drawn(classes=2, shift=np.asarray([-1.5, 0.0]))
    tuned = tune(given, true, TUNED, 0)
    decision = Decision.of(("spam", "ham"), "spam", tuned)
    assert decision.threshold < 0.5 and set(tuned) == {TEMPERATURE, THRESHOLD}
    served = tempered(given, tuned[TEMPERATURE], several=False).astype(np.float32)
    rows = make("classification", {"": (true, served, np.ones(COUNT, np.float32))}, labels=("spam", "ham"))
    about = decided(rows.deciding(decision), TUNED)
    assert about.numbers["f1_at_threshold"] > about.numbers["f1_at_0.5"] + 0.01
    assert about.numbers["f1_at_threshold"] >= about.numbers["f1_cross_fitted"] > about.numbers["f1_at_0.5"]
    assert "cross-fitted" in about.sentences["threshold"]


def test_a_threshold_that_is_no_better_on_other_examples_is_not_taken():
    given = drawn(classes=2)[0][:200]
    true = (given[:, 1] > 0.5).astype(int)
    rows = make("classification", {"": (true, given, np.ones(200))}, labels=("a", "b"))
    assert THRESHOLD not in tune(given, true, TUNED.model_copy(update={"calibration": False}), 1)
    about = decided(rows, TUNED)
    assert about.numbers["f1_cross_fitted"] <= about.numbers["f1_at_0.5"] == about.numbers["f1_at_threshold"]
    assert about.sentences["threshold"].startswith("0.5: no other is better cross-fitted")


def test_several_labels_have_one_threshold():
    given, true = drawn(several=True, shift=-2.0)
    tuned = tune(given, true, TUNED, -1)
    rows = make("multilabel", {"": (true, given, np.ones(COUNT))}, labels=("a", "b", "c"))
    about = decided(rows.deciding(Decision.of("abc", None, tuned)), TUNED)
    assert tuned[THRESHOLD] < 0.5 and about.numbers["micro_f1_cross_fitted"] > about.numbers["micro_f1_at_0.5"]


def test_the_error_before_and_after_calibration_follows_from_what_is_served():
    given, true = drawn(3.0)
    tuned = tune(given, true, CALIBRATED, -1)
    served = tempered(given, tuned[TEMPERATURE], several=False).astype(np.float32)
    rows = make("classification", {"": (true, served, np.ones(COUNT))}, labels=tuple("abc"))
    found = decided(rows.deciding(Decision.of("abc", None, tuned)), CALIBRATED).numbers
    bare = decided(make("classification", {"": (true, given, np.ones(COUNT))}, labels=tuple("abc")), CALIBRATED)
    assert found["ece_before"] == pytest.approx(bare.numbers["ece_before"], abs=1e-3) and found["ece_before"] > 0.15
    assert found["ece_after"] < 0.03 and found["ece_after_cross_fitted"] < 0.04
    assert "ece_after" not in bare.numbers


def test_few_examples_are_said_to_be_the_reason():
    given, true = drawn()
    rows = make("classification", {"": (true[:30], given[:30], np.ones(30))}, labels=tuple("abc"))
    assert "30 evaluation examples, and it takes 50" in decided(rows, CALIBRATED).sentences["calibration"]
    asked = DecisionConfig(abstain=AbstainConfig(precision=0.9))
    assert "add evaluation examples" in decided(rows, asked).refusal
    given, true = drawn(classes=2)
    true = np.where(np.arange(COUNT) < 5, 1, 0)
    assert THRESHOLD not in tune(given, true, TUNED, 1)
    rows = make("classification", {"": (true, given, np.ones(COUNT))}, labels=("a", "b"))
    assert "5 evaluation examples of one of the classes" in decided(rows, TUNED).sentences["threshold"]


def test_a_model_abstains_where_its_answers_would_be_less_precise_than_wanted():
    given, true = drawn()
    asked = DecisionConfig(abstain=AbstainConfig(precision=0.9))
    tuned = tune(given, true, asked, -1)
    decision = Decision.of("abc", None, tuned)
    served = tempered(given, tuned[TEMPERATURE], several=False)
    rows = make("classification", {"": (true, served, np.ones(COUNT))}, labels=tuple("abc")).deciding(decision)
    about = decided(rows, asked)
    assert about.refusal is None and 0.2 < about.numbers["coverage"] < 0.9
    assert about.numbers["precision"] >= 0.9 and about.numbers["precision_cross_fitted"] == pytest.approx(0.9, abs=0.02)
    confident = decision.is_confident(served)
    assert confident.mean() == pytest.approx(about.numbers["coverage"])
    said = [outcome.answered.startswith("none of these") for outcome in outcomes(rows)]
    assert (np.asarray(said) == ~confident).all()
    coverages = [coverage for coverage, _ in coverage_curve(rows)]
    assert coverages == sorted(coverages) and coverages[-1] == 1


def test_a_precision_that_no_confidence_reaches_refuses_the_model_in_one_sentence():
    given, _ = drawn()
    true = np.random.default_rng(5).integers(3, size=COUNT)  # nothing is known
    asked = DecisionConfig(abstain=AbstainConfig(precision=0.99))
    tuned = tune(given, true, asked, -1)
    assert CONFIDENCE not in tuned
    rows = make("classification", {"": (true, given, np.ones(COUNT))}, labels=tuple("abc"))
    about = decided(rows, asked)
    assert about.refusal.startswith("evaluation.abstain: no confidence reaches a precision of 0.99")
    assert "lower it, or train a better model" in about.refusal


def test_of_the_confidences_that_are_precise_enough_the_one_that_answers_most_is_taken():
    confidence, right = np.linspace(1, 0.01, 100), np.arange(100) % 10 != 9
    right[60:] = False
    found = best_abstention(confidence, right, 0.9)
    assert found.coverage == pytest.approx(0.6) and found.precision == pytest.approx(0.9)
    assert best_abstention(confidence, right, 0.95) is None  # of 9 answers all are right: too few to say so


def test_each_example_is_measured_by_what_the_others_chose():
    seen = {}

    def choose(places):
        return frozenset(places.tolist())

    def apply(places, chosen):
        seen.update(dict.fromkeys(places.tolist(), chosen))
        return places

    assert cross_fitted(23, choose, apply).tolist() == list(range(23))
    assert all(place not in chosen and len(chosen) >= 18 for place, chosen in seen.items())


def test_what_a_task_cannot_decide_by_is_refused():
    with pytest.raises(BertlineError, match="evaluation.abstain: the task multilabel"):
        check_deciding(get_task("multilabel"), DecisionConfig(abstain=AbstainConfig(precision=0.9)))
    with pytest.raises(BertlineError, match="evaluation.decision: the task tagging has no threshold"):
        check_deciding(get_task("tagging"), TUNED)
    with pytest.raises(BertlineError, match="of two classes, and there are 3"):
        check_deciding(get_task("classification"), TUNED, 3)
    check_deciding(get_task("multilabel"), TUNED, 3)
    with pytest.raises(ValueError, match="less than 1"):
        EvaluationConfig(thresholds={"f1": 0.1}, abstain={"precision": 1.0})


def test_the_page_draws_reliability_before_and_after_and_coverage_with_what_was_chosen():
    given, true = drawn(3.0)
    asked = DecisionConfig(abstain=AbstainConfig(precision=0.9))
    tuned = tune(given, true, asked, -1)
    served = tempered(given, tuned[TEMPERATURE], several=False)
    rows = make("classification", {"": (true, served, np.ones(COUNT))}, labels=tuple("abc"))
    found = Certainty.of(rows.deciding(Decision.of("abc", None, tuned)))
    assert [line.name for line in found.reliability] == ["before calibration", "after calibration"]
    apart = [max(abs(x - y) for x, y in line.points) for line in found.reliability]
    assert apart[0] > 0.2 > 0.1 > apart[1]
    assert found.chosen[1] >= 0.9 and found.chosen[0] < 0.9
    reliability, coverage = charts(found)
    assert [line["is_ideal"] for line in reliability["lines"]] == [True, False, False]
    box = coverage["box"]
    for x, y in (map(float, point.split(",")) for point in coverage["lines"][0]["points"].split()):
        assert box["left"] <= x <= box["right"] and box["top"] <= y <= box["bottom"]
    flags = (np.random.default_rng(0).random((60, 3)) < 0.5).astype(int)
    several = Certainty.of(make("multilabel", {"": (flags, np.full((60, 3), 0.4), np.ones(60))}, labels=tuple("abc")))
    assert len(charts(several)) == 1 and several.reliability[0].name == "not calibrated"
