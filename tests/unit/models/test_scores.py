"""The scores agree with scikit-learn, scipy and seqeval on whatever comes, odd cases included."""

from __future__ import annotations

import math
import warnings

import entities
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics

from bertline.models.metrics import scores

ids = st.integers(1, 6).flatmap(
    lambda classes: st.lists(st.tuples(st.integers(0, classes - 1), st.integers(0, classes - 1)), min_size=1, max_size=60)
)


def confusion_of(rows, classes=6):
    counts = np.zeros((classes, classes))
    for true, predicted in rows:
        counts[true, predicted] += 1
    return counts


@given(ids)
@settings(max_examples=300, deadline=None)
def test_scores_of_classes_are_those_of_scikit_learn(rows):
    true, predicted = zip(*rows, strict=True)
    counts = confusion_of(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if len(set(true)) > 1:
            assert scores.matthews(counts) == pytest.approx(metrics.matthews_corrcoef(true, predicted), abs=1e-6)
            expected = metrics.f1_score(true, predicted, average="macro", zero_division=0)
            assert scores.macro_f1(counts) == pytest.approx(expected, abs=1e-6)
        else:
            assert math.isnan(scores.matthews(counts)) and math.isnan(scores.macro_f1(counts))
        expected = metrics.f1_score(true, predicted, average="micro", zero_division=0)
        assert scores.micro_f1(counts) == pytest.approx(expected, abs=1e-6)
        report = metrics.classification_report(true, predicted, labels=range(6), output_dict=True, zero_division=0)
    for label, found in scores.per_class(counts, [str(number) for number in range(6)]).items():
        expected = report[label]
        of_class = {"precision": expected["precision"], "recall": expected["recall"], "f1": expected["f1-score"]}
        if not expected["support"]:
            of_class = dict.fromkeys(of_class, math.nan)
        assert found == pytest.approx({**of_class, "rows": expected["support"]}, abs=1e-6, nan_ok=True)


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=60))
@settings(deadline=None)
def test_f1_of_two_classes_is_that_of_the_second(rows):
    true, predicted = zip(*rows, strict=True)
    expected = metrics.f1_score(true, predicted, zero_division=0) if len(set(true)) > 1 else math.nan
    assert scores.f1(confusion_of(rows, 2)) == pytest.approx(expected, abs=1e-6, nan_ok=True)


@pytest.mark.parametrize("counts", [[[99, 0], [0, 0]], [[0, 0], [0, 99]], [[90, 9], [0, 0]], [[0, 0], [0, 0]]])
def test_what_examples_of_one_class_cannot_measure_is_undefined(counts):
    for score in (scores.f1, scores.macro_f1, scores.matthews):
        assert math.isnan(score(np.asarray(counts)))


def test_a_class_that_is_never_predicted_counts_as_0_and_one_without_examples_is_undefined():
    counts = np.asarray([[8, 0, 1], [2, 0, 0], [0, 0, 0]])
    assert scores.macro_f1(counts) == pytest.approx((16 / 19 + 0 + 0) / 3)
    of_class = scores.per_class(counts.tolist(), ["a", "b", "c"])
    assert of_class["b"] == {"precision": 0.0, "recall": 0.0, "f1": 0.0, "rows": 2.0}
    assert math.isnan(of_class["c"]["f1"]) and of_class["c"]["rows"] == 0


def test_a_model_that_always_gives_one_answer_correlates_with_nothing():
    assert scores.matthews(np.asarray([[60, 0], [40, 0]])) == 0.0
    assert scores.matthews(np.asarray([[0, 40], [60, 0]])) == pytest.approx(-1.0)


def test_large_counts_do_not_overflow():
    counts = np.asarray([[3_000_000_000, 1], [1, 3_000_000_000]])
    assert scores.matthews(counts) == pytest.approx(1.0, abs=1e-6)


numbers = st.one_of(st.integers(-3, 3).map(float), st.floats(-1e6, 1e6))


@given(st.lists(st.tuples(numbers, numbers), min_size=2, max_size=60))
@settings(max_examples=300, deadline=None)
def test_correlations_are_those_of_scipy(rows):
    predicted, true = (np.asarray(column) for column in zip(*rows, strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scipy warns of constant input, where both have no number
        for score, reference in ((scores.pearson, stats.pearsonr), (scores.spearman, stats.spearmanr)):
            expected = reference(predicted, true).statistic
            found = score(predicted, true)
            assert (math.isnan(found) and math.isnan(expected)) or found == pytest.approx(expected, abs=1e-6)
    assert scores.mean_squared_error(predicted, true) == pytest.approx(
        metrics.mean_squared_error(true, predicted), rel=1e-9
    )


def test_fewer_than_two_values_correlate_with_nothing():
    assert math.isnan(scores.pearson(np.asarray([1.0]), np.asarray([2.0])))
    assert math.isnan(scores.spearman(np.asarray([]), np.asarray([])))
    assert math.isnan(scores.mean_squared_error(np.asarray([]), np.asarray([])))


LABELS = ["O", *(f"{letter}-{kind}" for letter in "BIES" for kind in ("PER", "creative-work"))]
tag_pairs = st.lists(st.lists(st.tuples(st.sampled_from(LABELS), st.sampled_from(LABELS)), max_size=10), max_size=12)


@given(tag_pairs)
@settings(max_examples=300, deadline=None)
def test_scores_of_entities_are_those_of_seqeval(sentences):
    true = [[tag for tag, _ in sentence] for sentence in sentences]
    answers = [[answer for _, answer in sentence] for sentence in sentences]
    found = scores.Entities.none(LABELS)
    for tags, given_tags in zip(true, answers, strict=True):
        found = found.add(given_tags, tags)
    names = ("EntityPrecision", "EntityRecall", "EntityF1")
    measured = [scores.OF_ENTITIES[name](found) for name in names]
    if any(tag != "O" for tags in true for tag in tags):
        assert measured == pytest.approx(entities.scores(true, answers), abs=1e-6)
    else:
        assert all(map(math.isnan, measured))  # nothing could be found, whatever is answered
    assert found.types == ("PER", "creative-work")
    for kind in found.types:
        expected = entities.scores(true, answers, kind)
        of_type = found.of_types()[kind]
        assert of_type["entities"] == sum(chunk[0] == kind for tags in true for chunk in entities.chunks(tags))
        expected = expected if of_type["entities"] else [math.nan] * 3
        measured = [of_type[name] for name in ("precision", "recall", "f1")]
        assert measured == pytest.approx(expected, abs=1e-6, nan_ok=True)
    words = [tag == answer for sentence in sentences for tag, answer in sentence]
    assert scores.OF_ENTITIES["WordAccuracy"](found) == pytest.approx(np.mean(words) if words else math.nan, nan_ok=True)


def test_a_word_whose_tag_is_unknown_counts_nowhere():
    found = scores.Entities.none(LABELS).add(["B-PER", "B-PER", "O"], ["B-PER", None, None])
    assert found.counts.tolist() == [[1, 1, 1], [0, 0, 0]] and (found.right, found.words) == (1, 1)


@given(tag_pairs)
@settings(max_examples=50, deadline=None)
def test_entities_add_up_however_the_parts_are_merged(sentences):
    def of(part):
        found = scores.Entities.none(LABELS)
        for sentence in part:
            found = found.add([answer for _, answer in sentence], [tag for tag, _ in sentence])
        return found

    whole, parts = of(sentences), of(sentences[::2]) + of(sentences[1::2])
    assert (whole.counts == parts.counts).all() and (whole.right, whole.words) == (parts.right, parts.words)


@given(st.integers(1, 5).flatmap(lambda c: st.lists(st.lists(st.integers(0, 3), min_size=c, max_size=c), min_size=1)))
@settings(deadline=None)
def test_scores_of_several_classes_a_row_are_those_of_scikit_learn(rows):
    drawn = np.asarray(rows)  # 0 to 3: neither, only true, only taken for true, both
    true, taken = drawn % 2, drawn // 2
    nothing = scores.Decisions.none(true.shape[1])
    sums = sum((scores.Decisions.of_row(*row) for row in zip(true, taken.astype(float), strict=True)), nothing)
    # scikit-learn takes a single column of 0 and 1 for two classes: beside one that is never anything it cannot.
    spare = np.zeros((len(drawn), 1), int)
    wide_true, wide_taken = np.hstack([true, spare]), np.hstack([taken, spare])
    labels = list(range(true.shape[1]))
    occur = [at for at in labels if true[:, at].any() or taken[:, at].any()]
    for score, average in ((scores.decisions_micro_f1, "micro"), (scores.decisions_macro_f1, "macro")):
        if true.any():
            expected = metrics.f1_score(wide_true, wide_taken, labels=occur, average=average, zero_division=0)
            assert score(sums) == pytest.approx(expected, abs=1e-6)
        else:
            assert math.isnan(score(sums))  # nothing could be found
    assert scores.subset_accuracy(sums) == pytest.approx(metrics.accuracy_score(wide_true, wide_taken), abs=1e-6)
    each = metrics.precision_recall_fscore_support(wide_true, wide_taken, labels=labels, zero_division=0)
    found = sums.of_classes([str(label) for label in labels])
    for at, label in enumerate(labels):
        expected = [float(column[at]) for column in each] if true[:, at].any() else [math.nan] * 3 + [0.0]
        assert list(found[str(label)].values()) == pytest.approx(expected, abs=1e-6, nan_ok=True)
