"""Scores of evaluation examples are those of scikit-learn, scipy, seqeval's rules and SQuAD's, and their intervals
scipy's."""

import entities
import numpy as np
import pytest
import sacrebleu
from made_rows import TAGS, TASKS, make, random_predictions
from scipy import stats
from sklearn import metrics as sklearn_metrics
from squad_reference import official_scores

from bertline.components.evaluator.predictions.scores import bootstrap, scores
from bertline.pipeline.core.errors import BertlineError

close = pytest.approx


def test_classification_is_scikit_learns_and_rows_without_weight_do_not_count():
    rows = random_predictions("classification", 500)
    kept = rows.weight() > 0
    true, shares = rows.label()[kept], rows.prediction()[kept]
    given = shares.argmax(axis=1)
    assert scores(rows) == close(
        {
            "accuracy": sklearn_metrics.accuracy_score(true, given),
            "macro_f1": sklearn_metrics.f1_score(true, given, average="macro"),
            "micro_f1": sklearn_metrics.f1_score(true, given, average="micro"),
            "matthews": sklearn_metrics.matthews_corrcoef(true, given),
            "cross_entropy": sklearn_metrics.log_loss(true, shares),
        },
        abs=1e-6,
    )
    two = make("classification", {"": (true % 2, shares[:, :2], np.ones(len(true)))}, labels=("no", "yes"))
    expected = sklearn_metrics.f1_score(true % 2, shares[:, :2].argmax(axis=1))
    assert scores(two)["f1"] == close(expected, abs=1e-6)


def test_a_share_of_nothing_costs_what_it_costs_in_keras():
    rows = make("classification", {"": ([0], [[0.0, 1.0]], [1.0])}, labels=("no", "yes"))
    assert scores(rows)["cross_entropy"] == close(-np.log(1e-7), abs=1e-5)


@pytest.mark.parametrize("task", ["regression", "similarity"])
def test_numbers_are_scipys(task):
    rows = random_predictions(task, 400)
    kept = rows.weight() > 0
    true, given = rows.label()[kept], rows.prediction()[kept]
    found = scores(rows)
    assert found["pearson"] == close(stats.pearsonr(true, given).statistic, abs=1e-6)
    assert found["spearman"] == close(stats.spearmanr(true, given).statistic, abs=1e-6)
    if task == "regression":
        assert found["mean_squared_error"] == close(sklearn_metrics.mean_squared_error(true, given), abs=1e-6)


def test_several_classes_a_row_are_scikit_learns():
    rows = random_predictions("multilabel", 400)
    true, shares = rows.label(), rows.prediction()
    right = np.clip(np.where(true > 0, shares, 1 - shares), 1e-7, 1)
    assert scores(rows) == close(
        {
            "micro_f1": sklearn_metrics.f1_score(true, shares > 0.5, average="micro"),
            "macro_f1": sklearn_metrics.f1_score(true, shares > 0.5, average="macro"),
            "subset_accuracy": sklearn_metrics.accuracy_score(true, shares > 0.5),
            "cross_entropy": -np.log(right).mean(),
        },
        abs=1e-6,
    )


def test_choices_and_guesses_are_means_by_their_weights():
    rows = random_predictions("choice", 300)
    weights = rows.weight("right")
    assert scores(rows) == close(
        {
            "accuracy": np.average(rows.label("index") == rows.prediction("index"), weights=weights),
            "cross_entropy": np.average(rows.prediction("row_loss"), weights=weights),
        },
        abs=1e-6,
    )
    rows = random_predictions("pretraining", 300)
    weights = rows.weight("guess_loss")
    loss = np.average(rows.prediction("guess_loss"), weights=weights)
    assert scores(rows) == close(
        {
            "mlm_accuracy": np.average(rows.prediction("guess_right"), weights=weights),
            "mlm_loss": loss,
            "perplexity": np.exp(loss),
            "nsp_accuracy": np.mean(rows.prediction("follows").argmax(axis=1) == rows.label("follows")),
        },
        abs=1e-6,
    )


def test_a_search_is_measured_by_the_place_of_the_own_text_among_all():
    rows = random_predictions("matching", 120, skill=2.0)
    questions, candidates = np.split(rows.prediction(), 2, axis=1)
    places = []
    for row, question in enumerate(questions):
        near = [question @ candidate for candidate in candidates]
        places.append(1 + sum(other > near[row] for other in near))
    places = np.asarray(places)
    expected = {"mrr": np.mean(1 / places)} | {f"recall_at_{most}": np.mean(places <= most) for most in (1, 5, 10)}
    assert scores(rows) == close(expected, abs=1e-6) and len(set(expected.values())) == 4


def test_entities_are_those_of_seqevals_rules():
    rows = random_predictions("tagging", 300)
    true, given = [], []
    for label, answer, weight in zip(rows.label(), rows.prediction(), rows.weight(), strict=True):
        if weight:
            true.append([TAGS[tag] for tag in label[:-1]])  # -1 stands after the last
            given.append([TAGS[tag] for tag in answer[:-1]])
    precision, recall, f1 = entities.scores(true, given)
    accuracy = np.mean([one == other for row in zip(true, given, strict=True) for one, other in zip(*row, strict=True)])
    expected = {"f1": f1, "precision": precision, "recall": recall, "accuracy": accuracy}
    assert scores(rows) == close(expected, abs=1e-6)


def test_answers_are_scored_as_by_squads_own_evaluation():
    rows = random_predictions("answering", 300)
    golds = [[text for text in row if text] for row in rows.label()]
    found = [(*official_scores(answer, right), bool(right)) for answer, right in zip(rows.prediction(), golds, strict=True)]
    exact, f1, some = (np.asarray(column) for column in zip(*found, strict=True))
    assert scores(rows) == close(
        {
            "f1": f1.mean(),
            "exact_match": exact.mean(),
            "has_answer_f1": f1[some].mean(),
            "has_answer_exact_match": exact[some].mean(),
            "no_answer_exact_match": exact[~some].mean(),
        },
        abs=1e-6,
    )


def test_translations_are_scored_as_by_sacrebleu_and_tokens_by_their_weights():
    rows = random_predictions("translation", 300)
    kept = np.flatnonzero(rows.weight() > 0)
    references = [rows.label()[row] for row in kept]
    texts = {of: [rows.prediction(of)[row] for row in kept] for of in ("", "greedy")}
    tokens = rows.weight("token_loss")
    loss = np.average(rows.prediction("token_loss"), weights=tokens)
    assert len(kept) < 300 and scores(rows) == close(
        {
            "bleu": sacrebleu.corpus_bleu(texts[""], [references]).score,
            "chrf": sacrebleu.corpus_chrf(texts[""], [references]).score,
            "greedy_bleu": sacrebleu.corpus_bleu(texts["greedy"], [references]).score,
            "greedy_chrf": sacrebleu.corpus_chrf(texts["greedy"], [references]).score,
            "cross_entropy": loss,
            "perplexity": np.exp(loss),
            "token_accuracy": np.average(rows.prediction("token_right"), weights=tokens),
        },
        abs=1e-9,
    )


@pytest.mark.parametrize("task", TASKS)
def test_rows_that_are_chosen_twice_count_twice(task):
    rows = random_predictions(task, 150)
    chosen = np.random.default_rng(3).integers(150, size=200)
    if task == "matching":  # what is searched stays the same
        assert scores(rows, np.tile(np.arange(150), 2)) == close(scores(rows))
    else:
        assert scores(rows, chosen) == close(scores(rows.take(chosen)), abs=1e-9)
    assert scores(rows, chosen) != scores(rows)


def scipys_interval(statistic, count):
    """Of a function of places of rows, drawn as ours are."""
    found = stats.bootstrap(
        (np.arange(count),),
        statistic,
        vectorized=False,
        method="percentile",
        n_resamples=1000,
        random_state=np.random.default_rng(0),
    ).confidence_interval
    return found.low, found.high


def test_intervals_of_classes_are_scipys_also_of_a_difference_on_the_same_rows():
    pair = [random_predictions("classification", 400, seed, skill) for seed, skill in ((1, 0.3), (2, 0.5))]
    kept = pair[0].weight() > 0
    right = [rows.prediction().argmax(axis=1) == rows.label() for rows in pair]

    def accuracy(of, drawn):
        return of[drawn][kept[drawn]].mean()

    alone = bootstrap(pair[0])["accuracy"]
    assert alone.one[1:] == close(scipys_interval(lambda drawn: accuracy(right[0], drawn), 400), abs=1e-9)
    assert alone.other is None and alone.difference is None
    found = bootstrap(*pair)["accuracy"]
    assert found.one == alone.one
    assert found.difference.value == close(accuracy(right[1], np.arange(400)) - accuracy(right[0], np.arange(400)))
    both = scipys_interval(lambda drawn: accuracy(right[1], drawn) - accuracy(right[0], drawn), 400)
    assert found.difference[1:] == close(both, abs=1e-9)


def test_intervals_of_numbers_are_scipys_also_of_a_difference_on_the_same_rows():
    pair = [random_predictions("regression", 300, seed, skill) for seed, skill in ((1, 0.3), (2, 0.5))]
    kept = pair[0].weight() > 0

    def pearson(rows, drawn):
        drawn = drawn[kept[drawn]]
        return stats.pearsonr(rows.label()[drawn], rows.prediction()[drawn]).statistic

    found = bootstrap(*pair)["pearson"]
    assert found.one[1:] == close(scipys_interval(lambda drawn: pearson(pair[0], drawn), 300), abs=1e-9)
    both = scipys_interval(lambda drawn: pearson(pair[1], drawn) - pearson(pair[0], drawn), 300)
    assert found.difference[1:] == close(both, abs=1e-9)


def test_about_as_many_intervals_as_said_hold_the_truth():
    truth, inside = 0.7, []
    for seed in range(120):
        right = np.random.default_rng(seed).random(150) < truth
        shares = np.stack([right, ~right], axis=1).astype(float)
        rows = make("classification", {"": (np.zeros(150, int), shares, np.ones(150))}, labels=("no", "yes"))
        interval = bootstrap(rows, draws=100, seed=seed, level=0.9)["accuracy"].one
        inside.append(interval.low <= truth <= interval.high)
    assert 0.82 <= np.mean(inside) <= 0.96


@pytest.mark.parametrize("task", TASKS)
def test_a_seed_gives_the_same_intervals_and_a_model_does_not_differ_from_itself(task):
    rows, other = random_predictions(task, 80), random_predictions(task, 80, seed=5)
    first = bootstrap(rows, other, draws=30, seed=1)
    assert first == bootstrap(rows, other, draws=30, seed=1) != bootstrap(rows, other, draws=30, seed=2)
    assert list(first) == list(rows.description.metrics)
    same = bootstrap(rows, rows, draws=30)
    assert all(spread.difference == (0, 0, 0) and spread.one == spread.other for spread in same.values())


def test_a_score_of_rows_that_there_are_none_of_is_no_number():
    rows = make("answering", {"": ([["a"], ["b"]], ["a", "c"], [1.0, 1.0])})
    found = bootstrap(rows, draws=10)
    assert np.isnan(found["no_answer_exact_match"].one).all() and found["exact_match"].one.value == 0.5


def test_runs_without_a_row_in_common_are_refused():
    one, other = random_predictions("regression", 10), random_predictions("regression", 10)
    other = make(
        "regression", {"": (other.label(), other.prediction(), other.weight())}, ids=[f"x{row}" for row in range(10)]
    )
    with pytest.raises(BertlineError, match="no evaluation examples in common"):
        bootstrap(one, other)
