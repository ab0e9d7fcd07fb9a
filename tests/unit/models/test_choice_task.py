"""Multiple choice: every ending is scored as if its pair stood alone, and a row's shares are among its own endings."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from wordpiece import VOCAB, write_vocab

from bertline.components.ingest.choices import EMPTY_CHOICE, NOT_A_CHOICE, NOT_A_LIST
from bertline.components.ingest.readers.records import BadRow, Row, make_row
from bertline.components.ingest.rows import FEW_CHOICES, MISSING_LABEL, sort_example
from bertline.models.data.batching import Batch, Corpus, batches, padded
from bertline.models.encoders.bert.backbone import Encoder, EncoderSize
from bertline.models.tasks.base.task import Context, check_texts, get_task
from bertline.models.tokenization.tokenizer import TextEncoder
from bertline.pipeline.config import CHOICES, DataConfig
from bertline.pipeline.core.errors import BertlineError
from bertline.serving.export.saved_model import ServedModel

TASK = get_task("choice")
TEXTS = ["the cafe", "un", "a b c the"]
ENDINGS = [["abc", "the un a", "cafe"], ["the the", "a"], ["un", "b", "c", "the cafe a b"]]


@pytest.fixture(scope="module")
def context(tmp_path_factory):
    text = TextEncoder(write_vocab(tmp_path_factory.mktemp("vocab"), VOCAB), seq_len=16)
    return Context(text, (), text_keys=("text", CHOICES))


@pytest.fixture(scope="module")
def model(context):
    size = EncoderSize(vocab_size=len(VOCAB), layers=2, hidden=8, heads=2, intermediate=16)
    made = TASK.model.build(Encoder(size, seed=3), context, 0.0, 3)
    made.head.kernel.assign(made.head.kernel * 50)  # so that scores differ visibly
    return made


def columns(labels=(2, 0, 3)):
    return {
        "text": tf.constant(TEXTS),
        CHOICES: tf.ragged.constant(ENDINGS),
        "label": tf.constant(labels, tf.int64),
    }


def score_alone(model, context, text, ending):
    """The score of one pair, packed by itself and read without blocks."""
    tokens = ({"token_ids": context.text.tokenize(tf.constant([part]))} for part in (text, ending))
    pair = {name: ragged.to_tensor() for name, ragged in context.text.pack(*tokens).items()}
    first = model.encoder(pair["token_ids"], pair["segment_ids"])
    return float(model.head(model.encoder.pool(first))[0, 0])


def test_an_ending_is_scored_as_if_its_pair_stood_alone(model, context):
    batch = padded(TASK.preprocessing.features(columns(), context))
    scores = model(batch).numpy()
    assert scores.shape == (3, 4) and batch["token_ids"].shape == batch["blocks"].shape
    for row, (text, endings) in enumerate(zip(TEXTS, ENDINGS, strict=True)):
        alone = [score_alone(model, context, text, ending) for ending in endings]
        np.testing.assert_allclose(scores[row, : len(endings)], alone, atol=1e-5)


def test_of_two_texts_the_second_begins_every_ending(model, context):
    two = Context(context.text, (), text_keys=("text", "text_2", CHOICES))
    given = columns() | {"text_2": tf.constant(["b", "the un", ""])}
    scores = model(padded(TASK.preprocessing.features(given, two))).numpy()
    assert scores[0, 1] == pytest.approx(score_alone(model, context, "the cafe", "b the un a"), abs=1e-5)
    assert scores[2, 3] == pytest.approx(score_alone(model, context, "a b c the", "the cafe a b"), abs=1e-5)


def test_loss_and_shares_are_those_of_a_rows_own_endings(model, context):
    batch = padded(TASK.preprocessing.features(columns(), context))
    scores = model(batch)
    loss, right = TASK.objective.loss(scores, batch).numpy(), TASK.objective.accuracy(scores, batch).numpy()
    for row, (endings, label) in enumerate(zip(ENDINGS, (2, 0, 3), strict=True)):
        own = scores[row, : len(endings)].numpy()
        shares = np.exp(own) / np.exp(own).sum()
        assert loss[row] == pytest.approx(-np.log(shares[label]), abs=1e-5)
        assert right[row] == (shares.argmax() == label)
    measured = TASK.evaluation.measure(scores, batch, context)
    np.testing.assert_array_equal(measured["right"], right)
    np.testing.assert_allclose(measured["row_loss"], loss)


def test_a_step_changes_every_weight_of_the_head_and_the_last_layer(model, context):
    batch = padded(TASK.preprocessing.features(columns(), context))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(TASK.objective.loss(model(batch, training=True), batch))
    weights = [model.head.kernel.value, model.encoder.layers[-1].expand.kernel.value, model.encoder.pooler.kernel.value]
    assert all(np.abs(gradient).max() > 0 for gradient in tape.gradient(loss, weights))


def test_the_signature_answers_the_index_the_ending_and_the_shares(model, context):
    served = ServedModel(TASK, context, model)
    most = max(map(len, ENDINGS))
    filled = [[*endings, *[""] * (most - len(endings))] for endings in ENDINGS]
    answer = {name: value.numpy() for name, value in served.predict(tf.constant(TEXTS), tf.constant(filled)).items()}
    scores = model(padded(TASK.preprocessing.features(columns(), context))).numpy()
    np.testing.assert_array_equal(answer["index"], scores.argmax(axis=1))
    assert [choice.decode() for choice in answer["choice"]] == [ENDINGS[row][at] for row, at in enumerate(answer["index"])]
    np.testing.assert_allclose(answer["probabilities"].sum(axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(answer["probabilities"] == 0, np.asarray(filled) == "")
    line = TASK.serving.response.readable({name: value[1] for name, value in answer.items()})
    assert line.startswith(f"{answer['choice'][1].decode()}  {answer['probabilities'][1].max():.3f}")


@pytest.mark.parametrize("endings", [[["", ""]], [[]]])
def test_a_request_without_endings_is_answered_with_none(model, context, endings):
    given = tf.reshape(tf.constant(endings, tf.string), [1, len(endings[0])])
    answer = ServedModel(TASK, context, model).predict(tf.constant(["the cafe"]), given)
    assert answer["index"].numpy().tolist() == [-1] and answer["choice"].numpy().tolist() == [b""]
    assert (
        TASK.serving.response.readable({name: value.numpy()[0] for name, value in answer.items()})
        == "there is nothing to choose from"
    )


def example(text, endings, labels):
    made = tf.train.Example()
    made.features.feature["text"].bytes_list.value.append(text.encode())
    made.features.feature[CHOICES].bytes_list.value.extend(ending.encode() for ending in endings)
    if labels:
        made.features.feature["label"].int64_list.value.extend(labels)
    return made.SerializeToString()


def test_examples_are_measured_as_they_are_trained_and_a_row_without_a_label_has_no_weight(model, context):
    records = [example(text, endings, label) for text, endings, label in zip(TEXTS, ENDINGS, ([2], [0], []), strict=True)]
    records.append(example("un", [], [1]))  # nothing to choose from
    served = ServedModel(TASK, context, model)
    targets = served.evaluation_targets(tf.constant(records))
    assert targets["label_weight"].numpy().tolist() == [1, 1, 0, 0]
    batch = padded(TASK.preprocessing.features(columns(), context))
    measured = served.predict_examples(tf.constant(records))
    np.testing.assert_allclose(measured["row_loss"][:2], TASK.objective.loss(model(batch), batch)[:2], atol=1e-5)
    assert np.isfinite(measured["row_loss"]).all()


def test_batches_are_planned_by_the_length_of_whole_rows_and_filled_up_without_effect(model, context):
    features = TASK.preprocessing.features(columns(), context)
    others = {name: features[name] for name in ("segment_ids", "blocks", "positions", "firsts")}
    tokens = features["token_ids"]
    corpus = Corpus(tokens.flat_values.numpy(), tokens.row_splits.numpy(), {"label_id": np.asarray([2, 0, 3])}, others)
    longest = int(corpus.lengths.max())
    (batch,) = batches(corpus, [Batch(np.arange(3), longest + 4)], 4)
    scores = model(batch)
    expected = model(padded(features))
    np.testing.assert_allclose(scores[:3], expected, atol=1e-5)
    assert batch["weight"].numpy()[3] == 0 and np.isfinite(TASK.objective.loss(scores, batch)).all()


# What becomes of a row

CODAH = DataConfig(path="a.tsv", text="prompt", choices=("a", "b", "c", "d"), label="answer")


def fate(data=CODAH, **values):
    return sort_example(Row("a.tsv", 7, {"prompt": "He", **values}), data, "train", (), "index")


def test_a_row_keeps_its_choices_in_order_and_its_label_as_an_index():
    kept = fate(a="ran", b="sat down", c="ate", d="left", answer="1")
    assert kept.features == {"text": "He", CHOICES: ("ran", "sat down", "ate", "left"), "label": 1, "words": 6}
    assert kept.missing == ()
    assert fate(a="ran", b="sat", c=None, d=None, answer="0").features[CHOICES] == ("ran", "sat")


@pytest.mark.parametrize(("answer", "first", "index"), [("0", 0, 0), ("4", 1, 3), (" c ", 0, 2), ("B", 1, 1), ("d", 0, 3)])
def test_the_right_one_is_named_by_number_letter_or_column(answer, first, index):
    data = CODAH.model_copy(update={"first_choice": first})
    assert fate(data, a="1", b="2", c="3", d="4", answer=answer).features["label"] == index


def test_a_column_of_lists_holds_as_many_choices_as_it_likes():
    data = DataConfig(path="a.jsonl", text="ctx", choices="endings", label="label")
    given = {"ctx": "He", "endings": ["ran", "sat", 3], "label": 2}
    row = make_row("a.jsonl", 1, given, list(given), list_columns=data.choice_columns)
    assert sort_example(row, data, "train", (), "index").features[CHOICES] == ("ran", "sat", "3")


@pytest.mark.parametrize(
    ("data", "values", "kind", "part"),
    [
        (CODAH, {"a": "x", "b": "y", "c": "z", "d": None, "answer": "3"}, NOT_A_CHOICE, "none of the 3 choices"),
        (CODAH, {"a": "x", "b": "y", "answer": "x"}, NOT_A_CHOICE, "numbered from 0 (data.first_choice)"),
        (CODAH, {"a": "x", "b": None, "c": "z", "answer": "0"}, EMPTY_CHOICE, "choice 2 of 3 is empty"),
        (
            CODAH.model_copy(update={"choices": "a"}),
            {"a": "not a list", "answer": "0"},
            NOT_A_LIST,
            "column 'a' is not a list",
        ),
    ],
)
def test_a_row_that_cannot_be_chosen_from_is_bad_by_its_place(data, values, kind, part):
    bad = fate(data, **values)
    assert isinstance(bad, BadRow) and bad.kind == kind and part in bad.reason and bad.place == "a.tsv:7"


def test_a_row_with_fewer_than_two_choices_or_no_label_is_incomplete():
    assert fate(a="only", answer="0").missing == (FEW_CHOICES,)
    assert CHOICES not in fate(a="only", answer="0").features
    assert fate(a="x", b="y", answer=" ").missing == (MISSING_LABEL,)
    quarantined = fate(CODAH.model_copy(update={"incomplete": "quarantine"}), a="only", answer="0")
    assert quarantined.kind == FEW_CHOICES and "a, b, c, d" in quarantined.reason


def test_a_config_names_choices_exactly_where_the_task_chooses():
    check_texts(TASK, ["text", "text_2", CHOICES])
    with pytest.raises(BertlineError, match="data.choices: the task choice needs the columns"):
        check_texts(TASK, ["text"])
    with pytest.raises(BertlineError, match="data.choices: the task classification does not choose"):
        check_texts(get_task("classification"), ["text", CHOICES])
    for wrong, part in (
        ({"choices": ["a"]}, "two columns or more"),
        ({"choices": ["a", "a"]}, "each column once"),
        ({"choices": ["a", "label"]}, "`choices` and `label` name the same column"),
        ({"choices": ["a", "text"]}, "`choices` and `text` name the same column"),
    ):
        with pytest.raises(ValueError, match=part):
            DataConfig(path="a.csv", **wrong)
