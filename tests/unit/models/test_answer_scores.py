"""Scores of answers: SQuAD's official rules, written out a second time in `squad_reference.py`."""

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from squad_reference import official_scores

from bertline.models.metrics.scores import OF_ANSWERS
from bertline.models.metrics.squad import best_threshold, exact_match, f1

WORDS = "the The a an A. cat CAT dog, “dog” l'an théâtre 北京 北-京 1,000 1000 🎬 ... — an-the İstanbul the\u0301".split(
    " "
)
ANSWERS = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join) | st.text(max_size=12)


@given(answer=ANSWERS, right=st.lists(ANSWERS, max_size=4))
def test_scores_are_those_of_the_official_rules(answer, right):
    exact, overlap = official_scores(answer, right)
    assert exact_match(answer, right) == exact
    assert f1(answer, right) == pytest.approx(overlap, abs=1e-12)


@pytest.mark.parametrize(
    ("answer", "right", "exact", "overlap"),
    [
        ("The cat.", ["dog", "cat"], 1, 1),
        ("a black cat", ["the cat"], 0, 2 / 3),
        ("cat cat", ["cat"], 0, 2 / 3),
        ("", [], 1, 1),
        ("cat", [], 0, 0),
        ("", ["cat"], 0, 0),
        ("the", ["…", "a"], 0, 0),
        ("北京", ["北 京"], 0, 0),
    ],
)
def test_examples(answer, right, exact, overlap):
    assert (exact_match(answer, right), f1(answer, right)) == pytest.approx((exact, overlap))


def test_questions_with_and_without_an_answer_are_told_apart():
    assert OF_ANSWERS["HasAnswerF1"]("cat", []) is None and OF_ANSWERS["HasAnswerF1"]("cat", ["cat"]) == 1
    assert OF_ANSWERS["NoAnswerExactMatch"]("cat", ["cat"]) is None and OF_ANSWERS["NoAnswerExactMatch"]("", []) == 1


def test_the_threshold_gives_the_highest_score_of_all_thresholds():
    chance = random.Random(0)
    for count in itertools.chain(range(1, 8), [50] * 20):
        margins = [chance.choice([-2.0, -1.0, 0.0, 0.5, 3.0, chance.gauss(0, 2)]) for _ in range(count)]
        answerable = [chance.random() < 0.6 for _ in range(count)]
        scores = [chance.choice([0, 0.4, 1]) if known else 0 for known in answerable]
        rows = list(zip(margins, scores, answerable, strict=True))
        best = max(total(rows, threshold) for threshold in (-math.inf, *margins))
        assert total(rows, best_threshold(margins, scores, answerable)) == pytest.approx(best)


def total(rows, threshold):
    return sum(score if margin <= threshold else not known for margin, score, known in rows)
