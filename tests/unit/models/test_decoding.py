"""Decoding beside an exhaustive search, on models that are tables of numbers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tensorflow as tf

from bertline.models.seq2seq import decoding

BEGIN, END = 0, 1
VOCAB_SIZE = 4


class Table:
    """A model whose logits follow from the two last tokens and the row, with a state that must be kept by its own text.

    Args:
      rows: each has a table of its own, as if it had another source.
    """

    def __init__(self, rows: int, seed: int) -> None:
        random = np.random.default_rng(seed)
        self.rows = rows
        self.logits = random.normal(scale=2.0, size=(rows, 64, VOCAB_SIZE, VOCAB_SIZE)).astype(np.float32)
        self.logits[..., BEGIN] = decoding.NEVER  # never written

    def step(self, beam: int = 1) -> decoding.Step:
        table = tf.constant(self.logits)

        def step(last: tf.Tensor, written: tf.Tensor, state: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            # The state counts what its text holds: a beam that got another's state would be told wrong logits.
            held = state[:, 0] * 3 + last
            row = tf.repeat(tf.range(self.rows), beam)
            return tf.gather_nd(table, tf.stack([row, held % 64, last], axis=1)), held[:, tf.newaxis]

        return step

    def nothing(self, beam: int = 1) -> tf.Tensor:
        return tf.zeros([self.rows * beam, 1], tf.int32)

    def score(self, row: int, tokens: tuple[int, ...], alpha: float, ends: bool = True) -> float:
        total, held, last = 0.0, 0, BEGIN
        written = (*tokens, END) if ends else tokens
        for token in written:
            held = held * 3 + last
            logits = self.logits[row, held % 64, last].astype(np.float64)
            total += logits[token] - np.log(np.exp(logits - logits.max()).sum()) - logits.max()
            last = token
        return total / ((5 + len(written)) / 6) ** alpha

    def best(self, row: int, limit: int, alpha: float) -> list[tuple[float, tuple[int, ...]]]:
        """Every text there is, the best first."""
        texts = itertools.chain.from_iterable(itertools.product(range(2, VOCAB_SIZE), repeat=n) for n in range(limit + 1))
        return sorted(((self.score(row, text, alpha), text) for text in texts), reverse=True)

    def searched(self, row: int, limit: int, alpha: float, beam: int) -> list[tuple[float, tuple[int, ...]]]:
        """A beam search as one writes it down: after each token those texts stay whose sum by their length is highest."""
        texts: list[tuple[float, tuple[int, ...], bool]] = [(0.0, (), False)]
        while not all(ended for _, _, ended in texts):
            longer = [text for text in texts if text[2]]
            for _, tokens, ended in texts:
                if not ended:
                    longer.append((self.score(row, tokens, alpha), tokens, True))
                    for token in range(2, VOCAB_SIZE) if len(tokens) < limit else ():
                        text = (*tokens, token)
                        longer.append((self.score(row, text, alpha, ends=False), text, False))
            texts = sorted(longer, reverse=True)[:beam]
        return [(score, tokens) for score, tokens, _ in texts]


ENDS = {"begin_id": BEGIN, "end_id": END}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.5])
def test_a_beam_as_wide_as_all_texts_finds_what_an_exhaustive_search_finds(seed: int, alpha: float) -> None:
    model, limits = Table(3, seed), [4, 1, 3]
    found = decoding.beam_search(
        model.step(32), model.nothing(32), tf.constant(limits), beam=32, n_best=3, alpha=alpha, **ENDS
    )
    for row, limit in enumerate(limits):
        wanted = model.best(row, limit, alpha)[:3]
        assert [tuple(text) for text in found.ids[row].to_list()] == [text for _, text in wanted]
        np.testing.assert_allclose(found.scores[row], [score for score, _ in wanted], atol=1e-5)


@pytest.mark.parametrize("beam", [2, 3])
def test_a_narrow_beam_keeps_the_texts_that_are_best_by_their_length(beam: int) -> None:
    model, limits = Table(24, 4), [5] * 24
    arguments = {"beam": beam, "n_best": 1, "alpha": 3.0, **ENDS}
    found = decoding.beam_search(model.step(beam), model.nothing(beam), tf.constant(limits), **arguments)
    for row, limit in enumerate(limits):
        score, text = model.searched(row, limit, 3.0, beam)[0]
        assert tuple(found.ids[row, 0].numpy()) == text
        assert float(found.scores[row, 0]) == pytest.approx(score, abs=1e-5)


@pytest.mark.parametrize("seed", range(8))
def test_a_beam_of_one_is_greedy(seed: int) -> None:
    model, limits = Table(6, seed), tf.constant([8, 3, 0, 5, 8, 1])
    greedy = decoding.follow(model.step(), model.nothing(), limits, alpha=0.6, **ENDS)
    beam = decoding.beam_search(model.step(), model.nothing(), limits, beam=1, alpha=0.6, **ENDS)
    assert beam.ids[:, 0].to_list() == greedy.ids.to_list()
    np.testing.assert_allclose(beam.scores[:, 0], greedy.scores, atol=1e-5)


@pytest.mark.parametrize("beam", [1, 2, 3, 7])
def test_what_is_written_does_not_depend_on_the_other_rows(beam: int) -> None:
    together, limits = Table(5, 3), [9, 2, 6, 0, 4]
    n_best = min(beam, 2)
    found = decoding.beam_search(
        together.step(beam), together.nothing(beam), tf.constant(limits), beam=beam, n_best=n_best, alpha=1.0, **ENDS
    )
    for row, limit in enumerate(limits):
        alone = Table(1, 0)
        alone.logits = together.logits[row : row + 1]
        one = decoding.beam_search(
            alone.step(beam), alone.nothing(beam), tf.constant([limit]), beam=beam, n_best=n_best, alpha=1.0, **ENDS
        )
        assert one.ids[0].to_list() == found.ids[row].to_list()
        np.testing.assert_allclose(one.scores[0], found.scores[row], atol=1e-6)


def test_scores_are_those_of_the_texts_that_were_written() -> None:
    model, limits = Table(4, 9), [6, 5, 2, 7]
    found = decoding.beam_search(model.step(4), model.nothing(4), tf.constant(limits), beam=4, n_best=4, alpha=0.6, **ENDS)
    for row, texts in enumerate(found.ids.to_list()):
        for text, score in zip(texts, found.scores[row].numpy(), strict=True):
            if np.isfinite(score):
                assert score == pytest.approx(model.score(row, tuple(text), 0.6), abs=1e-5)
        assert list(found.scores[row]) == sorted(found.scores[row], reverse=True)


def test_where_fewer_texts_are_possible_than_asked_for_the_rest_is_absent() -> None:
    model = Table(1, 0)
    found = decoding.beam_search(model.step(4), model.nothing(4), tf.constant([0]), beam=4, n_best=3, **ENDS)
    assert found.ids.to_list() == [[[], [], []]]
    assert np.isfinite(found.scores[0]).tolist() == [True, False, False]


def draw(model: Table, count: int, **rules: float) -> list[list[int]]:
    """Texts of one row, each with a seed of its own."""
    repeated = Table(count, 0)
    repeated.logits = np.repeat(model.logits[:1], count, axis=0)
    given = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, **rules}
    choose = decoding.by_chance(
        tf.fill([count], float(given["temperature"])),
        tf.fill([count], int(given["top_k"])),
        tf.fill([count], float(given["top_p"])),
        tf.range(count, dtype=tf.int64),
    )
    return decoding.follow(repeated.step(), repeated.nothing(), tf.fill([count], 3), choose, **ENDS).ids.to_list()


def test_chance_draws_tokens_by_their_shares() -> None:
    model = Table(1, 4)
    drawn = draw(model, 1000)
    first = [text[0] if text else END for text in drawn]
    logits = model.logits[0, 0, BEGIN].astype(np.float64)
    shares = np.exp(logits) / np.exp(logits).sum()
    found = np.bincount(first, minlength=VOCAB_SIZE) / len(first)
    np.testing.assert_allclose(found, shares, atol=4 * np.sqrt(0.25 / 1000))


def test_chance_without_temperature_or_with_one_choice_is_greedy() -> None:
    model = Table(1, 4)
    (greedy,) = decoding.follow(model.step(), model.nothing(), tf.constant([3]), **ENDS).ids.to_list()
    for rules in ({"temperature": 0.0}, {"top_k": 1}, {"top_p": 0.0}, {"top_p": 1e-9, "top_k": 3}):
        assert draw(model, 20, **rules) == [greedy] * 20


def test_chance_keeps_to_the_likeliest() -> None:
    model = Table(1, 4)
    order = np.argsort(-model.logits[0, 0, BEGIN])
    shares = np.exp(model.logits[0, 0, BEGIN][order].astype(np.float64))
    shares /= shares.sum()
    of_two = {text[0] if text else END for text in draw(model, 150, top_k=2)}
    assert of_two == set(order[:2].tolist())
    just_two = float(shares[0] + shares[1] / 2)
    assert {text[0] if text else END for text in draw(model, 150, top_p=just_two)} == set(order[:2].tolist())


def test_what_chance_writes_follows_from_the_rows_own_seed() -> None:
    model = Table(1, 4)
    assert draw(model, 30) == draw(model, 30)
    assert draw(model, 30)[:10] == draw(model, 10)
