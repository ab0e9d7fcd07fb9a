"""Of two classes the positive one: which it is, and that metrics are of it."""

import numpy as np
import pytest
from made_rows import make

from bertline.components.baselines.scores import of_predictions
from bertline.components.evaluator.predictions.rows import Description
from bertline.components.evaluator.predictions.scores import confusion, scores
from bertline.models.decisions.decision import Decision
from bertline.models.decisions.positive_class import choose_positive
from bertline.models.tasks.base.task import get_task
from bertline.pipeline.config import DataConfig
from bertline.pipeline.core.errors import BertlineError


@pytest.mark.parametrize(
    ("labels", "positive"),
    [
        (("ham", "spam"), "spam"),
        (("spam", "zero"), "spam"),
        (("No", "Yes"), "Yes"),
        (("true", "untrue"), "true"),
        (("0", "1"), "1"),
        (("-1", "1"), "1"),
        (("entailment", "not_entailment"), "entailment"),
        (("acceptable", "unacceptable"), "acceptable"),
        (("legitimate", "quarrel"), "quarrel"),
        (("是", "否"), "是"),
    ],
)
def test_a_name_that_says_so_is_the_positive_class_whatever_its_place_and_number(labels, positive):
    for counts in ((10, 90), (90, 10)):
        assert choose_positive(labels, counts).name == positive
        assert choose_positive(labels[::-1], counts).name == positive


def test_where_the_names_say_nothing_the_rarer_class_is_looked_for_and_of_many_classes_none():
    assert choose_positive(("fresh", "rotten"), (10, 90)).name == "fresh"
    assert choose_positive(("1", "2"), (10, 90)).name == "1"
    assert choose_positive(("fresh", "rotten"), (50, 50)).name == "rotten"
    assert choose_positive(("a", "b", "c"), (1, 2, 3)) is None
    assert choose_positive(("spam", "ham"), (1, 2), "ham").name == "ham"


def test_a_name_that_is_no_class_is_refused_with_a_suggestion():
    with pytest.raises(BertlineError, match=r"data.positive: there is no class 'rotton'; did you mean rotten\?"):
        choose_positive(("fresh", "rotten"), (1, 1), "rotton")
    with pytest.raises(BertlineError, match="of 3 classes none is the positive one"):
        choose_positive(("a", "b", "c"), (1, 1, 1), "a")
    with pytest.raises(ValueError, match="did you mean yes"):
        DataConfig(path="a.csv", labels=("no", "yes"), positive="yess")
    with pytest.raises(ValueError, match="in quotes"):
        DataConfig(path="a.csv", positive=True)
    assert DataConfig(path="a.csv", positive=1).positive == "1"


def test_f1_precision_and_recall_are_of_the_positive_class():
    label, chosen = np.asarray([0] * 6 + [1] * 4), np.asarray([0, 0, 0, 1, 1, 1, 1, 1, 1, 1])
    found = {
        place: scores(
            make("classification", {"": (label, np.eye(2)[chosen], np.ones(10))}, labels=("spam", "ham")).deciding(
                Decision(positive=place)
            )
        )
        for place in (0, 1, -1)
    }
    assert [found[0][name] for name in ("precision", "recall", "f1")] == pytest.approx([1, 3 / 6, 2 / 3])
    assert [found[1][name] for name in ("precision", "recall", "f1")] == pytest.approx([4 / 7, 1, 8 / 11])
    assert found[1] == found[-1]
    assert {found[place]["accuracy"] for place in found} == {0.7}


def test_kept_rows_say_how_their_model_decided_and_older_ones_decide_by_the_likeliest_class():
    task, decision = get_task("classification"), Decision(positive=0, threshold=0.2)
    text = Description.of(task, ("a", "b"), ("text",), decision).to_json()
    assert Description.from_json(text).decision == decision
    older = text.replace('"decision"', '"unknown"')
    assert Description.from_json(older).decision == Decision()


def test_the_threshold_of_the_positive_class_decides_what_is_counted():
    label = np.asarray([0, 0, 1, 1])
    shares = np.asarray([[0.3, 0.7], [0.1, 0.9], [0.2, 0.8], [0.0, 1.0]])
    rows = make("classification", {"": (label, shares, np.ones(4))}, labels=("spam", "ham"))
    assert confusion(rows).tolist() == [[0, 2], [0, 2]]
    assert confusion(rows.deciding(Decision(positive=0, threshold=0.15))).tolist() == [[1, 1], [1, 1]]


def test_the_answers_stay_the_same_where_the_other_class_is_looked_for():
    shares = np.random.default_rng(0).dirichlet([1, 1], 100)
    decision = Decision(positive=1, threshold=0.3)
    other = decision.looking_for(0)
    assert other.positive == 0 and (other.classes(shares) == decision.classes(shares)).all()
    assert decision.looking_for(-1) == decision and Decision().looking_for(0) == Decision(positive=0)


def test_a_baseline_has_a_threshold_of_its_own_where_the_model_has_one():
    chance = np.random.default_rng(0)
    true = (chance.random(400) < 0.1).astype(int)
    positive = np.clip(chance.normal(0.2 + 0.15 * true, 0.1), 0.01, 0.49)
    rows = make("classification", {"": (true, np.full((400, 2), 0.5), np.ones(400))}, labels=("ham", "spam"))
    predictions = {"": np.stack([1 - positive, positive], axis=1)}
    found = [
        of_predictions("tf-idf", rows.deciding(decision), predictions).score(np.ones(400, np.int64))["f1"]
        for decision in (Decision(), Decision(threshold=0.4))
    ]
    assert found[0] == 0 and found[1] > 0.4
