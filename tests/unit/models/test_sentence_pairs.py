"""Pairs of sentences: hand-made documents, and the distributions that the original's rules give."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertline.models.data.sentence_pairs import Pair, pairs_of, truncated


def numbered_documents(count: int, sentences: int, words: int) -> list[list[list[int]]]:
    """Documents in which each token says where it is from: document * 10,000 + sentence * 100 + word."""
    return [[[d * 10_000 + s * 100 + w for w in range(words)] for s in range(sentences)] for d in range(count)]


def make(documents, seed=0, **settings) -> list[list[Pair]]:
    generator = random.Random(seed)
    return [list(pairs_of(documents, index, generator, **settings)) for index in range(len(documents))]


@settings(max_examples=100, deadline=None)
@given(
    shape=st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=8), min_size=1, max_size=6),
    max_tokens=st.integers(2, 60),
    seed=st.integers(0, 99),
)
def test_pairs_fit_and_every_sentence_of_a_document_is_in_them_in_order(shape, max_tokens, seed):
    documents = [[[d * 10_000 + s * 100 + w for w in range(n)] for s, n in enumerate(d_)] for d, d_ in enumerate(shape)]
    for index, pairs in enumerate(make(documents, seed, max_tokens=max_tokens)):
        own = []
        for pair in pairs:
            assert 1 <= len(pair.first) + len(pair.second) <= max_tokens
            assert pair.second, "the longer half is cut, so the other keeps what it has"
            kept = pair.first if pair.is_random else pair.first + pair.second
            assert {token // 10_000 for token in kept} <= {index}
            own += kept
        assert own == sorted(own) and len(set(own)) == len(own)
        if max_tokens >= 2 * sum(len(sentence) for document in documents for sentence in document):
            assert own == [token for sentence in documents[index] for token in sentence], "nothing was cut, nothing is lost"


def test_equal_seeds_make_equal_pairs():
    documents = numbered_documents(5, 9, 7)
    assert make(documents, 3, max_tokens=30) == make(documents, 3, max_tokens=30)
    assert make(documents, 3, max_tokens=30) != make(documents, 4, max_tokens=30)


def test_a_true_next_half_goes_on_where_the_first_ends():
    for pairs in make(numbered_documents(20, 12, 5), max_tokens=40, short_share=0.0):
        for pair in pairs:
            if not pair.is_random:
                assert pair.second[0] // 100 == pair.first[-1] // 100 + 1


def test_a_random_half_is_of_another_document_and_the_replaced_sentences_come_again():
    documents = numbered_documents(20, 12, 5)
    seen_again = 0
    for index, pairs in enumerate(make(documents, max_tokens=40, short_share=0.0)):
        for pair, following in zip(pairs, pairs[1:], strict=False):
            if pair.is_random:
                assert pair.second[0] // 10_000 != index
                assert following.first[0] // 100 == pair.first[-1] // 100 + 1
                seen_again += 1
    assert seen_again > 10


def test_a_chunk_of_one_sentence_is_always_followed_by_a_random_one():
    for pairs in make(numbered_documents(10, 4, 50), max_tokens=50, short_share=0.0):
        assert len(pairs) == 4 and all(pair.is_random for pair in pairs)


def test_half_of_the_chunks_with_a_choice_are_random():
    pairs = [pair for found in make(numbered_documents(800, 20, 5), max_tokens=50, short_share=0.0) for pair in found]
    # A random one gives its second half back, so chunks are drawn evenly but pairs are what is counted; the last chunk of
    # a document may be a single sentence, which has no choice.
    with_choice = [pair for pair in pairs if len({token // 100 for token in pair.first}) > 1 or not pair.is_random]
    assert len(with_choice) > 1500
    assert 0.40 < sum(pair.is_random for pair in with_choice) / len(with_choice) < 0.55


def test_a_tenth_of_the_documents_is_cut_short_to_an_even_spread_of_lengths():
    documents = numbered_documents(8000, 64, 1)  # sentences of one token: a true pair has the target length exactly
    first_pairs = [found[0] for found in make(documents, max_tokens=64)]
    lengths = [len(pair.first) + len(pair.second) for pair in first_pairs if not pair.is_random]
    short = [length for length in lengths if length < 64]
    # 0.1 drawn short, of which 1 in 63 happens to be full length; three standard deviations around it.
    assert abs(len(short) / len(lengths) - 0.1 * 62 / 63) < 3 * (0.1 * 0.9 / len(lengths)) ** 0.5
    assert min(short) == 2
    assert abs(sum(short) / len(short) - 32.5) < 3 * (62 / 12**0.5) / len(short) ** 0.5


@settings(max_examples=100, deadline=None)
@given(first=st.integers(1, 30), second=st.integers(1, 30), room=st.integers(2, 40), seed=st.integers(0, 9))
def test_the_longer_half_is_cut_at_either_end(first, second, room, seed):
    one, other = list(range(first)), list(range(100, 100 + second))
    kept = truncated(one, other, room, random.Random(seed))
    for before, after in zip((one, other), kept, strict=True):
        assert after == list(range(after[0], after[0] + len(after))) and set(after) <= set(before)
    lengths = sorted(map(len, kept))
    if first + second <= room:
        assert kept == (one, other)
    else:
        assert sum(lengths) == room
        assert lengths[1] - lengths[0] <= 1 or lengths[0] == min(first, second)


def test_both_ends_are_cut_equally_often():
    cut = [truncated(list(range(30)), list(range(5)), 25, random.Random(seed))[0][0] for seed in range(500)]
    assert abs(sum(cut) / len(cut) - 5.0) < 3 * (10 * 0.25 / len(cut)) ** 0.5


@pytest.mark.parametrize("count", [1, 2])
def test_a_corpus_of_one_document_lends_to_itself(count):
    assert all(pair.second for found in make(numbered_documents(count, 3, 4), max_tokens=9) for pair in found)
