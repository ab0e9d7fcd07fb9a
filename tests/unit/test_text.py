"""The in-graph WordPiece against a plain Python reading of the original BERT tokenization."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import BertWordPieceTokenizer

from models.text import SPECIAL_PIECES, TextEncoder, normalise, read_vocabulary, split_words
from pipeline.errors import BertlineError

LETTERS = "abcdefghijklmnopqrstuvwxyzσςоαβгдıßéÉA"
SINGLE = LETTERS + "0123456789" + "!?.,-'’…。、「」[]#" + "中文東京" + "かな" + "\u1112\u1161\u11ab한" + "🙂" + "\u0301"
VOCAB = [
    *SPECIAL_PIECES,
    *SINGLE,
    *(f"##{character}" for character in SINGLE),
    *("the", "##ing", "un", "##aff", "##able", "cafe", "café", "##ab", "abc", "##bcd", "cls", "mask"),
]

# Known differences, all of them letters of Unicode 14 or accents of Unicode 15; the reference has Unicode 14.
# ICU in TensorFlow 2.16 has Unicode 13: it leaves these capitals as they are ...
NEW_CAPITALS = {0x2C2F, 0xA7C0, 0xA7D0, 0xA7D6, 0xA7D8}
# ... does not see that these letters continue a word, so that a sigma before them becomes a final one ...
NEW_LETTERS = NEW_CAPITALS | {0x2C5F, 0xA7C1, 0xA7D1, 0xA7D3, 0xA7D5, 0xA7D7, 0xA7D9}
# ... and beyond the BMP neither knows the Vithkuqi script, some phonetic letters and one decomposition.
NEWER_THAN_ICU = {*NEW_LETTERS, *range(0x10570, 0x105BD), *range(0x1DF00, 0x1DF1F), 0x11938}
# RE2 has Unicode 15: it drops this accent, which the reference does not know.
NEW_ACCENTS = {0x0ECE}

SENTENCES = [
    "The café's crème brûlée was naïve, coöperative & ÉLAN itself!",
    "cafe\u0301 A\u030a \u1e9b\u0323 \u0344",
    "full\u3000width\u00a0spaces\u2003and\u202flines\u2028here\u2029there\u0085next\u1680ogham",
    "他说：“东京，中文。”（真的？）豈更車﹏",
    "東京タワー かな ｶﾅ 한국어 한 \u1112\u1161\u11ab",
    "emoji 🙂🙂‍↔️ 👩‍👩‍👧 flags 🇫🇷 keycap 1️⃣",
    "zero\u200bwidth soft\u00adhyphen bom\ufeff \u202ertl\u202c",
    "ΟΔΥΣΣΕΥΣ ΣΑΣ Σ ΑΣ. ΑΣ'Α ΑΣ\u00adΑ ΑΣ\x01Α ΑΣ中",
    "İstanbul ISPARTA ıI ﬁn Straße STRASSE ẞ \u212a \u212b \u037e",
    "tabs\tand\nlines\r\nand\x0bvertical\x0cfeeds\x00nul\x7fdel\x1funit",
    "unaffable unaffing [CLS] [MASK]x[SEP] [UNK] [cls] #hash ##ing",
    "\ufffd \ufffda b\ufffdc \ue000 \ufdd0 a\ufdd1b \U0002b820a\U0002b925b\U0002f800",
    "a" * 199 + " " + "a" * 200 + " " + "a" * 201 + " " + "é" * 200 + " " + "é" * 201 + " " + "中" * 201,
    "ק\u05b8ר\u05b5א हिन्दी ไทย العَرَبِيَّة ภาษา",
    "",
    " ",
    "\x00",
    "\u0301",
]


def reference_words(text: str, lower: bool) -> list[str]:
    """Clean, space Chinese characters, split at white space, lower and strip accents, split at punctuation."""
    cleaned = []
    for character in text:
        category = unicodedata.category(character)
        if character in "\t\n\r" or category == "Zs":
            cleaned.append(" ")
        elif is_chinese(ord(character)):
            cleaned.append(f" {character} ")
        elif character not in "\0\ufffd" and category not in ("Cc", "Cf"):
            cleaned.append(character)
    words = []
    for word in "".join(cleaned).split():
        if lower:
            word = unicodedata.normalize("NFD", word.lower())
            word = "".join(character for character in word if unicodedata.category(character) != "Mn")
        words += "".join(f" {character} " if is_punctuation(character) else character for character in word).split()
    return words


def is_chinese(code: int) -> bool:
    ranges = ((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F))
    ranges += ((0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F))
    return any(first <= code <= last for first, last in ranges)


def is_punctuation(character: str) -> bool:
    if character.isascii():
        return character.isprintable() and not character.isalnum() and character != " "
    return unicodedata.category(character).startswith("P")


def reference_pieces(word: str, vocab: list[str], limit: int = 200) -> list[str]:
    """Greedy longest match; a word that cannot be covered is unknown as a whole."""
    pieces, start = [], 0
    while start < len(word) <= limit:
        candidates = (("##" if start else "") + word[start:end] for end in range(len(word), start, -1))
        piece = next((candidate for candidate in candidates if candidate in vocab), None)
        if piece is None:
            return ["[UNK]"]
        pieces.append(piece)
        start += len(piece) - 2 * (start > 0)
    return pieces or ["[UNK]"]


def reference(text: str, lower: bool, vocab: list[str]) -> list[str]:
    return [piece for word in reference_words(text, lower) for piece in reference_pieces(word, vocab)]


def write_vocab(folder: Path, pieces: list[str]) -> str:
    path = folder / "vocab.txt"
    path.write_bytes("".join(f"{piece}\n" for piece in pieces).encode())
    return str(path)


def named(encoder: TextEncoder, ids: tf.RaggedTensor) -> list[list[str]]:
    return [[encoder.vocab[i] for i in row] for row in ids.to_list()]


@pytest.fixture(scope="module")
def vocab_path(tmp_path_factory) -> str:
    return write_vocab(tmp_path_factory.mktemp("vocab"), VOCAB)


@pytest.fixture(scope="module")
def traced(vocab_path):
    """lower -> a function from texts to named pieces, traced once for batches of every size."""

    def trace(lower: bool):
        encoder = TextEncoder(vocab_path, lower=lower)
        pieces = tf.function(encoder.pieces, input_signature=[tf.TensorSpec([None], tf.string)])
        return lambda texts: named(encoder, pieces(tf.constant(texts, tf.string)))

    return {lower: trace(lower) for lower in (True, False)}


@pytest.mark.parametrize(
    ("around", "lower", "known"),
    [
        ("{}", False, set()),
        ("a{}B", False, set()),
        ("{}", True, NEW_CAPITALS | NEW_ACCENTS),
        ("a{}B", True, NEW_CAPITALS | NEW_ACCENTS),
        ("aΣ{} {}x", True, NEW_LETTERS | NEW_ACCENTS),
    ],
)
def test_every_bmp_code_point_splits_like_the_reference(around, lower, known):
    codes = [code for code in range(0x10000) if not 0xD800 <= code <= 0xDFFF]
    texts = [around.replace("{}", chr(code)) for code in codes]
    words = split_words(normalise(tf.constant(texts), lower=lower)).to_list()
    differing = {
        code
        for code, text, found in zip(codes, texts, words, strict=True)
        if [word.decode() for word in found] != reference_words(text, lower)
    }
    assert differing == known


@pytest.mark.parametrize("lower", [True, False])
def test_unicode_rich_sentences_give_the_references_pieces(traced, lower):
    assert traced[lower](SENTENCES) == [reference(text, lower, VOCAB) for text in SENTENCES]


EDGES = st.text("aAbBΣσςéÉe\u0301\u030a \t\n\x00\x01\u00ad\u200d\u3000\u00a0中東かҐ한[]#.'’。ıİI🙂1\ufffd")
ASCII = st.text(st.characters(max_codepoint=127))
ANYTHING = st.text(st.characters(exclude_categories=["Cs", "Cn"], exclude_characters=map(chr, NEWER_THAN_ICU)))


@pytest.mark.parametrize("lower", [True, False])
@settings(max_examples=60, deadline=None)
@given(texts=st.lists(EDGES | ASCII | ANYTHING, max_size=20))
def test_mixed_scripts_give_the_references_pieces(traced, lower, texts):
    assert traced[lower](texts) == [reference(text, lower, VOCAB) for text in texts]


@settings(max_examples=15, deadline=None)
@given(
    pieces=st.lists(st.from_regex(r"\A(##)?[abcé]{1,4}\Z"), min_size=1, max_size=25, unique=True),
    words=st.lists(st.text("abcé", min_size=1, max_size=8), max_size=20),
)
def test_any_vocabulary_is_matched_greedily(tmp_path_factory, pieces, words):
    vocab = [*SPECIAL_PIECES, *pieces]
    encoder = TextEncoder(write_vocab(tmp_path_factory.mktemp("greedy"), vocab), lower=False)
    found = named(encoder, encoder.pieces(tf.constant(words, tf.string)))
    assert found == [reference(word, False, vocab) for word in words]


@settings(max_examples=60, deadline=None)
@given(texts=st.lists(st.binary(max_size=12) | st.text("aé中🙂").map(lambda text: text.encode()[1:]), max_size=20))
def test_ill_formed_bytes_are_dropped(traced, texts):
    repaired = [text.decode("utf-8", errors="replace") for text in texts]
    assert traced[False](texts) == [reference(text, False, VOCAB) for text in repaired]


def test_an_empty_batch_gives_no_rows(traced):
    assert traced[True]([]) == []


def test_huggingface_reading_keeps_special_pieces_and_cuts_at_100_characters(vocab_path):
    encoder = TextEncoder(vocab_path, reading="huggingface")
    texts = ["a[MASK]b [cls] [SEP].", "é[CLS]É[PAD][UNK]", "é" * 100 + " " + "é" * 101, "a" * 101]
    texts += ["ΑΣ [M\x00ASK] \ufdd4"]
    assert named(encoder, encoder.pieces(tf.constant(texts))) == [
        ["a", "[MASK]", "b", "[", "cls", "]", "[SEP]", "."],
        ["e", "[CLS]", "e", "[PAD]", "[UNK]"],
        ["e"] + ["##e"] * 99 + ["[UNK]"],
        ["[UNK]"],
        ["α", "##σ", "[", "mask", "]", "[UNK]"],
    ]


@pytest.mark.parametrize("lower", [True, False])
def test_huggingface_reading_gives_the_pieces_of_the_tokenizers_package(vocab_path, lower):
    theirs = BertWordPieceTokenizer(vocab_path, lowercase=lower)
    encoder = TextEncoder(vocab_path, lower=lower, reading="huggingface")
    expected = [theirs.encode(text, add_special_tokens=False).tokens for text in SENTENCES]
    assert named(encoder, encoder.pieces(tf.constant(SENTENCES))) == expected


def test_a_call_packs_and_cuts_to_seq_len(vocab_path):
    encoder = TextEncoder(vocab_path, seq_len=5)
    rows = encoder(tf.constant(["", "the cafe", "the the the the the"]))
    assert rows.dtype == tf.int32
    assert named(encoder, rows) == [
        ["[CLS]", "[SEP]"],
        ["[CLS]", "the", "cafe", "[SEP]"],
        ["[CLS]", "the", "the", "the", "[SEP]"],
    ]


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
        ("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\na\n", "line 7: 'a' stands on line 5 too"),
        ("[PAD]\n[UNK]\n[CLS]\n\n[SEP]\n", "line 4: the line is empty"),
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


def test_a_vocabulary_of_nothing_but_special_pieces_is_refused(tmp_path):
    with pytest.raises(BertlineError, match="vocab.txt: no tokenizer can be made of these pieces"):
        TextEncoder(write_vocab(tmp_path, list(SPECIAL_PIECES)))


def test_a_missing_vocabulary_is_refused_by_name(tmp_path):
    with pytest.raises(BertlineError, match="nowhere.txt: cannot be read"):
        TextEncoder(str(tmp_path / "nowhere.txt"))


def test_line_ends_of_other_systems_and_odd_pieces_are_read(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes("\r\n".join([*SPECIAL_PIECES, "\u2028", "##", "#"]).encode())
    encoder = TextEncoder(str(path))
    assert encoder.vocab[-3:] == ["\u2028", "##", "#"]
    assert named(encoder, encoder.pieces(tf.constant(["##"]))) == [["#", "#"]]
