"""Explanations: what words add is complete, attention is whole, and both belong to the words that a person wrote."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import tensorflow as tf
from explained_models import answers_of, asked_of, context_of, explainer_of, explaining_of, model_of
from tiny_models import EVERY, Tiny
from wordpiece import SENTENCES, VOCAB, words_of

from bertline.models.adapters.pruning import prune
from bertline.models.data.batching import TOKENS, padded
from bertline.models.explain.exported import ONLY, read_by_model
from bertline.models.explain.gradients import integrate
from bertline.models.explain.request import Request
from bertline.models.explain.rollout import rollout
from bertline.models.tasks.base.task import get_task
from bertline.pipeline.core.errors import BertlineError

ONE_TEXT = EVERY[0]
ONE_OF_EACH = (ONE_TEXT, *{tiny.task: tiny for tiny in EVERY}.values())
"""One of each task; where a row may have one text or two, it has two."""


def named(tiny: Tiny) -> str:
    return f"{tiny.task}-{len(tiny.texts)}"


@pytest.fixture(scope="module", autouse=True)
def eagerly():
    """Tracing a graph takes longer than all that is asked of it here; those of exports are asked in tests/integration."""
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.fixture(scope="module")
def explained(tmp_path_factory):
    """(tiny, crf) -> its task, context, model and explainer."""

    @cache
    def made(tiny: Tiny, crf: bool = False):
        task, context = get_task(tiny.task), context_of(tiny, tmp_path_factory.mktemp("vocab"), crf=crf)
        model = model_of(task, context)
        return task, context, model, explainer_of(task, context, model, asked_of(tiny))

    return made


def test_gradients_are_asked_for_where_a_score_bends():
    found = integrate(lambda at: (at**3, np.stack([2 * at**2, at**2], axis=1)))
    np.testing.assert_allclose(found.added, [2 / 3, 1 / 3], atol=1e-12)
    assert found.is_complete and found.gradients == 37

    def kinked(at):  # as a ReLU is: it begins to rise, steeply, at a place that no rule knows
        return 300 * np.maximum(at - 0.317, 0), 300.0 * (at > 0.317)[:, np.newaxis]

    found = integrate(kinked)
    assert found.is_complete and found.gradients < 1000
    np.testing.assert_allclose(found.added, [300 * 0.683], atol=1e-3)


def test_an_error_that_stays_is_told():
    found = integrate(lambda at: (np.floor(at * 2.2), np.zeros((at.size, 1))), limit=200)  # jumps, which no gradient sees
    assert not found.is_complete and found.error == pytest.approx(-2) and 200 <= found.gradients < 400


def test_rollout_is_the_share_of_every_way_through_the_layers():
    random = np.random.default_rng(0)
    layers = [random.dirichlet(np.ones(4), (2, 4)) for _ in range(3)]
    mixed = [[[(heads[:, i, j].mean() + (i == j)) / 2 for j in range(4)] for i in range(4)] for heads in layers]
    expected = np.zeros((4, 4))
    for last in range(4):
        for b in range(4):
            for a in range(4):
                for first in range(4):
                    expected[last, first] += mixed[2][last][b] * mixed[1][b][a] * mixed[0][a][first]
    np.testing.assert_allclose(rollout(layers), expected, atol=1e-12)
    np.testing.assert_allclose(rollout(layers).sum(axis=1), 1)
    np.testing.assert_allclose(rollout([*layers, np.zeros((0, 4, 4))]), expected)  # a layer that lost all its heads


@pytest.fixture(scope="module")
def explanation(explained):
    """(tiny) -> why it answers `asked_of(tiny)` so."""

    @cache
    def found(tiny: Tiny):
        *_, explainer = explained(tiny)
        return explainer.explain(asked_of(tiny))

    return found


@pytest.mark.parametrize("tiny", ONE_OF_EACH, ids=named)
def test_words_are_complete_and_attention_is_whole(explanation, tiny):
    found = explanation(tiny)
    assert found.notes == () or tiny.task == "tagging"  # its text is read in windows
    assert len(found.attributions) == {"answering": 2, "tagging": 2}.get(tiny.task, 1)
    for attribution in found.attributions:
        change = attribution.found.score - attribution.found.baseline
        assert abs(attribution.words).max() > 1e-2, "a score that no word changes shows nothing"
        assert abs(attribution.words.sum() - change) < 1e-3
        special = np.isin(attribution.reading.tokens, ["[CLS]", "[SEP]", "[MASK]"])
        assert (attribution.tokens[special] == 0).all() and (attribution.tokens[~special] != 0).all()
    for attention in found.attentions.values():
        for layer in attention.layers:
            assert layer.shape == (2, len(attention.looking), len(attention.looked_at))
            np.testing.assert_allclose(layer.sum(axis=-1), 1, atol=1e-5)
    np.testing.assert_allclose(found.rollout.sum(axis=1), 1, atol=1e-5)
    assert set(found.attentions) == ({"encoder", "decoder", "source"} if tiny.task == "translation" else {"encoder"})


@pytest.mark.parametrize("tiny", [tiny for tiny in ONE_OF_EACH if tiny.task != "translation"], ids=named)
def test_the_opened_model_gives_the_served_answer(explained, tiny):
    task, context, model, explainer = explained(tiny)
    request = Request(asked_of(tiny), task, replace(context, places=True))
    inside = explainer._inside
    outputs = dict(inside.run(inside.embed(request.batch[TOKENS]), request.batch))
    given = task.serving.signature(outputs.get(ONLY, outputs), request.everything, context)
    for name, expected in answers_of(task, context, model, asked_of(tiny)).items():
        found, expected = np.asarray(given[name].numpy()[0]), np.asarray(expected)
        if found.dtype.kind == "f":
            np.testing.assert_allclose(found, expected, atol=1e-6)
        else:
            assert np.array_equal(found, expected), name


@pytest.mark.parametrize("tiny", ONE_OF_EACH, ids=named)
def test_places_change_no_token(explained, tiny):
    task, context, *_ = explained(tiny)
    texts = asked_of(tiny)
    columns = {
        key: tf.constant([text] if isinstance(text, bytes) else [list(text)])
        for key, text in zip(context.text_keys, texts.values(), strict=True)
    }
    plain, placed = (task.preprocessing.request(columns, replace(context, places=places)) for places in (False, True))
    assert set(plain) < set(placed)
    for name, value in plain.items():
        if isinstance(value, tf.RaggedTensor):
            assert value.to_list() == placed[name].to_list(), name
        else:
            assert np.array_equal(value, placed[name]), name


@pytest.mark.parametrize("text", [text for text in SENTENCES if words_of(text, True) and len(text) < 200])
def test_pieces_are_summed_to_the_words_of_the_text(explained, text):
    task, context, *_ = explained(ONE_TEXT)
    wide = replace(context, places=True, text=context.text)
    context.text.seq_len, before = 400, context.text.seq_len
    try:
        row = Request({"text": text.encode()}, task, wide).row(0)
    finally:
        context.text.seq_len = before
    assert [(word.shown, word.start, word.end) for word in row.reading.words] == [
        (text[start:end], start, end) for _, start, end in words_of(text, True)
    ]
    ones = np.ones(len(row.reading.tokens))
    assert row.reading.of_words(ones).sum() == len(row.reading.tokens) - 2  # [CLS] and [SEP] are of no word


def test_padding_is_looked_at_by_no_one_and_adds_nothing(explained):
    task, context, model, explainer = explained(ONE_TEXT)
    texts = tf.constant(["the cafe", "the cafe un abc a b c"])
    batch = read_by_model(padded(task.preprocessing.request({"text": texts}, context)))
    inside = explainer._inside
    together = inside.attend(batch)["weights"]["encoder"]
    alone = explainer.explain({"text": b"the cafe"}).attentions["encoder"]
    for layer, own in zip(together, alone.layers, strict=True):
        assert layer.shape[-1] == 9 and (layer[0, :, :4, 4:].numpy() == 0).all()
        np.testing.assert_allclose(layer[0, :, :4, :4], own, atol=1e-6)
    vectors = inside.embed(batch[TOKENS])
    with tf.GradientTape() as tape:
        tape.watch(vectors)
        scores = inside.run(vectors, batch)[ONLY]
    gradient = tape.gradient(scores, vectors).numpy()
    assert (gradient[0, 4:] == 0).all() and (gradient[0, :4] != 0).any()


def test_another_answer_than_that_given_is_explained_when_it_is_asked_for(explained):
    *_, explainer = explained(ONE_TEXT)
    found = {label: explainer.explain({"text": b"the cafe"}, label=label).attributions[0] for label in ("bad", "good")}
    assert found["bad"].name == "bad" and found["bad"].found.score != found["good"].found.score
    with pytest.raises(BertlineError, match="--label 'worse': the model knows no such class; there are bad, good"):
        explainer.explain({"text": b"the cafe"}, label="worse")
    with pytest.raises(BertlineError, match="--word: a model of the task classification answers for the whole text"):
        explainer.explain({"text": b"the cafe"}, word="cafe")
    with pytest.raises(BertlineError, match="no word in the text"):
        explainer.explain({"text": b" "})
    with pytest.raises(BertlineError, match="more than 100,000 characters"):
        explainer.explain({"text": b"a" * 100_001})


def test_baselines_differ_in_where_the_way_begins_and_not_in_where_it_ends(explained):
    *_, explainer = explained(ONE_TEXT)
    found = [
        explainer.explain({"text": b"the cafe"}, baseline=name).attributions[0].found for name in ("pad", "mask", "zero")
    ]
    assert len({one.baseline for one in found}) == 3
    np.testing.assert_allclose([one.score for one in found], found[0].score, atol=1e-5)
    assert all(one.is_complete for one in found)


def tiny_of(task: str, texts: int = 1) -> Tiny:
    return next(tiny for tiny in EVERY if tiny.task == task and len(tiny.texts) >= texts)


@pytest.mark.parametrize("crf", [False, True])
def test_the_tag_of_a_word_is_explained_by_its_log_odds(explained, crf):
    tiny = tiny_of("tagging")
    task, context, model, explainer = explained(tiny, crf)
    if crf:
        model.transitions.assign(np.random.default_rng(0).normal(size=(3, 3)) / 5)
    text = {"text": b"the cafe un"}
    found = explainer.explain(text, word="cafe", label="B-PER").attributions[0]
    assert found.name == "cafe as B-PER" and found.found.is_complete
    batch = padded(
        task.preprocessing.expand(
            task.preprocessing.request({"text": tf.constant([b"the cafe un"])}, context), context, False
        )
    )
    outputs = model(batch)
    scores, moves = outputs["scores"][0].numpy(), outputs.get("transitions", np.zeros((3, 3)))
    ways = np.zeros((3, 3, 3))  # every way to tag three words
    for a, b, c in np.ndindex(3, 3, 3):
        ways[a, b, c] = scores[0, a] + scores[1, b] + scores[2, c] + moves[a, b] + moves[b, c]
    shares = np.exp(ways - ways.max())
    share = shares[:, 1].sum() / shares.sum()
    assert found.found.score == pytest.approx(np.log(share / (1 - share)), abs=1e-3)
    if not crf:
        with pytest.raises(BertlineError, match="name the word as well"):
            explainer.explain(text, label="B-PER")
        with pytest.raises(BertlineError, match="--word '4': it is no word of the text"):
            explainer.explain(text, word="4")
        twice = {"text": b"un cafe un"}
        by_place, by_number = (
            explainer.explain(twice, label="B-PER", **given).attributions[0] for given in ({"start": 8}, {"word": "3"})
        )
        assert by_place.name == "un as B-PER" and by_place.words.tolist() == by_number.words.tolist()
        with pytest.raises(BertlineError, match="no word of the text begins at character 1"):
            explainer.explain(twice, start=1)


def test_both_ends_of_another_part_of_the_text_can_be_explained(explained):
    *_, explainer = explained(tiny_of("answering"))
    texts = asked_of(tiny_of("answering"))
    start, end = explainer.explain(texts, label="🙂 cafe").attributions
    assert (start.name, end.name) == ("start of '🙂 cafe'", "end of '🙂 cafe'")
    assert [attribution.name for attribution in explainer.explain(texts, label="").attributions] == [
        "no answer, by its start",
        "no answer, by its end",
    ]
    with pytest.raises(BertlineError, match="the text does not contain it"):
        explainer.explain(texts, label="elsewhere")


def test_any_mask_ending_and_word_of_a_translation_can_be_explained(explained, explanation):
    *_, filling = explained(tiny_of("pretraining"))
    texts = asked_of(tiny_of("pretraining"))
    assert filling.explain(texts, word="2", label="cafe").attributions[0].name == "cafe for [MASK] 2"
    with pytest.raises(BertlineError, match=r"there is no \[MASK\]"):
        filling.explain({"text": b"the cafe"})
    *_, choosing = explained(tiny_of("choice"))
    texts = asked_of(tiny_of("choice"))
    assert [choosing.explain(texts, label=label).attributions[0].name for label in ("2", "cafe")] == ["the un a", "cafe"]
    *_, writing = explained(tiny_of("translation"))
    texts = asked_of(tiny_of("translation"))
    whole, first = explanation(tiny_of("translation")), writing.explain(texts, word="1")
    assert first.attributions[0].found.score > whole.attributions[0].found.score  # one token is likelier than all of them
    assert whole.attentions["decoder"].looked_at[0] == "[CLS]" and whole.attentions["source"].looking[-1] == "[SEP]"
    later = np.triu_indices(len(whole.attentions["decoder"].looking), 1)
    assert all((layer[:, later[0], later[1]] == 0).all() for layer in whole.attentions["decoder"].layers)


def test_a_translation_is_explained_as_it_is_written(explained, explanation):
    task, context, model, _ = explained(tiny_of("translation"))
    texts, found = asked_of(tiny_of("translation")), explanation(tiny_of("translation"))
    written = [token for token in found.attentions["source"].looking if token != "[SEP]"]
    ids = tf.ragged.constant([[VOCAB.index(token) for token in written]])
    assert context.text.detokenize(ids).numpy()[0] == answers_of(task, context, model, texts)["translation"]
    assert found.alignment.shape == (len(written) + 1, len(found.attributions[0].reading.tokens))


def test_heads_that_were_pruned_are_left_out_and_the_others_keep_their_numbers(explained):
    task, context, *_ = explained(ONE_TEXT)
    smaller = task.model.build(prune(model_of(task, context, layers=2).encoder, {0: [0]}), context, 0.0, 1)
    found = explaining_of(task, context, smaller, asked_of(ONE_TEXT)).attend(
        Request(asked_of(ONE_TEXT), task, replace(context, places=True)).batch
    )
    assert [heads.numpy().tolist() for heads in found["heads"]["encoder"]] == [[1], [0, 1]]
    assert [layer.shape[1] for layer in found["weights"]["encoder"]] == [1, 2]


def test_a_model_that_cuts_texts_up_otherwise_is_refused(explained):
    *_, explainer = explained(ONE_TEXT)
    tokenize, explainer._tokenize = explainer._tokenize, lambda texts: [1, 2]
    try:
        with pytest.raises(BertlineError, match="cuts texts up otherwise"):
            explainer.explain({"text": b"the cafe"})
    finally:
        explainer._tokenize = tokenize
