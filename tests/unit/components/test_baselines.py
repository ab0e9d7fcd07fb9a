"""Simple baselines of every task, on data so small that their answers can be worked out by hand."""

import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from made_rows import TASKS, make

from bertline.components.baselines.data import MIN_EXAMPLES, beside, read_examples
from bertline.components.baselines.features import Rarity, overlaps, words
from bertline.components.baselines.judgement import lost_to, standard_error
from bertline.components.baselines.measurement import Measured, measure_baselines
from bertline.components.baselines.scores import Baseline, of_predictions
from bertline.components.baselines.tasks.answering import nearest_span
from bertline.components.baselines.tasks.tagging import shape
from bertline.components.evaluator.predictions.rows import EvaluationPredictions, row_ids
from bertline.models.tasks.base.task import get_task, raw_features
from bertline.pipeline.config import EvaluationConfig

GOOD, BAD = "wonderful brilliant moving".split(), "dreadful boring clumsy".split()


def serialized(row):
    """Args: row: the values of each feature, as Ingest writes them."""
    example = tf.train.Example()
    for name, values in row.items():
        feature = example.features.feature[name]
        for value in values:
            if isinstance(value, str):
                feature.bytes_list.value.append(value.encode())
            else:
                kind = feature.int64_list if isinstance(value, int) else feature.float_list
                kind.value.append(value)
    return example.SerializeToString(deterministic=True)


def write(path, rows):
    with tf.io.TFRecordWriter(str(path), "GZIP") as writer:
        for row in rows:
            writer.write(serialized(row))
    return [str(path)]


def measured(tmp_path, task, train, evaluation, outputs, labels=(), keys=("text",)):
    """What the baselines come to; `outputs` are labels, the model's predictions and weights of the evaluation rows."""
    task = get_task(task)
    files = {name: write(tmp_path / f"{name}.gz", rows) for name, rows in (("train", train), ("evaluation", evaluation))}
    raw = raw_features(task, keys)
    examples = read_examples(files["evaluation"], raw)
    ids = row_ids({name: [one[name] for one in examples.features] for name in raw}, raw, len(examples))
    texts = {key: examples.lists(key) if key == "choices" else examples.texts(key) for key in keys}
    rows = make(task.name, outputs, texts, labels, ids)
    order = np.argsort(ids)  # as the Evaluator leaves them, which is not the order of the files
    return measure_baselines(task, rows.take(order), keys, **files)


def classified(words_of, count, labels=("bad", "good")):
    return [
        {"text": [f"the film is {words_of[row % 2][row % 3]} {row}"], "label": [labels[row % 2]]} for row in range(count)
    ]


def test_the_majority_and_tf_idf_are_measured_where_the_model_was(tmp_path):
    train = [*classified((BAD, GOOD), 60), *[{"text": ["boring"], "label": ["bad"]}] * 20]
    evaluation = [*classified((BAD, GOOD), 40), {"text": ["no class"], "label": []}]
    labels = np.asarray([row % 2 for row in range(40)] + [0])
    weights = np.asarray([1.0] * 40 + [0.0], np.float32)
    found = measured(
        tmp_path,
        "classification",
        train,
        evaluation,
        {"": (labels, np.tile([0.1, 0.9], (41, 1)), weights)},
        ("bad", "good"),
    )
    assert list(found.metrics) == ["majority", "tf-idf"] and not found.notes
    majority = found.metrics["majority"]
    assert majority["accuracy"] == 0.5 and majority["f1"] == 0.0
    shares = np.log([50 / 80, 30 / 80])
    assert majority["cross_entropy"] == pytest.approx(-shares.mean(), rel=1e-5)
    assert found.metrics["tf-idf"]["accuracy"] == 1.0
    assert 0 < found.seconds < 20


def test_characters_tell_chinese_texts_apart(tmp_path):
    train = [
        {"text": [f"这部电影{word}极了{row}"], "label": [label]}
        for row in range(20)
        for word, label in (("好看", "好"), ("无聊", "坏"))
    ]
    evaluation = [{"text": ["真好看"], "label": ["好"]}, {"text": ["太无聊"], "label": ["坏"]}]
    outputs = {"": (np.asarray([1, 0]), np.full((2, 2), 0.5), np.ones(2, np.float32))}
    assert measured(tmp_path, "classification", train, evaluation, outputs, ("坏", "好")).metrics["tf-idf"]["accuracy"] == 1


def test_pairs_are_told_apart_by_how_far_they_overlap(tmp_path):
    things = "cat dog bird horse cow pig".split()
    pairs = [(one, other) for one in things for other in things]
    rows = [
        {"text": [f"a {one} eats"], "text_2": [f"a {other} eats"], "label": ["same" if one == other else "other"]}
        for one, other in pairs
    ]
    labels = np.asarray([int(one == other) for one, other in pairs])
    outputs = {"": (labels, np.full((36, 2), 0.5), np.ones(36, np.float32))}
    found = measured(tmp_path, "classification", rows, rows, outputs, ("other", "same"), ("text", "text_2"))
    assert found.metrics["overlap"]["accuracy"] == 1.0 and found.metrics["majority"]["accuracy"] == pytest.approx(30 / 36)


def test_each_of_several_classes_is_learned_for_itself(tmp_path):
    def row(number):
        names = [name for at, name in enumerate(("action", "love", "never")) if number >> at & 1 and name != "never"]
        return {"text": [" ".join(["film", *names, str(number)])], "label": names}

    rows = [row(number) for number in range(40)]
    flags = np.asarray([[int(name in one["label"]) for name in ("action", "love", "never")] for one in rows])
    outputs = {"": (flags, np.full((40, 3), 0.5), np.ones(40, np.float32))}
    found = measured(tmp_path, "multilabel", rows, rows, outputs, ("action", "love", "never")).metrics
    assert found["tf-idf"]["micro_f1"] == 1.0 and found["tf-idf"]["subset_accuracy"] == 1.0
    assert found["majority"]["subset_accuracy"] == 0.25  # half of the rows have a class: too few to take it for granted


def test_numbers_have_their_mean_and_a_ridge_regression(tmp_path):
    stars = [1.0, 5.0] * 20
    train = [{"text": [f"{(BAD, GOOD)[number > 3][row % 3]} film"], "label": [number]} for row, number in enumerate(stars)]
    evaluation = [
        {"text": ["wonderful"], "label": [5.0]},
        {"text": ["boring"], "label": [2.0]},
        {"text": ["a"], "label": []},
    ]
    labels, ones = np.asarray([5.0, 2.0, 0.0]), np.asarray([1, 1, 0], np.float32)
    found = measured(tmp_path, "regression", train, evaluation, {"": (labels, np.zeros(3), ones)}).metrics
    assert found["mean"] == {"mean_squared_error": (2**2 + 1**2) / 2}  # a constant has no correlation
    assert found["tf-idf"]["pearson"] == pytest.approx(1.0)


def test_similar_texts_are_found_by_their_words(tmp_path):
    pairs = [("a cat eats", "a cat eats", 5.0), ("a cat eats", "a cat sleeps", 3.0), ("a cat eats", "two dogs", 0.0)] * 8
    rows = [{"text": [one], "text_2": [other], "label": [number]} for one, other, number in pairs]
    outputs = {"": (np.asarray([pair[2] for pair in pairs]), np.zeros(24), np.ones(24, np.float32))}
    found = measured(tmp_path, "similarity", rows, rows, outputs, keys=("text", "text_2")).metrics
    assert set(found) == {"tf-idf", "overlap"}  # the mean has no correlation
    assert found["overlap"]["spearman"] == pytest.approx(1.0)


def test_choices_have_a_place_and_an_overlap(tmp_path):
    rows = [
        {"text": ["the driver stopped the car"], "choices": ["a star", "the car stood", "green tea"], "label": [1]},
        {"text": ["she drank"], "choices": ["and drank tea", "the moon"], "label": [0]},
        {"text": ["it rains"], "choices": ["so it rains", "a dog", "a cow"], "label": [0]},
    ]
    label, zeros, ones = np.asarray([1, 0, 0]), np.zeros(3), np.ones(3, np.float32)
    outputs = {"right": (zeros, zeros, ones), "row_loss": (zeros, zeros, ones), "index": (label, label, ones)}
    found = measured(tmp_path, "choice", rows, rows, outputs, keys=("text", "choices")).metrics
    assert found == {"majority": {"accuracy": pytest.approx(2 / 3)}, "overlap": {"accuracy": 1.0}}


def test_a_lexicon_knows_words_and_what_they_look_like(tmp_path):
    tags = ("O", "B-PER", "B-LOC")
    train = [
        {"text": ["Ada met Bob in Rome"], "label": ["B-PER", "O", "B-PER", "O", "B-LOC"]},
        {"text": ["Eve saw Rome"], "label": ["B-PER", "O", "B-LOC"]},
    ]
    evaluation = [
        {"text": ["Zoe met Rome"], "label": ["B-PER", "O", "B-LOC"]},
        {"text": ["Ada ran"], "label": ["B-PER", "O"]},
    ]
    label = [[1, 0, 2], [1, 0, -1]]
    outputs = {"": (label, [[0, 0, 0]] * 2, np.ones(2, np.float32))}
    found = measured(tmp_path, "tagging", train, evaluation, outputs, tags).metrics
    assert found["lexicon"]["f1"] == 1.0 and found["lexicon"]["accuracy"] == 1.0
    assert found["majority"] == {"f1": 0.0, "precision": 0.0, "recall": 0.0, "accuracy": pytest.approx(2 / 5)}


def test_answers_are_looked_for_beside_the_words_of_the_question(tmp_path):
    text = "The tower was built by Eiffel. The river is blue. Many boats sail there."
    assert nearest_span("Who built the tower?", text, 1, Rarity(["the a", "the b"])) in ("by", "was")
    assert nearest_span("What colour is the river?", text, 1, Rarity([text, "The cat", "is the by"])) == "blue"
    assert nearest_span("?", "", 2, Rarity([])) == ""
    rows = [
        {"text": ["What colour is the river?"], "text_2": [text], "answers": ["blue"], "answer_starts": [43]},
        {"text": ["Who is the king?"], "text_2": [text], "answers": [], "answer_starts": []},
    ]
    outputs = {"": ([["blue"], [""]], ["", ""], np.ones(2, np.float32))}
    found = measured(tmp_path, "answering", rows, rows, outputs, keys=("text", "text_2")).metrics
    assert found["no answer"]["exact_match"] == 0.5 and found["no answer"]["no_answer_exact_match"] == 1.0
    assert found["window"]["has_answer_f1"] == 1.0


def test_a_translation_is_compared_with_its_source(tmp_path):
    rows = [
        {"text": ["Berlin ist schön"], "label": ["Berlin is nice"]},
        {"text": ["ok ok ok ok"], "label": ["ok ok ok ok"]},
    ]
    reference, zeros, ones = ["Berlin is nice", "ok ok ok ok"], np.zeros(2), np.ones(2, np.float32)
    outputs = {name: (reference, ["", ""], ones) for name in ("", "greedy")}
    outputs |= {name: (zeros, zeros, ones) for name in ("token_loss", "token_right")}
    (found,) = measured(tmp_path, "translation", rows, rows, outputs).metrics.values()
    assert set(found) == {"bleu", "chrf", "greedy_bleu", "greedy_chrf"} and 10 < found["bleu"] < 90


def test_a_search_by_tf_idf_finds_what_shares_rare_words(tmp_path):
    rows = [
        {"text": [f"question about {thing}"], "text_2": [f"an answer, {thing} that is"]} for thing in "cat dog cow".split()
    ]
    outputs = {"": (np.asarray([7, 8, 9]), np.zeros((3, 4)), np.ones(3, np.float32))}
    found = measured(tmp_path, "matching", rows, rows, outputs, keys=("text", "text_2")).metrics
    assert found == {"tf-idf": {"mrr": 1.0, "recall_at_1": 1.0, "recall_at_5": 1.0, "recall_at_10": 1.0}}


def test_a_task_without_a_simple_answer_says_so(tmp_path):
    found = measure_baselines(get_task("pretraining"), None, (), train=[], evaluation=[])
    assert found.metrics == {} and found.notes == ("The task pretraining has no simple baseline.",)


def test_texts_without_a_word_leave_the_majority(tmp_path):
    rows = [{"text": [" "], "label": [("a", "b")[row % 2]]} for row in range(4)]
    outputs = {"": (np.asarray([0, 1, 0, 1]), np.full((4, 2), 0.5), np.ones(4, np.float32))}
    assert list(measured(tmp_path, "classification", rows, rows, outputs, ("a", "b")).metrics) == ["majority"]


def test_examples_meet_the_models_rows_whatever_the_order_and_however_often_they_occur(tmp_path):
    task = get_task("classification")
    raw = raw_features(task, ("text",))
    rows = [{"text": [text], "label": ["a"]} for text in ("one", "two", "two", "three")]
    examples = read_examples(write(tmp_path / "rows.gz", rows), raw)
    names = row_ids({name: [one[name] for one in examples.features] for name in raw}, raw, 4)
    ids = [names[1], names[3], f"{names[1]}-2"]  # of the model, which has not seen `one`
    outputs = {"": (np.zeros(3, int), np.full((3, 1), 1.0), np.ones(3, np.float32))}
    kept, found = beside(examples, raw, make("classification", outputs, {"text": ["two", "three", "two"]}, ("a",), ids))
    assert kept.texts("text") == ["two", "two", "three"] == [row["text"] for row in found.texts]


def test_words_of_all_languages_are_counted():
    assert words("Don't 2nd 北京ok") == ["don", "t", "2nd", "北", "京", "ok"]
    assert shape("iPhone12") == "xXxd"
    (found,) = overlaps(["a b"], ["b c d e"]).tolist()
    assert found[:4] == pytest.approx([1 / 5, 1 / 2, 1 / 4, 2 / 4])


def judged(right_of_model, right_of_baseline, metric="accuracy", **told):
    """What a model is told that is right where it says so, beside a baseline."""
    count = len(right_of_model)
    label = np.arange(count) % 2
    shares = [np.eye(2)[np.where(right, label, 1 - label)] for right in (right_of_model, right_of_baseline)]
    rows = make("classification", {"": (label, shares[0], np.ones(count, np.float32))}, labels=("a", "b"))
    baseline = of_predictions("tf-idf", rows, {"": shares[1]})
    weak = Baseline("majority", lambda counts: {"accuracy": 0.0})
    metrics = {one.name: one.score(np.ones(count, np.int64)) for one in (weak, baseline)}
    settings = EvaluationConfig(thresholds={metric: 0.0, "matthews": 0.0})
    return lost_to(Measured((weak, baseline), metrics, rows), get_task("classification"), settings, **told)


def test_a_model_that_loses_to_a_baseline_is_told_by_how_much_and_what_to_try():
    (reason,) = judged(np.arange(100) < 13, np.arange(100) < 81)
    assert "accuracy 0.1300 is below 0.8100 of the baseline tf-idf on the same 100 examples" in reason
    assert "standard error of the difference, 0.0" in reason and "paired bootstrap" in reason
    assert reason.endswith(
        "; try a checkpoint (model.checkpoint), more epochs (training.epochs), or push anyway with"
        " evaluation.must_beat_baselines: false"
    )


def test_a_model_that_is_a_baseline_itself_loses_to_the_others_alone():
    assert judged(np.arange(100) < 13, np.arange(100) < 81, itself="tf-idf") == []
    assert judged(np.arange(100) < 13, np.arange(100) < 81, itself="majority") != []


def test_where_less_is_better_a_model_loses_by_more():
    (reason,) = judged(np.arange(100) < 13, np.arange(100) < 81, "cross_entropy")
    assert reason.startswith("cross_entropy ") and " is above " in reason
    assert judged(np.arange(100) < 81, np.arange(100) < 13, "cross_entropy") == []
    assert judged(np.arange(100) < 13, np.arange(100) < 81, "micro_f1") != []


def test_a_difference_within_its_standard_error_refuses_nothing():
    rows = np.arange(100)
    assert judged(rows < 80, rows < 80) == [] == judged(rows < 81, rows < 80)
    # Three rows are answered better, and 27 differ: the standard error is about five rows.
    assert judged(rows < 65, (rows >= 12) & (rows < 80)) == []
    assert judged(rows < 65, rows < 68) != []  # the same three rows, and no others


def test_a_small_evaluation_set_judges_nothing():
    assert judged(np.zeros(MIN_EXAMPLES - 1, bool), np.ones(MIN_EXAMPLES - 1, bool)) == []
    assert judged(np.zeros(MIN_EXAMPLES, bool), np.ones(MIN_EXAMPLES, bool)) != []


def test_the_standard_error_is_that_of_paired_differences():
    chance = np.random.default_rng(1)
    one, other = chance.random(400) < 0.7, chance.random(400) < 0.6

    def share(right):
        return lambda counts: {"accuracy": float(counts @ right / counts.sum())}

    expected = np.std(one.astype(float) - other) / np.sqrt(400)
    assert standard_error(share(one), share(other), "accuracy", 400) == pytest.approx(expected, rel=0.15)


def test_every_task_but_one_has_baselines():
    assert {name for name in TASKS if not get_task(name).evaluation.has("baselines")} == {"pretraining"}


def test_nothing_is_learned_before_it_is_asked_for():
    code = (
        "import bertline.components.baselines.judgement, bertline.pipeline.cli, "
        "bertline.pipeline.runs.record, sys; print('sklearn' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_rows_keep_their_labels_when_a_baseline_answers_them():
    from bertline.components.baselines.scores import answered

    rows = make("classification", {"": ([0, 1], np.eye(2), [1.0, 0.0])}, labels=("a", "b"))
    other = answered(rows, {"": np.eye(2)[::-1].copy()})
    assert isinstance(other, EvaluationPredictions) and other.ids == rows.ids
    assert other.label().tolist() == [0, 1] and other.weight().tolist() == [1.0, 0.0]
    assert other.prediction().argmax(axis=1).tolist() == [1, 0]
