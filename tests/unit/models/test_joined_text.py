"""Texts that are taken apart and written again as they were."""

from __future__ import annotations

import collections

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from wordpiece import ANYTHING, ASCII, EDGES, SENTENCES, write_vocab

from bertline.models.tokenization.joiner import JOINER
from bertline.models.tokenization.normalizer import WordSplitter
from bertline.models.tokenization.tokenizer import TextEncoder
from bertline.models.tokenization.vocabulary import SPECIAL_TOKENS

TEXTS = [
    "Two young, White males are outside near many bushes.",
    "Don't pay 3.5% of it (really)!",
    'He said: "Ja, natürlich – während…"',
    "日本語 text。北京x ok",
    "a.b.c...d (((e))) 'f' -g- h-i",
    "🙂a b🙂 c",
]


def encoder_of(texts: list[str], folder, **changes) -> TextEncoder:
    """One that knows every character of the texts, alone and inside a word."""
    words = WordSplitter(lower=False, strip_accents=False, preserve_whitespace=True)(tf.constant(texts)).flat_values.numpy()
    counts = collections.Counter(character for word in words for character in word.decode())
    tokens = [form for character in sorted(counts) for form in (character, f"##{character}")]
    path = write_vocab(folder, [*SPECIAL_TOKENS, *tokens])
    return TextEncoder(path, **{"lower": False, "strip_accents": False, "preserve_whitespace": True, **changes})


def test_texts_are_written_as_they_were(tmp_path):
    encoder = encoder_of(TEXTS, tmp_path)
    written = encoder.detokenize(encoder.tokenize(tf.constant(TEXTS)))
    assert [text.decode() for text in written.numpy()] == TEXTS


def test_of_white_space_one_space_is_left(tmp_path):
    encoder = encoder_of(["a b . c"], tmp_path)
    written = encoder.detokenize(encoder.tokenize(tf.constant(["  a \t b\n.\u00a0c ", ""])))
    assert [text.decode() for text in written.numpy()] == ["a b . c", ""]


def test_the_mark_is_on_the_punctuation_and_words_stay_the_same():
    (words,) = WordSplitter(lower=False, preserve_whitespace=True)(tf.constant(['(really) "really" re-ally'])).to_list()
    found = [word.decode().replace(JOINER, "_") for word in words]
    assert found == ["(_", "really", "_)", '"_', "really", '_"', "re", "_-_", "ally"]


@settings(max_examples=60, deadline=None)
@given(texts=st.lists(EDGES | ASCII | ANYTHING, min_size=1, max_size=10))
def test_whatever_is_split_can_be_put_together_again(texts):
    """Words without their marks are those of the plain splitter, and together they are the text but for its white space."""
    both = [
        WordSplitter(lower=False, strip_accents=False, preserve_whitespace=joined)(tf.constant(texts, tf.string))
        for joined in (0, 1)
    ]
    plain, joined = (found.to_list() for found in both)
    mark = JOINER.encode()
    assert [[word.replace(mark, b"") for word in row] for row in joined] == [
        [word for token in row if (word := token.replace(mark, b""))] for row in plain
    ] or any(JOINER in text for text in texts)
    normalised = WordSplitter(lower=False, strip_accents=False, preserve_whitespace=True).normalise(
        tf.constant(texts, tf.string)
    )
    for row, text in zip(joined, normalised.numpy(), strict=True):
        again = b" ".join(row).replace(b" " + mark, b"").replace(mark + b" ", b"")
        assert again.decode().split() == text.decode().split()


@pytest.mark.parametrize("text", [*TEXTS, *SENTENCES])
def test_offsets_are_those_of_the_plain_reading(text, tmp_path):
    joined = encoder_of([*TEXTS, *SENTENCES], tmp_path)
    plain = TextEncoder(joined.vocab_asset.asset_path.numpy().decode(), lower=False, strip_accents=False)
    ends = []
    for encoder in (plain, joined):
        found = encoder.tokens(tf.constant([text]))
        spans = zip(found["start_chars"].to_list()[0], found["end_chars"].to_list()[0], strict=True)
        ends.append([span for span in spans if span[0] < span[1]])  # a mark of its own has no place in the text
    assert ends[0] == ends[1]


def test_a_token_that_is_kept_whole_stays_what_it_is(tmp_path):
    vocab = [*SPECIAL_TOKENS, "[URL]", "see", JOINER, f"##{JOINER}", f"{JOINER}.", "."]
    encoder = TextEncoder(
        write_vocab(tmp_path, vocab),
        lower=False,
        preserve_whitespace=True,
        tokenizer_variant="huggingface",
        reserved=("[URL]",),
    )
    tokens = encoder.tokenize(tf.constant(["see [URL]."])).to_list()[0]
    assert [vocab[token] for token in tokens] == ["see", "[URL]", f"{JOINER}."]
    assert encoder.detokenize(tf.ragged.constant([tokens], dtype=tf.int32)).numpy()[0] == b"see [URL]."
