"""Masks: which tokens, how many, and what stands in their place."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertline.models.data.masking import Masked, MaskingRules, how_many, mask_batch

CLS, SEP, MASK, FIRST = 2, 3, 4, 5
VOCAB = 1000
CONTINUES = np.arange(VOCAB) % 3 == 0  # a third of the tokens continues a word
CONTINUES[:FIRST] = False


def rules(**settings) -> MaskingRules:
    return MaskingRules(mask_id=MASK, vocab_size=VOCAB, special_ids=(0, CLS, SEP), continues=CONTINUES, **settings)


def mask_tokens(ids: np.ndarray, chosen: MaskingRules, generator: np.random.Generator) -> Masked:
    """One text in a batch of three, with padding and neighbours; its own part of the result, without what fills up."""
    batch = np.zeros((3, len(ids) + 5), np.int32)
    batch[1, : len(ids)] = ids
    batch[[0, 2], :4] = CLS, FIRST, FIRST + 2, SEP
    found = mask_batch(batch, np.asarray([4, len(ids), 4]), chosen, generator)
    assert (found.token_ids[1, len(ids) :] == 0).all() and found.chosen[0].any()
    real = found.chosen[1]
    return Masked(found.token_ids[1, : len(ids)], found.positions[1][real], found.labels[1][real], real)


def text(length: int, seed: int = 0) -> np.ndarray:
    """[CLS], tokens, a [SEP] in the middle and at the end."""
    ids = np.random.default_rng(seed).integers(FIRST, VOCAB, size=length).astype(np.int32)
    ids[[0, length // 2, length - 1]] = CLS, SEP, SEP
    return ids


def words_of(ids: np.ndarray) -> list[set[int]]:
    words: list[set[int]] = []
    for position, token in enumerate(ids):
        if token in (CLS, SEP):
            words.append(set())
        elif CONTINUES[token] and words[-1]:
            words[-1].add(position)
        else:
            words.append({position})
    return [word for word in words if word]


@settings(max_examples=150, deadline=None)
@given(
    length=st.integers(4, 200), probability=st.floats(0.05, 0.5), max_predictions=st.integers(1, 40),
    seed=st.integers(0, 999), units=st.sampled_from(["token", "word", "span"]),
)  # fmt: skip
def test_labels_are_what_stood_there_and_the_rest_is_untouched(length, probability, max_predictions, seed, units):
    ids, chosen = text(length, seed), rules(probability=probability, max_predictions=max_predictions, units=units)
    found = mask_tokens(ids, chosen, np.random.default_rng(seed))
    assert found.positions.tolist() == sorted(set(found.positions.tolist()))
    assert found.labels.tolist() == ids[found.positions].tolist()
    assert not set(found.labels.tolist()) & {CLS, SEP}
    others = np.setdiff1d(np.arange(length), found.positions)
    assert (found.token_ids[others] == ids[others]).all()
    assert len(found.positions) <= how_many(length, chosen)
    if units == "token":
        assert len(found.positions) == min(how_many(length, chosen), length - 3)
    else:
        whole = [word for word in words_of(ids) if word & set(found.positions.tolist())]
        assert set().union(*whole) == set(found.positions.tolist()), "no word is masked in part"


@pytest.mark.parametrize(("tokens", "expected"), [(4, 1), (10, 2), (30, 4), (50, 8), (128, 19), (133, 20), (512, 20)])
def test_so_many_are_chosen_as_in_the_original(tokens, expected):
    """round() of Python, as there: 0.15 of 30 is 4.5 and becomes 4."""
    assert how_many(tokens, rules()) == expected


def test_equal_generators_make_equal_masks():
    first, second, other = (mask_tokens(text(100), rules(), np.random.default_rng(s)) for s in (1, 1, 2))
    assert all((a == b).all() for a, b in zip(first, second, strict=True))
    assert first.positions.tolist() != other.positions.tolist()


@pytest.mark.parametrize("units", ["token", "word", "span"])
def test_of_the_chosen_eight_tenths_are_masked_one_is_anything_and_one_stays(units):
    generator = np.random.default_rng(0)
    masked = stayed = anything = total = 0
    for seed in range(600):
        ids = text(128, seed)
        found = mask_tokens(ids, rules(units=units), generator)
        now = found.token_ids[found.positions]
        masked += (now == MASK).sum()
        stayed += (now == found.labels).sum()
        total += len(now)
        anything += ((now != MASK) & (now != found.labels)).sum()
    assert total > 9_000
    for count, probability in ((masked, 0.8), (stayed, 0.1), (anything, 0.1)):
        assert abs(count / total - probability) < 4 * (probability * (1 - probability) / total) ** 0.5 + 2 / VOCAB


def test_random_tokens_are_of_the_whole_vocabulary():
    generator = np.random.default_rng(0)
    wild = rules(probability=0.5, max_predictions=500)
    seen = set()
    for seed in range(400):
        ids = text(400, seed)
        found = mask_tokens(ids, wild, generator)
        now = found.token_ids[found.positions]
        seen |= set(now[(now != MASK) & (now != found.labels)].tolist())
    assert len(seen) > 0.98 * VOCAB and seen & {0, CLS, SEP}


def test_every_position_is_equally_likely():
    generator = np.random.default_rng(0)
    ids = text(64)
    counts = np.zeros(64)
    for _ in range(4000):
        counts[mask_tokens(ids, rules(), generator).positions] += 1
    able = np.setdiff1d(np.arange(64), [0, 32, 63])
    expected = 4000 * how_many(64, rules()) / len(able)
    assert counts[[0, 32, 63]].sum() == 0
    assert np.abs(counts[able] - expected).max() < 5 * expected**0.5


def test_spans_are_runs_of_words_that_do_not_cross_a_separator():
    plain = np.full(41, FIRST + 2, np.int32)
    plain[[0, 20, 40]] = CLS, SEP, SEP
    assert not CONTINUES[FIRST + 2]
    generator = np.random.default_rng(0)
    runs = []
    for _ in range(500):
        positions = mask_tokens(plain, rules(units="span", probability=0.25), generator).positions
        runs += [len(run) for run in np.split(positions, np.flatnonzero(np.diff(positions) != 1) + 1)]
        assert len(positions) == how_many(41, rules(probability=0.25))
    alone = []
    for _ in range(500):
        positions = mask_tokens(plain, rules(units="token", probability=0.25), generator).positions
        alone += [len(run) for run in np.split(positions, np.flatnonzero(np.diff(positions) != 1) + 1)]
    assert np.mean(runs) > 2 * np.mean(alone)
    assert max(runs) <= 10
