"""Every code point of Unicode, alone and inside a word: the same words and tokens, at the same places, as each reference.

What differs is listed one by one in `code_points_that_differ.txt`, with its reason. The list must be exact: a difference
that is gone fails a test too.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import pytest
import tensorflow as tf
from tokenizers import BertWordPieceTokenizer
from wordpiece import known_differences, words_of, write_vocab

from bertline.models.tokenization.normalizer import WordSplitter
from bertline.models.tokenization.tokenizer import TextEncoder
from bertline.models.tokenization.vocabulary import SPECIAL_TOKENS

pytestmark = pytest.mark.full

CODES = [code for code in range(0x110000) if not 0xD800 <= code <= 0xDFFF]  # surrogates are not characters
GROUP, BATCH = 16, 512


@pytest.fixture(scope="module")
def vocab_path(tmp_path_factory) -> str:
    return write_vocab(tmp_path_factory.mktemp("vocab"), [*SPECIAL_TOKENS, "a", "b", "B", "##a", "##b"])


def differing(pattern: str, ours: Callable[[tf.Tensor], Sequence], theirs: Callable[[list[str]], Sequence]) -> set[int]:
    """Code points for which the two do not say the same of the pattern with the character put in."""

    def among(groups: list[list[int]]) -> list[list[int]]:
        texts = ["\n".join(pattern.replace("{}", chr(code)) for code in group) for group in groups]
        one, other = ours(tf.constant(texts)), theirs(texts)
        return [group for group, x, y in zip(groups, one, other, strict=True) if x != y]

    # Several characters a text, for speed; a text that differs is looked at character by character.
    groups = [CODES[begin : begin + GROUP] for begin in range(0, len(CODES), GROUP)]
    suspected = [group for begin in range(0, len(groups), BATCH) for group in among(groups[begin : begin + BATCH])]
    return {code for (code,) in among([[code] for group in suspected for code in group])}


def traced(function):
    return tf.function(function, input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)


def rows_of(*ragged: tf.RaggedTensor) -> Iterator[tuple]:
    """The rows of several ragged tensors side by side."""
    return zip(*(_rows(tensor) for tensor in ragged), strict=True)


def _rows(ragged: tf.RaggedTensor) -> list[list]:  # `to_list` takes several times as long
    values, splits = ragged.flat_values.numpy().tolist(), ragged.row_splits.numpy().tolist()
    return [values[begin:end] for begin, end in itertools.pairwise(splits)]


@pytest.mark.parametrize("lower", [True, False])
def test_the_original_reading_gives_the_words_and_offsets_of_plain_python(vocab_path, lower):
    splitter, encoder = WordSplitter(lower=lower), TextEncoder(vocab_path, lower=lower)
    split = traced(lambda texts: (splitter(texts), encoder.tokens(texts)))

    def ours(texts):
        words, tokens = split(texts)
        rows = rows_of(words, tokens["word_ids"], tokens["start_chars"], tokens["end_chars"])
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
    # A small sigma is another one at the end of a word than inside: what counts as a letter shows in it.
    pattern = "{} B{}aΣ{}" if lower else "{} B{}a"
    assert differing(pattern, ours, lambda texts: [words_of(text, lower) for text in texts]) == known


@pytest.mark.parametrize("lower", [True, False])
def test_the_huggingface_reading_gives_the_words_of_the_tokenizers_package(vocab_path, lower):
    split = traced(WordSplitter(lower=lower, tokenizer_variant="huggingface"))
    tokenizer = BertWordPieceTokenizer(vocab_path, lowercase=lower)
    normalise, pre_tokenize = tokenizer.normalizer.normalize_str, tokenizer.pre_tokenizer.pre_tokenize_str

    def ours(texts):
        return [[word.decode() for word in words] for (words,) in rows_of(split(texts))]

    def theirs(texts):
        return [[word for word, _ in pre_tokenize(normalise(text))] for text in texts]

    known = known_differences("huggingface, format", "huggingface, punctuation")
    if lower:
        known |= known_differences("huggingface, accents", "huggingface, capitals")
    assert differing("{} B{}aΣ", ours, theirs) == known


@pytest.mark.parametrize("lower", [True, False])
def test_the_huggingface_reading_gives_the_tokens_and_offsets_of_the_tokenizers_package(vocab_path, lower):
    tokens = traced(TextEncoder(vocab_path, lower=lower, tokenizer_variant="huggingface").tokens)
    tokenizer = BertWordPieceTokenizer(vocab_path, lowercase=lower)

    def ours(texts):
        found = tokens(texts)
        rows = rows_of(*(found[name] for name in ("token_ids", "start_chars", "end_chars", "word_ids")))
        return [(ids, list(zip(starts, ends, strict=True)), words) for ids, starts, ends, words in rows]

    def theirs(texts):
        return [(e.ids, e.offsets, e.word_ids) for e in tokenizer.encode_batch(texts, add_special_tokens=False)]

    # A word of the character is [UNK] whether it is lowered or not.
    known = known_differences("huggingface, format", "huggingface, punctuation")
    if lower:
        known |= known_differences("huggingface, accents")
    assert differing("{} a{}B", ours, theirs) == known
