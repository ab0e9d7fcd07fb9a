"""Every code point of Unicode, alone and inside a word: the same words and pieces, at the same places, as each reference.

What differs is listed one by one in `code_points_that_differ.txt`, with its reason. The list must be exact: a difference
that is gone fails a test too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest
import tensorflow as tf
from tokenizers import BertWordPieceTokenizer
from wordpiece import known_differences, words_of, write_vocab

from models.text import TextEncoder
from models.vocabulary import SPECIAL_PIECES
from models.words import WordSplitter

CODES = [code for code in range(0x110000) if not 0xD800 <= code <= 0xDFFF]  # surrogates are not characters
BATCH = 8192


@pytest.fixture(scope="module")
def vocab_path(tmp_path_factory) -> str:
    return write_vocab(tmp_path_factory.mktemp("vocab"), [*SPECIAL_PIECES, "a", "b", "B", "##a", "##b"])


def differing(pattern: str, ours: Callable[[tf.Tensor], Sequence], theirs: Callable[[list[str]], Sequence]) -> set[int]:
    """Code points for which the two do not say the same of the pattern with the character put in."""
    found = set()
    for codes in (CODES[begin : begin + BATCH] for begin in range(0, len(CODES), BATCH)):
        texts = [pattern.replace("{}", chr(code)) for code in codes]
        one, other = ours(tf.constant(texts)), theirs(texts)
        if one != other:
            found |= {code for code, x, y in zip(codes, one, other, strict=True) if x != y}
    return found


def traced(function):
    return tf.function(function, input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)


def columns(*ragged: tf.RaggedTensor) -> Iterator[tuple]:
    """The rows of several ragged tensors side by side."""
    return zip(*(tensor.to_list() for tensor in ragged), strict=True)


@pytest.mark.parametrize("lower", [True, False])
def test_the_original_reading_gives_the_words_and_offsets_of_plain_python(vocab_path, lower):
    splitter, encoder = WordSplitter(lower=lower), TextEncoder(vocab_path, lower=lower)
    split = traced(lambda texts: (splitter(texts), encoder.tokens(texts)))

    def ours(texts):
        words, tokens = split(texts)
        rows = columns(words, tokens["word_ids"], tokens["start_chars"], tokens["end_chars"])
        return [
            [(word.decode(), begin[number], end[number]) for number, word in enumerate(words)]
            for words, ids, starts, ends in rows
            # Where a word begins, and, read from behind, where it ends.
            for begin in [dict(zip(ids[::-1], starts[::-1], strict=True))]
            for end in [dict(zip(ids, ends, strict=True))]
        ]

    known = known_differences("original, format and punctuation")
    if lower:
        known |= known_differences("original, accents", "original, capitals", "original, letters")
    # A sigma is small at the end of a word, and another one inside: what is a letter shows in it.
    assert differing("{} B{}aΣ{}", ours, lambda texts: [words_of(text, lower) for text in texts]) == known


@pytest.mark.parametrize("lower", [True, False])
def test_the_huggingface_reading_gives_the_words_of_the_tokenizers_package(vocab_path, lower):
    split = traced(WordSplitter(lower=lower, reading="huggingface"))
    tokenizer = BertWordPieceTokenizer(vocab_path, lowercase=lower)
    normalise, pre_tokenize = tokenizer.normalizer.normalize_str, tokenizer.pre_tokenizer.pre_tokenize_str

    def ours(texts):
        return [[word.decode() for word in words] for words in split(texts).to_list()]

    def theirs(texts):
        return [[word for word, _ in pre_tokenize(normalise(text))] for text in texts]

    known = known_differences("huggingface, format", "huggingface, punctuation")
    if lower:
        known |= known_differences("huggingface, accents", "huggingface, capitals")
    assert differing("{} B{}aΣ", ours, theirs) == known


@pytest.mark.parametrize("lower", [True, False])
def test_the_huggingface_reading_gives_the_pieces_and_offsets_of_the_tokenizers_package(vocab_path, lower):
    tokens = traced(TextEncoder(vocab_path, lower=lower, reading="huggingface").tokens)
    tokenizer = BertWordPieceTokenizer(vocab_path, lowercase=lower)

    def ours(texts):
        found = tokens(texts)
        rows = columns(*(found[name] for name in ("token_ids", "start_chars", "end_chars", "word_ids")))
        return [(ids, list(zip(starts, ends, strict=True)), words) for ids, starts, ends, words in rows]

    def theirs(texts):
        return [(e.ids, e.offsets, e.word_ids) for e in tokenizer.encode_batch(texts, add_special_tokens=False)]

    # A word of the character is [UNK] whether it is lowered or not.
    known = known_differences("huggingface, format", "huggingface, punctuation")
    if lower:
        known |= known_differences("huggingface, accents")
    assert differing("{} a{}B", ours, theirs) == known
