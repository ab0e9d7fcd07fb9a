"""Where each token stands in the original text: against plain Python, and against the `tokenizers` package."""

from __future__ import annotations

import itertools

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import BertWordPieceTokenizer
from wordpiece import (
    ANYTHING,
    ASCII,
    EDGES,
    SENTENCES,
    VOCAB,
    Graphs,
    ReferenceToken,
    described,
    reference_tokens,
    write_vocab,
)

from bertline.models.tokenization.tokenizer import TextEncoder

# Characters that the tables of `tokenizers` know too: everything that Unicode 8 had, see test_every_code_point.py.
OLD = st.text(
    st.characters(max_codepoint=0x5FF, exclude_categories=["Cs", "Cn"]) | st.sampled_from("中東かҐ한\u1112\u1161🙂𝒜")
)
TEXTS = st.lists(EDGES | ASCII | OLD, max_size=20)


@pytest.fixture(scope="module")
def vocab_path(tmp_path_factory) -> str:
    return write_vocab(tmp_path_factory.mktemp("vocab"), [*VOCAB, "[URL]", "url"])


@pytest.fixture(scope="module")
def graphs(vocab_path):
    keys = itertools.product(("original", "huggingface"), (True, False))
    return {key: Graphs(vocab_path, *key) for key in keys}


@pytest.fixture(scope="module")
def theirs(vocab_path):
    def make(lower):
        tokenizer = BertWordPieceTokenizer(vocab_path, lowercase=lower)

        def tokens(text):
            encoding = tokenizer.encode(text, add_special_tokens=False)
            columns = zip(encoding.tokens, encoding.offsets, encoding.word_ids, strict=True)
            return [ReferenceToken(name, *offsets, word) for name, offsets, word in columns]

        return tokens

    return {lower: make(lower) for lower in (True, False)}


@pytest.mark.parametrize("lower", [True, False])
def test_sentences_have_the_references_offsets_in_both_readings(graphs, theirs, lower):
    assert graphs["original", lower](SENTENCES) == [reference_tokens(text, lower, VOCAB) for text in SENTENCES]
    assert graphs["huggingface", lower](SENTENCES) == [theirs[lower](text) for text in SENTENCES]


@pytest.mark.parametrize("lower", [True, False])
@settings(max_examples=60, deadline=None)
@given(texts=st.lists(EDGES | ASCII | ANYTHING, max_size=20))
def test_mixed_scripts_have_the_offsets_of_plain_python(graphs, lower, texts):
    assert graphs["original", lower](texts) == [reference_tokens(text, lower, VOCAB) for text in texts]


@pytest.mark.parametrize("lower", [True, False])
@settings(max_examples=60, deadline=None)
@given(texts=st.lists(st.lists(EDGES | ASCII | OLD | st.sampled_from(["[MASK]", "[CLS]", "[x"])).map("".join), max_size=8))
def test_mixed_scripts_have_the_offsets_of_the_tokenizers_package(graphs, theirs, lower, texts):
    assert graphs["huggingface", lower](texts) == [theirs[lower](text) for text in texts]


def test_offsets_show_what_a_reader_would_mark(graphs):
    text = "Die Café-Größe:\r\n 한 e\u0301🙂x"
    assert [text[token.start : token.end] for token in graphs["original", True]([text])[0]] == [
        *("D", "i", "e", "Café", "-", "G", "r", "ö", "ß", "e", ":"),
        *("한", "한", "한"),  # one syllable, three letters
        *("e", "🙂", "x"),  # an accent of its own is not part of any token
    ]


@settings(max_examples=60, deadline=None)
@given(texts=st.lists(st.binary(max_size=12) | st.text("aé中🙂").map(lambda text: text.encode()[1:]), max_size=20))
def test_byte_offsets_cut_the_same_out_of_the_bytes_also_of_ill_formed_ones(graphs, texts):
    tokens = graphs["huggingface", False].tokens(tf.constant(texts, tf.string))
    names = ("start_bytes", "end_bytes", "start_chars", "end_chars")
    for text, *rows in zip(texts, *(tokens[name].to_list() for name in names), strict=True):
        repaired = text.decode("utf-8", errors="replace")
        for start_byte, end_byte, start_char, end_char in zip(*rows, strict=True):
            assert text[start_byte:end_byte].decode("utf-8", errors="replace") == repaired[start_char:end_char]


@settings(max_examples=40, deadline=None)
@given(texts=TEXTS)
def test_offsets_and_ids_alone_come_from_two_ways_that_agree(graphs, texts):
    given_texts = tf.constant(texts, tf.string)
    for graph in graphs.values():
        assert graph.tokens(given_texts)["token_ids"].to_list() == graph.tokenize(given_texts).to_list()


@settings(max_examples=40, deadline=None)
@given(rows=st.lists(st.lists(EDGES | ASCII, max_size=6), max_size=6))
def test_given_words_keep_their_numbers_as_in_the_tokenizers_package(graphs, vocab_path, rows):
    graph = graphs["huggingface", True]
    tokenizer = BertWordPieceTokenizer(vocab_path)
    words = tf.ragged.constant(rows, ragged_rank=1, dtype=tf.string)
    expected = [tokenizer.encode(row, is_pretokenized=True, add_special_tokens=False) for row in rows]
    assert described(graph.encoder, graph.word_tokens(words)) == [
        [ReferenceToken(n, *o, w) for n, o, w in zip(e.tokens, e.offsets, e.word_ids, strict=True)] for e in expected
    ]


def test_reserved_tokens_are_kept_whole_by_the_reading_huggingface_and_split_by_the_original(vocab_path):
    text = "a [URL]b [url]"
    theirs = BertWordPieceTokenizer(vocab_path)
    theirs.add_special_tokens(["[URL]"])
    encoding = theirs.encode(text, add_special_tokens=False)
    encoder = TextEncoder(vocab_path, tokenizer_variant="huggingface", reserved=("[URL]",))
    tokens = encoder.tokens(tf.constant([text]))
    assert tokens["token_ids"].to_list() == encoder.tokenize(tf.constant([text])).to_list() == [encoding.ids]
    assert list(zip(*(tokens[n].to_list()[0] for n in ("start_chars", "end_chars")), strict=True)) == encoding.offsets
    original = TextEncoder(vocab_path, reserved=("[URL]",))
    assert [token.name for token in described(original, original.tokens(tf.constant(["[URL]"])))[0]] == ["[", "url", "]"]


@pytest.mark.parametrize(("lower", "strip"), [(True, False), (False, True)])
def test_accents_may_be_kept_or_dropped_whatever_the_case(vocab_path, lower, strip):
    theirs = BertWordPieceTokenizer(vocab_path, lowercase=lower, strip_accents=strip)
    encoder = TextEncoder(vocab_path, lower=lower, tokenizer_variant="huggingface", strip_accents=strip)
    tokens = encoder.tokens(tf.constant(SENTENCES))
    expected = [theirs.encode(text, add_special_tokens=False) for text in SENTENCES]
    assert tokens["token_ids"].to_list() == [encoding.ids for encoding in expected]
    assert tokens["end_chars"].to_list() == [[end for _, end in encoding.offsets] for encoding in expected]
