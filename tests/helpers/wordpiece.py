"""The original BERT tokenization in plain Python, character by character, with offsets: what the graph is compared with."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import tensorflow as tf
from hypothesis import strategies as st

from bertline.models.tokenization.tokenizer import TextEncoder
from bertline.models.tokenization.vocabulary import SPECIAL_TOKENS

Origin = tuple[str, int]  # a character, and which one of the text it comes from


class ReferenceToken(NamedTuple):
    name: str
    start: int
    end: int
    word: int


def words_of(text: str, lower: bool) -> list[tuple[str, int, int]]:
    """The words with their places in the text."""
    return [("".join(char for char, _ in word), word[0][1], word[-1][1] + 1) for word in _words(text, lower)]


def reference_tokens(text: str, lower: bool, vocab: Sequence[str], limit: int = 200) -> list[ReferenceToken]:
    """The tokens with their places in the text and the numbers of their words."""
    found = []
    for number, word in enumerate(_words(text, lower)):
        begin = 0
        for name in _greedy("".join(character for character, _ in word), vocab, limit):
            length = len(word) if name == "[UNK]" else len(name) - 2 * (begin > 0)
            found.append(ReferenceToken(name, word[begin][1], word[begin + length - 1][1] + 1, number))
            begin += length
    return found


def names_of(text: str, lower: bool, vocab: Sequence[str]) -> list[str]:
    return [token.name for token in reference_tokens(text, lower, vocab)]


def _words(text: str, lower: bool) -> list[list[Origin]]:
    """Clean, space Chinese characters, split at white space, lower and strip accents, split at punctuation."""
    cleaned: list[Origin] = []
    for index, character in enumerate(text):
        category = unicodedata.category(character)
        if character in "\t\n\r" or category == "Zs":
            cleaned.append((" ", index))
        elif _is_chinese(ord(character)):
            cleaned += [(" ", index), (character, index), (" ", index)]
        elif character not in "\0\ufffd" and category not in ("Cc", "Cf"):
            cleaned.append((character, index))
    words = []
    for word in _split(cleaned, str.isspace):
        if lower:
            word = [origin for origin in _decomposed(_lowered(word)) if unicodedata.category(origin[0]) != "Mn"]
        words += _split(word, str.isspace, _is_punctuation)
    return words


def _split(origins, is_gap, is_alone=lambda character: False) -> list[list[Origin]]:
    words: list[list[Origin]] = [[]]
    for origin in origins:
        if is_gap(origin[0]):
            words.append([])
        elif is_alone(origin[0]):
            words += [[origin], []]
        else:
            words[-1].append(origin)
    return [word for word in words if word]


def _lowered(word: list[Origin]) -> list[Origin]:
    """As a whole, for a sigma at the end of a word is another one than inside."""
    lowered = "".join(character for character, _ in word).lower()
    return list(zip(lowered, (index for character, index in word for _ in character.lower()), strict=True))


def _decomposed(word: list[Origin]) -> list[Origin]:
    decomposed = unicodedata.normalize("NFD", "".join(character for character, _ in word))
    origins = (index for character, index in word for _ in unicodedata.normalize("NFD", character))
    return list(zip(decomposed, origins, strict=True))


def _is_chinese(code: int) -> bool:
    ranges = ((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F))
    ranges += ((0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F))
    return any(first <= code <= last for first, last in ranges)


def _is_punctuation(character: str) -> bool:
    if character.isascii():
        return character.isprintable() and not character.isalnum() and character != " "
    return unicodedata.category(character).startswith("P")


def _greedy(word: str, vocab: Sequence[str], limit: int) -> list[str]:
    """Greedy longest match; a word that cannot be covered is unknown as a whole."""
    tokens, start = [], 0
    while start < len(word) <= limit:
        candidates = (("##" if start else "") + word[start:end] for end in range(len(word), start, -1))
        token = next((candidate for candidate in candidates if candidate in vocab), None)
        if token is None:
            return ["[UNK]"]
        tokens.append(token)
        start += len(token) - 2 * (start > 0)
    return tokens or ["[UNK]"]


def write_vocab(folder: Path, tokens: Sequence[str]) -> str:
    path = folder / "vocab.txt"
    path.write_bytes("".join(f"{token}\n" for token in tokens).encode())
    return str(path)


def named(encoder, ids: tf.RaggedTensor) -> list[list[str]]:
    return [[encoder.vocab[i] for i in row] for row in ids.to_list()]


def described(encoder, tokens) -> list[list[ReferenceToken]]:
    """Tokens of the graph as the reference writes them."""
    columns = [named(encoder, tokens["token_ids"])]
    columns += [tokens[name].to_list() for name in ("start_chars", "end_chars", "word_ids")]
    return [[ReferenceToken(*values) for values in zip(*rows, strict=True)] for rows in zip(*columns, strict=True)]


class Graphs:
    """The ways into an encoder, each traced once for batches of every size."""

    def __init__(self, vocab_path, tokenizer_variant, lower):
        self.encoder = TextEncoder(vocab_path, tokenizer_variant=tokenizer_variant, lower=lower)
        texts = tf.TensorSpec([None], tf.string)
        words = tf.RaggedTensorSpec([None, None], tf.string)
        self.tokens, self.tokenize = (
            tf.function(function, input_signature=[texts], autograph=False)
            for function in (self.encoder.tokens, self.encoder.tokenize)
        )
        self.word_tokens = tf.function(self.encoder.word_tokens, input_signature=[words], autograph=False)

    def __call__(self, texts):
        return described(self.encoder, self.tokens(tf.constant(texts, tf.string)))


def known_differences(*reasons: str) -> set[int]:
    """Code points that are listed in `code_points_that_differ.txt` under these reasons."""
    found: dict[str, set[int]] = {}
    for line in (
        (Path(__file__).parents[1] / "data" / "code_points_that_differ.txt").read_text(encoding="utf-8").splitlines()
    ):
        if line and not line.startswith("#"):
            reason, ranges = line.split(": ")
            bounds = [part.partition("-") for part in ranges.split()]
            codes = {code for first, _, last in bounds for code in range(int(first, 16), int(last or first, 16) + 1)}
            found.setdefault(reason, set()).update(codes)
    return set().union(*(found[reason] for reason in reasons))


LETTERS = "abcdefghijklmnopqrstuvwxyzσςоαβгдıßéÉA"
SINGLE = LETTERS + "0123456789" + "!?.,-'’…。、「」[]#" + "中文東京" + "かな" + "\u1112\u1161\u11ab한" + "🙂" + "\u0301"
VOCAB = [
    *SPECIAL_TOKENS,
    *SINGLE,
    *(f"##{character}" for character in SINGLE),
    *("the", "##ing", "un", "##aff", "##able", "cafe", "café", "##ab", "abc", "##bcd", "cls", "mask"),
]

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

_NEWER_LETTERS = known_differences("original, capitals", "original, letters")
EDGES = st.text("aAbBΣσςéÉe\u0301\u030a \t\n\x00\x01\u00ad\u200d\u3000\u00a0中東かҐ한[]#.'’。ıİI🙂1\ufffd")
ASCII = st.text(st.characters(max_codepoint=127))
ANYTHING = st.text(st.characters(exclude_categories=["Cs", "Cn"], exclude_characters=map(chr, _NEWER_LETTERS)))
