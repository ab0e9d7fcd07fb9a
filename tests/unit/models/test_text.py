"""The in-graph WordPiece against a plain Python reading of the original BERT tokenization."""

from __future__ import annotations

import os

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import BertWordPieceTokenizer
from wordpiece import ANYTHING, ASCII, EDGES, SENTENCES, VOCAB, named, names_of, write_vocab

from bertline.models.tokenization.normalizer import WordSplitter
from bertline.models.tokenization.tokenizer import TextEncoder
from bertline.models.tokenization.vocabulary import SPECIAL_TOKENS, read_vocabulary
from bertline.pipeline.core.errors import BertlineError


@pytest.fixture(scope="module")
def vocab_path(tmp_path_factory) -> str:
    return write_vocab(tmp_path_factory.mktemp("vocab"), VOCAB)


@pytest.fixture(scope="module")
def traced(vocab_path):
    """lower -> a function from texts to named tokens, traced once for batches of every size."""

    def trace(lower: bool):
        encoder = TextEncoder(vocab_path, lower=lower)
        tokens = tf.function(encoder.tokenize, input_signature=[tf.TensorSpec([None], tf.string)])
        return lambda texts: named(encoder, tokens(tf.constant(texts, tf.string)))

    return {lower: trace(lower) for lower in (True, False)}


@pytest.mark.parametrize("lower", [True, False])
def test_unicode_rich_sentences_give_the_references_tokens(traced, lower):
    assert traced[lower](SENTENCES) == [names_of(text, lower, VOCAB) for text in SENTENCES]


@pytest.mark.parametrize("lower", [True, False])
@settings(max_examples=60, deadline=None)
@given(texts=st.lists(EDGES | ASCII | ANYTHING, max_size=20))
def test_mixed_scripts_give_the_references_tokens(traced, lower, texts):
    assert traced[lower](texts) == [names_of(text, lower, VOCAB) for text in texts]


@settings(max_examples=15, deadline=None)
@given(
    tokens=st.lists(st.from_regex(r"\A(##)?[abcé]{1,4}\Z"), min_size=1, max_size=25, unique=True),
    words=st.lists(st.text("abcé", min_size=1, max_size=8), max_size=20),
)
def test_any_vocabulary_is_matched_greedily(tmp_path_factory, tokens, words):
    vocab = [*SPECIAL_TOKENS, *tokens]
    encoder = TextEncoder(write_vocab(tmp_path_factory.mktemp("greedy"), vocab), lower=False)
    found = named(encoder, encoder.tokenize(tf.constant(words, tf.string)))
    assert found == [names_of(word, False, vocab) for word in words]


@settings(max_examples=60, deadline=None)
@given(texts=st.lists(st.binary(max_size=12) | st.text("aé中🙂").map(lambda text: text.encode()[1:]), max_size=20))
def test_ill_formed_bytes_are_dropped(traced, texts):
    repaired = [text.decode("utf-8", errors="replace") for text in texts]
    assert traced[False](texts) == [names_of(text, False, VOCAB) for text in repaired]


def test_an_empty_batch_gives_no_rows(traced):
    assert traced[True]([]) == []


def test_huggingface_reading_keeps_special_tokens_and_cuts_at_100_characters(vocab_path):
    encoder = TextEncoder(vocab_path, tokenizer_variant="huggingface")
    texts = ["a[MASK]b [cls] [SEP].", "é[CLS]É[PAD][UNK]", "é" * 100 + " " + "é" * 101, "a" * 101]
    texts += ["ΑΣ [M\x00ASK] \ufdd4"]
    assert named(encoder, encoder.tokenize(tf.constant(texts))) == [
        ["a", "[MASK]", "b", "[", "cls", "]", "[SEP]", "."],
        ["e", "[CLS]", "e", "[PAD]", "[UNK]"],
        ["e"] + ["##e"] * 99 + ["[UNK]"],
        ["[UNK]"],
        ["α", "##σ", "[", "mask", "]", "[UNK]"],
    ]


@pytest.mark.parametrize("lower", [True, False])
def test_huggingface_reading_gives_the_tokens_of_the_tokenizers_package(vocab_path, lower):
    theirs = BertWordPieceTokenizer(vocab_path, lowercase=lower)
    encoder = TextEncoder(vocab_path, lower=lower, tokenizer_variant="huggingface")
    expected = [theirs.encode(text, add_special_tokens=False).tokens for text in SENTENCES]
    assert named(encoder, encoder.tokenize(tf.constant(SENTENCES))) == expected


def test_a_call_packs_and_cuts_to_seq_len(vocab_path):
    encoder = TextEncoder(vocab_path, seq_len=5)
    rows = encoder(tf.constant(["", "the cafe", "the the the the the"]))
    assert rows.dtype == tf.int32
    assert named(encoder, rows) == [
        ["[CLS]", "[SEP]"],
        ["[CLS]", "the", "cafe", "[SEP]"],
        ["[CLS]", "the", "the", "the", "[SEP]"],
    ]


@pytest.mark.parametrize("tokenizer_variant", ["original", "huggingface"])
@settings(max_examples=60, deadline=None)
@given(texts=st.lists(EDGES | ASCII, max_size=10))
def test_detokenized_tokens_are_the_words_and_give_the_same_tokens_again(round_trip, tokenizer_variant, texts):
    words, tokens, shown, again = round_trip[tokenizer_variant](tf.constant(texts, tf.string))
    for row, (ids, text) in enumerate(zip(tokens.to_list(), shown.numpy(), strict=True)):
        if 1 not in ids:  # [UNK] stays what it is
            assert text == b" ".join(words.to_list()[row])
            assert again.to_list()[row] == ids


@pytest.fixture(scope="module")
def round_trip(vocab_path):
    def make(tokenizer_variant):
        encoder, splitter = (
            TextEncoder(vocab_path, tokenizer_variant=tokenizer_variant),
            WordSplitter(tokenizer_variant=tokenizer_variant),
        )

        def there_and_back(texts):
            tokens = encoder.tokenize(texts)
            shown = encoder.detokenize(tokens)
            return splitter(texts), tokens, shown, encoder.tokenize(shown)

        return tf.function(there_and_back, input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)

    return {tokenizer_variant: make(tokenizer_variant) for tokenizer_variant in ("original", "huggingface")}


def test_detokenized_text_is_without_the_frame_and_the_padding(vocab_path):
    encoder = TextEncoder(vocab_path, tokenizer_variant="huggingface", seq_len=12)
    packed = encoder.pack({"token_ids": encoder.tokenize(tf.constant(["Un-Affable [MASK] ☃!", ""]))})["token_ids"]
    assert [text.decode() for text in encoder.detokenize(packed).numpy()] == ["un - affable [MASK] [UNK] !", ""]
    padded = tf.RaggedTensor.from_tensor(packed.to_tensor())
    assert encoder.detokenize(padded).numpy().tolist() == encoder.detokenize(packed).numpy().tolist()


def test_ids_are_the_lines_of_the_vocabulary(vocab_path):
    encoder = TextEncoder(vocab_path)
    assert (encoder.vocab, encoder.vocab_size) == (VOCAB, len(VOCAB))
    assert (encoder.pad_id, encoder.unk_id, encoder.cls_id, encoder.sep_id, encoder.mask_id) == (0, 1, 2, 3, 4)


def test_an_exported_encoder_carries_its_vocabulary_and_needs_no_other_file(tmp_path):
    vocab_path = write_vocab(tmp_path, VOCAB)
    module = tf.Module()
    module.encoder = TextEncoder(vocab_path)
    module.encode = tf.function(module.encoder.__call__, input_signature=[tf.TensorSpec([None], tf.string)])
    expected = module.encode(tf.constant(SENTENCES)).to_list()
    tf.saved_model.save(module, str(tmp_path / "export"))
    (tmp_path / "export").rename(tmp_path / "moved")
    os.remove(vocab_path)

    loaded = tf.saved_model.load(str(tmp_path / "moved"))
    assert loaded.encode(tf.constant(SENTENCES)).to_list() == expected
    assert read_vocabulary(str(tmp_path / "moved" / "assets" / "vocab.txt")) == VOCAB
    assert str(tmp_path).encode() not in (tmp_path / "moved" / "saved_model.pb").read_bytes()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\na\n", "line 7: 'a' is on line 5 too"),
        ("[PAD]\n[UNK]\n[CLS]\n\n[SEP]\n", "line 4: empty line"),
        ("[PAD]\n[UNK]\n[CLS]\na\n", r"no line \(of 4\) is \[SEP\]"),
        ("", r"no line \(of 0\) is \[PAD\]"),
        (b"[PAD]\n[UNK]\nsn\xf6\n", "line 3: not UTF-8"),
    ],
)
def test_a_faulty_vocabulary_is_refused_with_file_and_line(tmp_path, content, message):
    path = tmp_path / "vocab.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(BertlineError, match=message) as error:
        TextEncoder(str(path))
    assert str(path) in str(error.value)


def test_a_vocabulary_of_nothing_but_special_tokens_is_refused(tmp_path):
    with pytest.raises(BertlineError, match="vocab.txt: no tokenizer can be made from these tokens"):
        TextEncoder(write_vocab(tmp_path, list(SPECIAL_TOKENS)))


def test_a_missing_vocabulary_is_refused_by_name(tmp_path):
    with pytest.raises(BertlineError, match="nowhere.txt: cannot be read"):
        TextEncoder(str(tmp_path / "nowhere.txt"))


def test_line_ends_of_other_systems_and_odd_tokens_are_read(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes("\r\n".join([*SPECIAL_TOKENS, "\u2028", "##", "#"]).encode())
    encoder = TextEncoder(str(path))
    assert encoder.vocab[-3:] == ["\u2028", "##", "#"]
    assert named(encoder, encoder.tokenize(tf.constant(["##"]))) == [["#", "#"]]
