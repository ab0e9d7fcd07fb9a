"""Pairs, windows and [CLS]/[SEP]: against the `tokenizers` package, and against the rules of the original in Python."""

from __future__ import annotations

import functools

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import BertWordPieceTokenizer
from wordpiece import SENTENCES, VOCAB, named, write_vocab

from bertline.models.tokenization.packing import longest_first
from bertline.models.tokenization.tokenizer import TextEncoder

LENGTHS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=20)


@pytest.fixture(scope="module")
def vocab_path(tmp_path_factory) -> str:
    return write_vocab(tmp_path_factory.mktemp("vocab"), VOCAB)


@functools.cache
def make_encoder(vocab_path: str, seq_len: int, tokenizer_variant="huggingface"):
    """An encoder, and its `tokens` traced, for examples by the dozen."""
    encoder = TextEncoder(vocab_path, tokenizer_variant=tokenizer_variant, seq_len=seq_len)
    return encoder, tf.function(encoder.tokens, input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)


def letters(lengths) -> tf.Tensor:
    """Texts of so many tokens each, none like its neighbour."""
    return tf.constant([" ".join("abcdefghi"[:length]) for length in lengths])


def truncate_as_the_original(first: int, second: int, room: int) -> tuple[int, int]:
    while first + second > room:
        if first > second:
            first -= 1
        else:
            second -= 1
    return first, second


@settings(max_examples=100, deadline=None)
@given(lengths=LENGTHS, room=st.integers(0, 18))
def test_the_original_pops_the_longer_text_and_the_second_of_equals(lengths, room):
    first, second = tf.transpose(tf.constant(lengths, tf.int64))
    kept = longest_first(first, second, room, "original")
    assert list(zip(*(k.numpy().tolist() for k in kept), strict=True)) == [
        truncate_as_the_original(*pair, room) for pair in lengths
    ]


@settings(max_examples=30, deadline=None)
@given(lengths=LENGTHS, seq_len=st.sampled_from([5, 6, 11, 14, 20]))
def test_pairs_are_those_of_the_tokenizers_package(vocab_path, lengths, seq_len):
    tokenizer = BertWordPieceTokenizer(vocab_path)
    tokenizer.enable_truncation(seq_len, strategy="longest_first")
    encoder, tokens = make_encoder(vocab_path, seq_len)
    first, second = (letters(side) for side in zip(*lengths, strict=True))
    packed = encoder.pack(tokens(first), tokens(second))
    pairs = zip(first.numpy(), second.numpy(), strict=True)
    expected = tokenizer.encode_batch([(a.decode(), b.decode()) for a, b in pairs])
    assert packed["token_ids"].to_list() == [encoding.ids for encoding in expected]
    assert packed["segment_ids"].to_list() == [encoding.type_ids for encoding in expected]
    assert packed["start_chars"].to_list() == [[start for start, _ in encoding.offsets] for encoding in expected]
    assert packed["word_ids"].to_list() == [[-1 if w is None else w for w in e.word_ids] for e in expected]


@settings(max_examples=25, deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 60)), min_size=1, max_size=3),
    seq_len=st.sampled_from([12, 17, 20]),
    overlap=st.integers(0, 4),
)
def test_windows_after_a_question_are_those_of_the_tokenizers_package(vocab_path, rows, seq_len, overlap):
    encoder, tokens = make_encoder(vocab_path, seq_len)
    tokenizer = BertWordPieceTokenizer(vocab_path)
    tokenizer.enable_truncation(seq_len, stride=overlap, strategy="only_second")
    for question_length, length in rows:
        question, text = "x " * question_length, " ".join("abcdefghij"[i % 10] for i in range(length))
        encoding = tokenizer.encode(question, text)
        expected = [encoding, *encoding.overflowing]
        step = seq_len - 3 - question_length - overlap
        windows = encoder.windows(tokens(tf.constant([text])), step=step, question=tokens(tf.constant([question])))
        assert windows.tokens["token_ids"].to_list() == [e.ids for e in expected]
        assert windows.tokens["segment_ids"].to_list() == [e.type_ids for e in expected]
        assert windows.tokens["end_chars"].to_list() == [[end for _, end in e.offsets] for e in expected]
        assert windows.begins.numpy().tolist() == [number * step for number in range(len(expected))]


def test_windows_of_many_rows_know_their_rows_and_cover_every_token(vocab_path):
    encoder = TextEncoder(vocab_path, seq_len=6)
    lengths = [0, 3, 4, 5, 9]
    found = encoder.windows(encoder.tokens(letters(lengths)), step=2)
    assert found.rows.numpy().tolist() == [0, 1, 2, 3, 3, 4, 4, 4, 4]
    assert found.begins.numpy().tolist() == [0, 0, 0, 0, 2, 0, 2, 4, 6]
    assert named(encoder, found.tokens["token_ids"])[-2:] == [
        ["[CLS]", "e", "f", "g", "h", "[SEP]"],
        ["[CLS]", "g", "h", "i", "[SEP]"],
    ]


def test_a_question_is_cut_and_leaves_room_for_the_text(vocab_path):
    encoder = TextEncoder(vocab_path, seq_len=8)
    question, text = (encoder.tokens(tf.constant([words])) for words in ("x x x x x x x x", "a b c"))
    few = encoder.windows(text, step=128, question=question, max_question=2).tokens["token_ids"]
    assert named(encoder, few) == [["[CLS]", "x", "x", "[SEP]", "a", "b", "c", "[SEP]"]]
    many = encoder.windows(text, step=128, question=question).tokens["token_ids"]
    assert [row[-2] for row in named(encoder, many)] == ["a", "b", "c"]
    assert {len(row) for row in many.to_list()} == {8}


def test_ids_alone_are_packed_like_tokens_with_offsets(vocab_path):
    encoder = TextEncoder(vocab_path, seq_len=16)
    texts, others = tf.constant(SENTENCES), tf.constant(SENTENCES[::-1])
    packed = encoder.pack({"token_ids": encoder.tokenize(texts)}, {"token_ids": encoder.tokenize(others)})
    whole = encoder.pack(encoder.tokens(texts), encoder.tokens(others))
    assert set(packed) == {"token_ids", "segment_ids"}
    assert all(packed[name].to_list() == whole[name].to_list() for name in packed)
    assert all(ragged.dtype == tf.int32 for ragged in whole.values())
