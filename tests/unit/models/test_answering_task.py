"""Span QA: targets by exact offsets, windows, and the answer, against plain Python."""

from __future__ import annotations

import random
import unicodedata
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from squad_reference import choose, windows_of
from wordpiece import SENTENCES, VOCAB, reference_tokens, write_vocab

from bertline.models.data.batching import padded
from bertline.models.encoders.bert.backbone import Encoder, EncoderSize
from bertline.models.heads.spans import NEVER
from bertline.models.tasks.base.task import Context, get_task
from bertline.models.tasks.graphs import answering
from bertline.models.tasks.graphs.answering import THRESHOLD
from bertline.models.tokenization.tokenizer import TextEncoder
from bertline.serving.export.saved_model import ServedModel

TASK = get_task("answering")
SEQ_LEN, STEP = 24, 5
QUESTIONS = ["abc?", "the cafe, the un?", "", "a b c d e f g h i j k l m n o p"]


@pytest.fixture(scope="module", autouse=True)
def small_steps():
    """Windows that overlap, over texts of a few words."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answering, "STEP", STEP)
        patch.setattr(answering, "MAX_QUESTION", 8)
        yield


@pytest.fixture(scope="module")
def context(tmp_path_factory):
    text = TextEncoder(write_vocab(tmp_path_factory.mktemp("vocab"), VOCAB), seq_len=SEQ_LEN)
    return Context(text, (), text_keys=("text", "text_2"))


def make_model(context):
    size = EncoderSize(vocab_size=len(VOCAB), layers=1, hidden=8, heads=2, intermediate=16)
    return TASK.model.build(Encoder(size, seed=3), context, 0.0, 3)


def make_rows(seed, count=12):
    chance = random.Random(seed)
    words = [word for sentence in SENTENCES if len(sentence) < 200 for word in sentence.split(" ")]
    rows = []
    for _ in range(count):
        text = chance.choice((" ", "\r\n", "  ")).join(chance.choices(words, k=chance.randint(0, 30)))
        answers = []
        for _ in range(chance.randint(0, 3)):
            begin = chance.randrange(len(text) + 1)
            answer = text[begin : begin + chance.randint(1, 20)]
            if answer.strip():
                answers.append((answer, begin))
        rows.append((chance.choice(QUESTIONS), text, answers))
    return rows


def columns(rows):
    return {
        "text": tf.constant([question for question, _, _ in rows]),
        "text_2": tf.constant([text for _, text, _ in rows]),
        "answers": tf.ragged.constant([[text for text, _ in answers] for *_, answers in rows], tf.string, ragged_rank=1),
        "answer_starts": tf.ragged.constant([[at for _, at in answers] for *_, answers in rows], tf.int64, ragged_rank=1),
    }


def tokens_in(text):
    """Where the tokens stand, each with the combining marks that follow it."""

    def over_marks(end):
        while end < len(text) and unicodedata.category(text[end]).startswith("M"):
            end += 1
        return end

    return [(token.start, over_marks(token.end)) for token in reference_tokens(text, True, VOCAB)]


def question_length(question):
    return min(len(tokens_in(question)), 8)


def windows_in(row):
    return windows_of(len(tokens_in(row[1])), question_length(row[0]), SEQ_LEN, STEP)


@pytest.mark.parametrize("seed", range(5))
def test_windows_learn_the_first_answer_by_its_exact_characters(context, seed):
    rows = make_rows(seed)
    found = answering.expand(TASK.preprocessing.features(columns(rows), context), context, True)
    expected = []
    for question, text, answers in rows:
        offsets = tokens_in(text)
        begin, end = (answers[0][1], answers[0][1] + len(answers[0][0])) if answers else (0, 0)
        touched = [at for at, (first, last) in enumerate(offsets) if first < end and last > begin]
        for window in windows_in((question, text)):
            held = [at for at in touched if window.begin <= at < window.begin + window.length]
            whole = held and held == touched
            shift = window.offset - window.begin
            expected.append((held[0] + shift, held[-1] + shift) if whole else (0, 0))
    assert list(zip(found["start_position"].numpy(), found["end_position"].numpy(), strict=True)) == expected
    assert set(found) == {"token_ids", "segment_ids", "start_position", "end_position"}  # nothing of a text is kept
    assert max(len(ids) for ids in found["token_ids"].to_list()) <= SEQ_LEN


@pytest.mark.parametrize("threshold", [None, -3.0, 0.0, 3.0])
@pytest.mark.parametrize("seed", range(4))
def test_the_answer_is_the_one_of_the_original_rules(context, seed, threshold):
    rows = make_rows(seed)
    batch = padded(answering.expand(TASK.preprocessing.request(columns(rows), context), context, False))
    chance = np.random.default_rng(seed)
    # Coarse scores, so that many are equal.
    scores = {side: np.round(chance.normal(size=batch["token_ids"].shape) * 2, 1).astype(np.float32) for side in "se"}
    masked = {side: tf.where(batch["mask"], values, NEVER) for side, values in scores.items()}
    tuned = {} if threshold is None else {THRESHOLD: threshold}
    given = TASK.serving.signature({"start": masked["s"], "end": masked["e"]}, batch, replace(context, tuned=tuned))
    given = {name: value.numpy() for name, value in given.items()}
    assert {len(value) for value in given.values()} == {len(rows)}
    of_row, lengths = batch["window_rows"].numpy(), batch["mask"].numpy().sum(axis=1)
    for number, row in enumerate(rows):
        windows = np.flatnonzero(of_row == number)
        of_windows = ([scores[side][window, : lengths[window]] for window in windows] for side in "se")
        expected = choose(row[1], tokens_in(row[1]), windows_in(row), *of_windows, threshold=threshold)
        assert given["answer"][number].decode() == expected.answer
        assert (given["start"][number], given["end"][number]) == (expected.start, expected.end)
        assert row[1][given["start"][number] : given["end"][number]] == expected.answer
        assert given["score"][number] == pytest.approx(expected.score, abs=1e-5)
        shown = given["n_best_scores"][number] > 0
        assert [text.decode() for text in given["n_best"][number][shown]] == [text for text, _ in expected.n_best]
        assert given["n_best_scores"][number][shown] == pytest.approx([score for _, score in expected.n_best], abs=1e-5)
        spans = (given[name][number] for name in ("n_best", "n_best_starts", "n_best_ends"))
        for text, begin, end in zip(*spans, strict=True):
            assert row[1][begin:end] == text.decode()


def test_bytes_that_are_no_text_are_counted_as_python_does(context):
    raw = b"\xf0\x9f\x8e\xac caf\xc3\xa9 \xff\xe4\xb8 abc \xc3 the"
    asked = {"text": tf.constant(["abc?"]), "text_2": tf.constant([raw])}
    batch = padded(answering.expand(TASK.preprocessing.request(asked, context), context, False))
    places = batch["places"].numpy()[0]
    text = raw.decode("utf-8", "replace")
    for first in np.flatnonzero(places):
        scores = np.where(np.arange(len(places)) == first, 9.0, 0.0)[np.newaxis].astype(np.float32)
        given = TASK.serving.signature({"start": scores, "end": scores}, batch, context)
        begin, end = int(given["start"][0]), int(given["end"][0])
        assert given["answer"][0].numpy().decode("utf-8", "replace") == text[begin:end]


def test_the_loss_is_the_mean_of_both_cross_entropies_and_padding_has_no_share(context):
    model, rows = make_model(context), make_rows(1)
    windows = answering.expand(TASK.preprocessing.features(columns(rows), context), context, True)
    batch, wider = padded(windows), padded(windows, SEQ_LEN + 7)
    outputs = model(batch)
    losses = TASK.objective.loss(outputs, batch).numpy()
    for number, length in enumerate(batch["mask"].numpy().sum(axis=1)):
        expected = 0.0
        for side in ("start", "end"):
            scores = outputs[side].numpy()[number, :length]
            expected += np.log(np.exp(scores).sum()) - scores[int(batch[f"{side}_position"][number])]
        assert losses[number] == pytest.approx(expected / 2, rel=1e-4)
    np.testing.assert_allclose(TASK.objective.loss(model(wider), wider), losses, rtol=1e-4)


def test_a_window_is_right_if_both_ends_are(context):
    outputs = {"start": tf.constant([[0.0, 5, 1], [0, 5, 1]]), "end": tf.constant([[0.0, 1, 5], [0, 5, 1]])}
    batch = {"start_position": tf.constant([1, 1]), "end_position": tf.constant([2, 2])}
    assert TASK.objective.accuracy(outputs, batch).numpy().tolist() == [1, 0]


def example(question, text, answers=()):
    def feature(values):
        if values and isinstance(values[0], int):
            return tf.train.Feature(int64_list=tf.train.Int64List(value=values))
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.encode() for value in values]))

    lists = {"text": [question], "text_2": [text]}
    if answers:
        lists |= {"answers": [text for text, _ in answers], "answer_starts": [at for _, at in answers]}
    made = {name: feature(values) for name, values in lists.items()}
    return tf.train.Example(features=tf.train.Features(feature=made)).SerializeToString()


def test_the_signatures_take_question_and_context_and_answer_row_by_row(context):
    served, rows = ServedModel(TASK, context, make_model(context)), make_rows(2)
    signature = served.predict.get_concrete_function().structured_input_signature[0]
    assert [spec.name for spec in signature] == ["question", "context"]
    asked = columns(rows)
    answers = served.predict(asked["text"], asked["text_2"])
    alone = [served.predict(asked["text"][at : at + 1], asked["text_2"][at : at + 1]) for at in range(len(rows))]
    assert answers["answer"].numpy().tolist() == [answer["answer"].numpy()[0] for answer in alone]
    records = tf.constant([example(*row) for row in rows])
    assert served.predict_examples(records)["answer"].numpy().tolist() == answers["answer"].numpy().tolist()
    targets = served.evaluation_targets(records)
    right = [[text.decode() for text in row if text] for row in targets["answers"].numpy().tolist()]
    assert right == [[text for text, _ in answers] for *_, answers in rows]
    assert targets["row_weight"].numpy().tolist() == [1.0] * len(rows)
    tokens = served.tokenize(asked["text"], asked["text_2"])
    assert tokens["lengths"].numpy().tolist() == [
        question_length(question) + len(tokens_in(text)) + 3 for question, text, _ in rows
    ]
    empty = served.predict(tf.constant([], tf.string), tf.constant([], tf.string))
    assert {value.shape[0] for value in empty.values()} == {0}


def test_no_answer_is_tuned_only_where_some_rows_have_none(context):
    model, rows = make_model(context), make_rows(3, 20)
    features = TASK.preprocessing.features(columns(rows), context)
    tuned = TASK.evaluation.tune(TASK, model, context, [features])
    assert list(tuned) == [THRESHOLD] and np.isfinite(tuned[THRESHOLD])
    answered = [row for row in rows if row[2]]
    assert 0 < len(answered) < len(rows)
    assert TASK.evaluation.tune(TASK, model, context, [TASK.preprocessing.features(columns(answered), context)]) == {}


def test_an_answer_is_readable():
    given = {
        "answer": "the 🎬\r\nfilm".encode(), "start": 4, "end": 14, "score": 0.75, "margin": -1.0,
        "n_best": ["the 🎬\r\nfilm".encode(), b"", b"film", b""], "n_best_scores": [0.75, 0.2, 0.05, 0.0],
        "n_best_starts": [4, 0, 10, 0], "n_best_ends": [14, 0, 14, 0],
    }  # fmt: skip
    assert TASK.serving.response.readable(given) == "the 🎬 film  0.750  at 4-14   |   (no answer) 0.200  film 0.050"
    assert TASK.serving.response.readable({**given, "answer": b"", "score": 0.2}).startswith(
        "(no answer)  0.200   |   the 🎬 film 0.750"
    )
