"""Our metrics inside TFMA: combined by Beam over every slice, they are scikit-learn's, scipy's, seqeval's, SQuAD's."""

import entities
import numpy as np
import pytest
import tf_keras
from scipy import stats
from sklearn import metrics as sklearn_metrics
from squad_reference import official_scores
from tensorflow_model_analysis.metrics import metric_types

from bertline.components.evaluator.metrics import ClassMean, Score


def measure(metrics, labels, predictions, weights):
    """The metrics' values by name, computed as TFMA does, over parts that Beam merges."""
    computations = [c for metric in metrics for c in metric.computations(example_weighted=True)]
    combined = [c for c in computations if isinstance(c, metric_types.MetricComputation)]
    found = {}
    parts = np.array_split(np.arange(len(labels)), 7)
    for computation in combined:
        combiner = computation.combiner
        accumulators = []
        for part in parts:
            accumulator = combiner.create_accumulator()
            for row in part:
                element = metric_types.StandardMetricInputs(
                    label=np.atleast_1d(labels[row]),
                    prediction=np.asarray(predictions[row]),
                    example_weight=np.asarray([weights[row]]),
                )
                accumulator = combiner.add_input(accumulator, element)
            accumulators.append(accumulator)
        merged = combiner.merge_accumulators(accumulators)
        found |= combiner.extract_output(merged)
    for computation in computations:
        if isinstance(computation, metric_types.DerivedMetricComputation):
            found |= computation.result(found)
    return {key.name: value for key, value in found.items() if not key.name.startswith("_")}


@pytest.mark.parametrize("classes", [2, 5])
def test_scores_of_classes_are_exact_however_the_parts_are_merged(classes):
    chance = np.random.default_rng(classes)
    labels = chance.integers(classes, size=500)
    shares = chance.dirichlet(np.ones(classes), size=500) + 0.5 * np.eye(classes)[labels]
    weights = (chance.random(500) > 0.2).astype(float)
    kept, predicted = weights > 0, shares.argmax(axis=1)
    found = measure(
        [Score(name, name, [str(label) for label in range(classes)]) for name in ("Matthews", "MacroF1", "MicroF1", "F1")],
        labels,
        shares,
        weights,
    )
    true, answer = labels[kept], predicted[kept]
    assert found["Matthews"] == pytest.approx(sklearn_metrics.matthews_corrcoef(true, answer), abs=1e-6)
    assert found["MacroF1"] == pytest.approx(sklearn_metrics.f1_score(true, answer, average="macro"), abs=1e-6)
    assert found["MicroF1"] == pytest.approx(sklearn_metrics.f1_score(true, answer, average="micro"), abs=1e-6)
    last = sklearn_metrics.f1_score(true, answer, average=None)[-1]
    assert found["F1"] == pytest.approx(last, abs=1e-6)


def test_means_over_classes_are_those_of_keras_for_shares_of_0_too_and_by_the_weights():
    chance = np.random.default_rng(3)
    labels = chance.integers(4, size=300)
    shares = chance.dirichlet(np.full(4, 0.3), size=300).astype(np.float32)
    shares[:40] = np.eye(4)[chance.integers(4, size=40)]  # sure of one, and often of a wrong one
    weights = chance.integers(3, size=300).astype(float)
    names = ("SparseCategoricalAccuracy", "SparseCategoricalCrossentropy")
    found = measure([ClassMean(name, name) for name in names], labels, shares, weights)
    for name in names:
        metric = getattr(tf_keras.metrics, name)()
        metric.update_state(labels[:, np.newaxis], shares, weights)
        assert found[name] == pytest.approx(float(metric.result()), rel=1e-6, abs=1e-6)
    unweighted = measure([ClassMean(names[1], names[1])], labels, shares, np.zeros(300))
    assert np.isnan(unweighted[names[1]])  # Keras says 0, as if every answer were right


def test_scores_of_values_are_exact_and_rows_without_weight_do_not_count():
    chance = np.random.default_rng(1)
    labels = np.round(chance.normal(3, 2, size=400), 1)
    predictions = labels + chance.normal(0, 1, size=400)
    weights = (chance.random(400) > 0.2).astype(float)
    labels[weights == 0] = np.nan  # a row without a label has no weight
    kept = weights > 0
    names = ("Pearson", "Spearman", "MeanSquaredError")
    found = measure([Score(name, name, []) for name in names], labels, predictions[:, np.newaxis], weights)
    true, answer = labels[kept], predictions[kept]
    assert found["Pearson"] == pytest.approx(stats.pearsonr(true, answer).statistic, abs=1e-6)
    assert found["Spearman"] == pytest.approx(stats.spearmanr(true, answer).statistic, abs=1e-6)
    assert found["MeanSquaredError"] == pytest.approx(sklearn_metrics.mean_squared_error(true, answer), abs=1e-6)


def test_scores_of_entities_are_exact_whatever_the_rows_are_filled_up_to():
    chance = np.random.default_rng(2)
    names = ["O", "B-a", "I-a", "B-b", "I-b"]
    lengths = chance.integers(1, 12, size=300)
    true = [chance.integers(5, size=length) for length in lengths]
    given = [np.where(chance.random(len(tags)) < 0.7, tags, chance.integers(5, size=len(tags))) for tags in true]
    weights = (chance.random(300) > 0.2).astype(float)

    def filled(tags, filling, to):
        return np.concatenate([tags, np.full(max(0, to - len(tags)), filling)])

    scores = ("EntityPrecision", "EntityRecall", "EntityF1", "WordAccuracy")
    found = measure(
        [Score(name, name, names) for name in scores],
        [filled(tags, -1, 12) for tags in true],
        [filled(tags, 0, 15) for tags in given],
        weights,
    )
    kept = [row for row in range(300) if weights[row] > 0]
    tags, answers = ([[names[tag] for tag in rows[row]] for row in kept] for rows in (true, given))
    expected = entities.scores(tags, answers)
    assert [found[name] for name in scores[:3]] == pytest.approx(expected, abs=1e-6)
    right = np.concatenate([true[row] == given[row] for row in kept])
    assert found["WordAccuracy"] == pytest.approx(right.mean(), abs=1e-6)
    for kind in "ab":
        of_type = [found[f"class/{kind}/{score}"] for score in ("precision", "recall", "f1")]
        assert of_type == pytest.approx(entities.scores(tags, answers, kind), abs=1e-6)


def test_scores_of_answers_are_the_official_ones_and_rows_without_weight_do_not_count():
    chance = np.random.default_rng(2)
    words = ["the", "cat", "Café", "北京", "🎬", "a", "dog."]

    def phrase():
        return " ".join(chance.choice(words, size=chance.integers(1, 4)))

    right = [[phrase() for _ in range(chance.integers(0, 4))] for _ in range(300)]
    answers = [chance.choice([phrase(), "", *golds]) for golds in right]
    weights = (chance.random(300) > 0.2).astype(float)
    # As the graph gives them: bytes, with empty texts after the last one.
    labels = [np.asarray([[text.encode() for text in golds] + [b""] * (4 - len(golds))], object) for golds in right]
    predictions = [np.asarray(answer.encode(), object) for answer in answers]
    names = ("ExactMatch", "AnswerF1", "HasAnswerExactMatch", "HasAnswerF1", "NoAnswerExactMatch")
    found = measure([Score(name, name, []) for name in names], labels, predictions, weights)
    rows = [(*official_scores(answer, golds), bool(golds)) for answer, golds in zip(answers, right, strict=True)]
    exact, f1, answerable = (np.asarray(column)[weights > 0] for column in zip(*rows, strict=True))
    expected = [exact.mean(), f1.mean(), exact[answerable].mean(), f1[answerable].mean(), exact[~answerable].mean()]
    assert [found[name] for name in names] == pytest.approx(expected, abs=1e-6)
    assert len(set(expected)) == 5


def test_a_score_of_no_rows_is_no_number():
    found = measure([Score("NoAnswerExactMatch", "NoAnswerExactMatch", [])], [], [], [])
    assert np.isnan(found["NoAnswerExactMatch"])


def test_scores_of_several_classes_a_row_are_exact():
    chance = np.random.default_rng(2)
    true = chance.integers(2, size=(300, 4))
    shares = np.clip(0.6 * true + chance.random((300, 4)) * 0.6, 0, 1)
    taken = shares > 0.5
    names = ("DecisionsMicroF1", "DecisionsMacroF1", "SubsetAccuracy", "DecisionsCrossEntropy")
    labels = ["a", "b", "c", "d"]
    found = measure([Score(name, name, labels) for name in names], true, shares, np.ones(300))
    for average, name in (("micro", "DecisionsMicroF1"), ("macro", "DecisionsMacroF1")):
        expected = sklearn_metrics.f1_score(true, taken, average=average)
        assert found[name] == pytest.approx(expected, abs=1e-6)
    assert found["SubsetAccuracy"] == pytest.approx(sklearn_metrics.accuracy_score(true, taken), abs=1e-6)
    right = np.clip(np.where(true > 0, shares, 1 - shares), 1e-7, 1)
    assert found["DecisionsCrossEntropy"] == pytest.approx(-np.log(right).mean(), abs=1e-6)
    of_each = sklearn_metrics.f1_score(true, taken, average=None)
    assert [found[f"class/{label}/f1"] for label in labels] == pytest.approx(of_each, abs=1e-6)
