"""Each row's outcome says what was expected, what was answered, and how bad it is."""

import numpy as np
import pytest
from made_rows import CLASSES, TAGS, TASKS, make, random_predictions
from sacrebleu import sentence_chrf

from bertline.components.evaluator.predictions.outcomes import Outcome, flips, outcomes, worst
from bertline.pipeline.config import CHOICES

ONES = np.ones(3)
HALVES = [0.5, 0.25, 0.25]


def of(task, outputs, texts=None, labels=()):
    return outcomes(make(task, outputs, texts, labels))


def test_classes():
    found = of("classification", {"": ([0, 2, 1], [HALVES] * 3, [1, 1, 0])}, labels=CLASSES)
    assert found == [
        Outcome(True, 0.5, "bad", "bad 0.50"),
        Outcome(False, 0.75, "good", "bad 0.50"),
        Outcome(None, 0.0, "(no label)", "bad 0.50"),
    ]


def test_several_classes():
    found = of("multilabel", {"": ([[1, 0, 1], [0, 0, 0]], [[1.0, 0.0, 0.25]] * 2, ONES[:2])}, labels=CLASSES)
    assert found == [Outcome(False, 0.25, "bad, good", "bad"), Outcome(False, 1.25 / 3, "(nothing)", "bad")]


def test_numbers():
    assert of("regression", {"": ([1.0, 2.5], [1.5, 2.5], ONES[:2])}) == [
        Outcome(None, 0.5, "1", "1.5"),
        Outcome(None, 0.0, "2.5", "2.5"),
    ]


def test_similar_texts_are_judged_by_their_place_in_the_order():
    found = of("similarity", {"": ([0.0, 5.0, 3.0], [0.1, 0.2, 0.9], ONES)})
    assert [outcome.badness for outcome in found] == pytest.approx([0, 1 / 3, 1 / 3])
    assert found[1][2:] == ("5", "cosine 0.200")


def test_choices_are_told_by_their_texts():
    outputs = {
        "right": ([0, 0], [1.0, 0.0], [1, 1]),
        "row_loss": ([0, 0], [0.0, np.log(4)], [1, 1]),
        "index": ([0, 1], [0, 0], [1, 1]),
    }
    found = of("choice", outputs, {"text": ["a", "b"], CHOICES: [["x"], ["y", "z"]]})
    assert found[0] == Outcome(True, 0.0, "x", "x")
    assert found[1] == (False, pytest.approx(0.75), "z", "y")


def test_entities_are_told_by_their_words():
    texts = {"text": ["Ada Byron in Rome", "a b", "c d"]}
    label = [[1, 2, 0, 3], [0, 0, -1, -1], [0, -1, -1, -1]]
    answer = [[1, 2, 0, 0], [0, 1, 0, 0], [0, 1, 0, 0]]
    found = of("tagging", {"": (label, answer, ONES)}, texts, TAGS)
    assert found[0] == (False, pytest.approx(1 / 3), "PER Ada Byron; LOC Rome", "PER Ada Byron")
    assert found[1] == Outcome(False, 1.0, "(nothing)", "PER b")
    assert found[2][:3] == (True, 0.0, "(nothing)")  # a word whose tag is not known does not count


def test_answers():
    found = of("answering", {"": ([["the cat", "cat"], [""]], ["a cat sat", ""], ONES[:2])})
    assert found[0] == (False, pytest.approx(1 / 3), "the cat | cat", "a cat sat")
    assert found[1] == Outcome(True, 0.0, "(no answer)", "(no answer)")


def test_a_translation_is_better_or_worse_and_never_right_or_wrong():
    references, given = ["The cat sat.", "one", "", "🎬 a"], ["The cat ran.", "one", "", ""]
    outputs = {"": (references, given, np.ones(4)), "greedy": (references, references, np.ones(4))}
    numbers = {name: (np.zeros(4), np.zeros(4), np.ones(4)) for name in ("token_loss", "token_right")}
    found = of("translation", {**outputs, **numbers})
    chrf = sentence_chrf("The cat ran.", ["The cat sat."]).score
    assert found[0] == (None, pytest.approx(1 - chrf / 100, abs=1e-9), "The cat sat.", "The cat ran.") and 0 < chrf < 100
    assert found[1] == Outcome(None, 0.0, "one", "one")
    assert found[2] == Outcome(None, 0.0, "(nothing)", "(nothing)")
    assert found[3] == Outcome(None, 1.0, "🎬 a", "(nothing)")


def test_a_search_tells_what_was_found_instead():
    vectors = [[1, 0, 1, 0], [0.9, 0.1, 0, 1], [0, -1, 0, -1]]  # of the first text, and of the second
    texts = {"text": ["p", "q", "r"], "text_2": ["one", "two", "three"]}
    found = of("matching", {"": ([1, 2, 3], vectors, ONES)}, texts)
    assert found[0] == Outcome(True, 0.0, "one", "one") and found[2].right
    assert found[1] == Outcome(False, 0.5, "two", "one (its own at rank 2)")


@pytest.mark.parametrize("task", TASKS)
def test_the_worst_come_first_with_their_texts(task):
    rows = random_predictions(task, 60)
    found = worst(rows, 7)
    badness = [mistake.outcome.badness for mistake in found]
    assert len(found) == 7 and badness == sorted(badness, reverse=True) and badness[-1] > 0
    every = outcomes(rows)
    assert badness[0] == max(outcome.badness for outcome in every if outcome.right is not True)
    for mistake in found:
        row = rows.ids.index(mistake.id)
        assert mistake.texts == rows.texts[row] and mistake.outcome == every[row] and mistake.outcome.right is not True


@pytest.mark.parametrize("task", TASKS)
def test_flips_are_the_rows_on_which_two_models_differ(task):
    one, other = random_predictions(task, 60), random_predictions(task, 60, seed=4, skill=0.9)
    found = flips(one, other.take(np.arange(59, -1, -1)))
    back = flips(other, one)
    assert [flip.id for flip in found.worse] == [flip.id for flip in back.better] and found.better
    before, after = outcomes(one), outcomes(other)
    for flip in (*found.worse, *found.better):
        row = one.ids.index(flip.id)
        assert (flip.before, flip.after, flip.texts) == (before[row], after[row], one.texts[row])
    if before[0].right is not None:
        turned = [(was.right, became.right) for was, became in zip(before, after, strict=True)]
        assert (turned.count((True, False)), turned.count((False, True))) == (len(found.worse), len(found.better))
    assert flips(one, one) == ([], [])
