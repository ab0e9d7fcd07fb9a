"""Texts to words, in the graph: clean, lower, strip accents, split at white space, punctuation and Chinese characters.

Two references are matched where they differ: `original` is the tokenizer that BERT was published with, `huggingface`
is the one of the `tokenizers` package.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import tensorflow as tf
import tensorflow_text as tf_text

from bertline.models.tokenization.joiner import JOINER
from bertline.pipeline.config import TokenizerVariant
from bertline.pipeline.core.errors import BertlineError

_PUNCTUATION = r"!-/:-@\[-`{-~\p{P}"
_CHINESE = (  # ideographs only: Hangul and Kana are written with spaces or split by the vocabulary
    r"\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{20000}-\x{2A6DF}\x{2A700}-\x{2B73F}\x{2B740}-\x{2B81F}"
    r"\x{F900}-\x{FAFF}\x{2F800}-\x{2FA1F}"
)
_WIDE_SPACES = r"\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}"  # \p{Z} without " "
ASCII_CONTROLS = r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f"  # tab, line feed and carriage return are white space
_CONTROLS = ASCII_CONTROLS + r"\x{80}-\x{9F}\p{Cf}\x{FFFD}"

# Tokens that are kept whole travel through lower-casing and splitting as noncharacters, which no real text holds;
# should one hold them all the same, they become a noncharacter that no vocabulary has.
_MARKS = [chr(code) for code in range(0xFDD0, 0xFDEF)]
_NOT_A_MARK = "\ufdef"


@dataclass(frozen=True)
class _Rules:
    """What sets one reference tokenizer apart from the other; the strings are insides of RE2 character classes."""

    dropped: str
    alone: str
    """Characters that are a word each."""
    plain: str
    """ASCII texts of these characters only, or of these and `ASCII_CONTROLS`, may take the short way."""
    max_characters: int
    """Longer words are [UNK]."""
    final_sigma: bool
    """Whether a capital sigma at a word's end becomes the final small one."""


_VARIANTS = {
    "original": _Rules(
        dropped=_CONTROLS,
        alone=_PUNCTUATION + _CHINESE + r"\x{2B820}-\x{2CEAF}",
        plain=r"\t\n\r -~",
        max_characters=200,
        final_sigma=True,
    ),
    "huggingface": _Rules(
        dropped=_CONTROLS + r"\p{Co}",
        # `tokenizers` has this block start 256 characters late (2B920 for 2B820).
        alone=_PUNCTUATION + _CHINESE + r"\x{2B920}-\x{2CEAF}",
        plain=r"\t\n\r -Z\\-~",  # without "[", which opens a token that is kept whole
        max_characters=100,
        final_sigma=False,
    ),
}


class WordSplitter:
    """Turns texts into the words that WordPiece then cuts up.

    Args:
      lower: uncased text.
      tokenizer_variant: which reference tokenizer is matched where the two differ.
      strip_accents: whether accents are dropped; as the references do, only from uncased text by default.
      preserve_whitespace: mark with `JOINER` where there was no space between two words, so that they can be written as
        they were.
      kept: tokens in brackets that `huggingface` keeps whole where a text holds them; `original` splits them like any text.
    """

    def __init__(
        self,
        *,
        lower: bool = True,
        tokenizer_variant: TokenizerVariant = "original",
        strip_accents: bool | None = None,
        kept: Sequence[str] = (),
        preserve_whitespace: bool = False,
    ) -> None:
        if len(kept) > len(_MARKS):
            raise BertlineError(f"{len(kept)} tokens to keep whole; the limit is {len(_MARKS)}.")
        self.lower = lower
        self.strip_accents = lower if strip_accents is None else strip_accents
        self.marks = dict(zip(kept, _MARKS, strict=False)) if tokenizer_variant == "huggingface" else {}
        self.preserve_whitespace = preserve_whitespace
        self._rules = _VARIANTS[tokenizer_variant]
        self._alone = self._rules.alone + "".join(self.marks.values())
        self.plain = self._rules.plain
        self.max_characters = self._rules.max_characters

    def __call__(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """[batch] string -> [batch, (words)] string; a kept token stands as its mark."""
        return self.split(self.normalise(self.mark(texts)))

    def mark(self, texts: tf.Tensor) -> tf.Tensor:
        """Puts one character in the place of each kept token."""
        if self.marks:
            texts = tf.strings.regex_replace(texts, f"[{''.join(self.marks.values())}]", _NOT_A_MARK)
        for token, mark in self.marks.items():
            texts = tf.strings.regex_replace(texts, rf"\[{token[1:-1]}\]", mark)
        return texts

    def normalise(self, texts: tf.Tensor) -> tf.Tensor:
        """Drops control characters and ill-formed bytes; for uncased text also lower-cases and drops accents.

        Args:
          texts: [batch] string.
        Returns:
          [batch] string, well-formed UTF-8.
        """
        texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="ignore")
        dropped = self._rules.dropped + (JOINER if self.preserve_whitespace else "")
        texts = tf.strings.regex_replace(texts, f"[{dropped}]+", "")
        if self.lower:
            if not self._rules.final_sigma:
                texts = tf.strings.regex_replace(texts, "Σ", "σ")
            # ICU lowers by the rules of the process's locale: in Turkish "I" would lose its dot. ASCII first forestalls it.
            texts = tf.strings.lower(tf.strings.lower(texts), encoding="utf-8")
        if self.strip_accents:
            texts = tf.strings.regex_replace(tf_text.normalize_utf8(texts, "NFD"), r"\p{Mn}+", "")
        return texts

    def split(self, normalised: tf.Tensor) -> tf.RaggedTensor:
        """Splits normalised texts at white space, and around each punctuation mark and Chinese character.

        Args:
          normalised: [batch] string, from `normalise`.
        Returns:
          [batch, (words)] string.
        """
        if self.preserve_whitespace:
            return self._split_joined(normalised)
        # A wide space matches without the group, so that both cases become spaces in one pass.
        spaced = tf.strings.regex_replace(normalised, rf"([{self._alone}])|[{_WIDE_SPACES}]", r" \1 ")
        return tf.strings.split(spaced)

    def _split_joined(self, normalised: tf.Tensor) -> tf.RaggedTensor:
        runs = tf.strings.split(tf.strings.regex_replace(normalised, f"[{_WIDE_SPACES}]", " "))  # [batch, (runs)]
        words = tf.strings.split(tf.strings.regex_replace(runs.flat_values, rf"([{self._alone}])", r" \1 "))
        flat = words.flat_values
        follows = tf.ragged.range(words.row_lengths()).flat_values > 0
        alone = tf.strings.regex_full_match(flat, f"[{self._alone}]")
        # A token that is kept whole has no second form; whatever stands beside it is written with a space.
        kept = tf.strings.regex_full_match(flat, f"[{_MARKS[0]}-{_MARKS[-1]}]")
        leans_back = follows & alone & ~kept
        leans_on = tf.concat([(follows & ~alone)[1:], tf.zeros([tf.minimum(tf.size(flat), 1)], tf.bool)], axis=0) & ~kept
        marked = tf.where(leans_back, JOINER, "") + flat + tf.where(leans_on, JOINER, "")
        return runs.with_values(words.with_flat_values(marked)).merge_dims(1, 2)
