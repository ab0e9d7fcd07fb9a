"""WordPiece inside the graph: the one tokenizer of Transform, training and the served model.

Three steps, each a function of its own: `normalise` (clean, lower, strip accents), `split_words` (white space,
punctuation, Chinese characters) and `TextEncoder.pieces` (greedy longest match). All are TensorFlow ops, so they trace
in tf.data and tf.Transform and export in a SavedModel; nothing is tokenized a second way at serving time.

Two references are matched where they differ: `original` is the tokenizer that BERT was published with, `huggingface`
is the one of the `tokenizers` package.
"""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf
import tensorflow_text as tf_text

from pipeline.config import Reading
from pipeline.errors import BertlineError

PAD, UNK, CLS, SEP, MASK = SPECIAL_PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

# Special pieces that `huggingface` finds in a text travel through lower-casing and splitting as noncharacters, which
# no real text holds; should one hold them all the same, it becomes a noncharacter that no vocabulary has.
_MARKS = dict(zip(SPECIAL_PIECES, "\ufdd0\ufdd1\ufdd2\ufdd3\ufdd4", strict=True))
_NOT_A_MARK = "\ufdef"

_PUNCTUATION = r"!-/:-@\[-`{-~\p{P}"
_CHINESE = (  # ideographs only: Hangul and Kana are written with spaces or split by the vocabulary
    r"\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{20000}-\x{2A6DF}\x{2A700}-\x{2B73F}\x{2B740}-\x{2B81F}"
    r"\x{F900}-\x{FAFF}\x{2F800}-\x{2FA1F}"
)
_WIDE_SPACES = r"\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}"  # \p{Z} without " "
_ASCII_CONTROLS = r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f"  # tab, line feed and carriage return are white space
_CONTROLS = _ASCII_CONTROLS + r"\x{80}-\x{9F}\p{Cf}\x{FFFD}"


@dataclass(frozen=True)
class _Reading:
    """What sets one reference tokenizer apart from the other; the strings are insides of RE2 character classes."""

    dropped: str
    alone: str
    """Characters that are a word each."""
    plain: str
    """Texts of these characters only may take the short way."""
    max_characters: int
    """Longer words are [UNK]."""
    final_sigma: bool
    """Whether a capital sigma at a word's end becomes the final small one."""


_READINGS = {
    "original": _Reading(
        dropped=_CONTROLS,
        alone=_PUNCTUATION + _CHINESE + r"\x{2B820}-\x{2CEAF}",
        plain=r"\x00-\x7f",
        max_characters=200,
        final_sigma=True,
    ),
    "huggingface": _Reading(
        dropped=_CONTROLS + r"\p{Co}",
        # `tokenizers` has this block start 256 characters late (2B920 for 2B820).
        alone=_PUNCTUATION + _CHINESE + r"\x{2B920}-\x{2CEAF}" + "".join(_MARKS.values()),
        plain=r"\x00-Z\\-\x7f",  # without "[", which may open a special piece
        max_characters=100,
        final_sigma=False,
    ),
}


def normalise(texts: tf.Tensor, *, lower: bool, reading: Reading = "original") -> tf.Tensor:
    """Drops control characters and ill-formed bytes; for uncased text also lower-cases and drops accents.

    Args:
      texts: [batch] string.
    Returns:
      [batch] string, well-formed UTF-8.
    """
    rules = _READINGS[reading]
    texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="ignore")
    texts = tf.strings.regex_replace(texts, f"[{rules.dropped}]+", "")
    if not lower:
        return texts
    if not rules.final_sigma:
        texts = tf.strings.regex_replace(texts, "Σ", "σ")
    # ICU lowers by the rules of the process's locale: in Turkish "I" would lose its dot. ASCII first forestalls it.
    texts = tf.strings.lower(tf.strings.lower(texts), encoding="utf-8")
    return tf.strings.regex_replace(tf_text.normalize_utf8(texts, "NFD"), r"\p{Mn}+", "")


def split_words(normalised: tf.Tensor, *, reading: Reading = "original") -> tf.RaggedTensor:
    """Splits normalised texts at white space, and around each punctuation mark and Chinese character.

    Args:
      normalised: [batch] string, from `normalise`.
    Returns:
      [batch, (words)] string.
    """
    # A wide space matches without the group, so that both cases become spaces in one pass.
    spaced = tf.strings.regex_replace(normalised, rf"([{_READINGS[reading].alone}])|[{_WIDE_SPACES}]", r" \1 ")
    return tf.strings.split(spaced)


class TextEncoder(tf.Module):
    """Turns texts into ids of WordPieces.

    Args:
      vocab_path: file with one piece a line; a piece's id is its line.
      lower: uncased text: lower-cased, accents dropped.
      reading: which reference tokenizer is matched where the two differ.
      seq_len: ids that a call returns at most, [CLS] and [SEP] included.

    Example:
      >>> encoder = TextEncoder("vocab.txt", seq_len=128)
      >>> encoder(tf.constant(["Hello, world!"]))
      <tf.RaggedTensor [[101, 7592, 1010, 2088, 999, 102]]>
    """

    def __init__(self, vocab_path: str, *, lower: bool = True, reading: Reading = "original", seq_len: int = 128):
        super().__init__(name="text_encoder")
        self.lower, self.reading, self.seq_len = lower, reading, seq_len
        self.vocab = read_vocabulary(vocab_path)
        self.vocab_size = len(self.vocab)
        self.pad_id, self.unk_id, self.cls_id, self.sep_id = map(self.vocab.index, (PAD, UNK, CLS, SEP))
        self.mask_id = self.vocab.index(MASK) if MASK in self.vocab else None
        # The file itself travels in a SavedModel's assets/; the ops below work on what was made of it.
        self.vocab_asset = tf.saved_model.Asset(vocab_path)

        self._max_characters = _READINGS[reading].max_characters
        self._max_bytes = 4 * self._max_characters
        marked = [piece if piece == UNK else _MARKS.get(piece, piece) for piece in self.vocab]
        try:
            with tf.init_scope():
                self._words_to_pieces = tf_text.FastWordpieceTokenizer(
                    marked if reading == "huggingface" else list(self.vocab),
                    max_bytes_per_word=self._max_bytes,
                    token_out_type=tf.int32,
                    no_pretokenization=True,
                )
                self._ascii_to_pieces = tf_text.FastWordpieceTokenizer(
                    list(self.vocab), max_bytes_per_word=self._max_characters, token_out_type=tf.int32
                )
        except RuntimeError as error:  # for example when it holds nothing but special pieces
            raise BertlineError(f"{vocab_path}: no tokenizer can be made of these pieces: {error}") from None

    def __call__(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """[batch] string -> [batch, (≤ seq_len)] int32: [CLS], the text's pieces, cut to length, [SEP]."""
        pieces = self.pieces(texts)[:, : self.seq_len - 2]
        column = [pieces.nrows(), 1]
        return tf.concat([tf.fill(column, self.cls_id), pieces, tf.fill(column, self.sep_id)], axis=1)

    def pieces(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """[batch] string -> [batch, (pieces)] int32, without [CLS] and [SEP] and of any length."""
        # ASCII needs neither NFD nor Unicode classes, and is most of many a corpus: less than half the time, equal ids.
        is_plain = tf.strings.regex_full_match(texts, f"[{_READINGS[self.reading].plain}]*")
        plain, other = tf.where(is_plain)[:, 0], tf.where(~is_plain)[:, 0]
        pieces = tf.concat(
            [self._pieces_of_ascii(tf.gather(texts, plain)), self._pieces_of_any(tf.gather(texts, other))], axis=0
        )
        return tf.gather(pieces, tf.math.invert_permutation(tf.concat([plain, other], axis=0)))

    def _pieces_of_ascii(self, texts: tf.Tensor) -> tf.RaggedTensor:
        texts = tf.strings.regex_replace(texts, f"[{_ASCII_CONTROLS}]+", "")
        return self._ascii_to_pieces.tokenize(tf.strings.lower(texts) if self.lower else texts)

    def _pieces_of_any(self, texts: tf.Tensor) -> tf.RaggedTensor:
        if self.reading == "huggingface":
            texts = self._mark_special_pieces(texts)
        words = split_words(normalise(texts, lower=self.lower, reading=self.reading), reading=self.reading)
        # The op's own limit is in bytes, the references' in characters: a word that is too long for it stands in.
        too_long = tf.strings.length(words.flat_values, unit="UTF8_CHAR") > self._max_characters
        words = words.with_flat_values(tf.where(too_long, "x" * (self._max_bytes + 1), words.flat_values))
        return self._words_to_pieces.tokenize(words).merge_dims(1, 2)

    def _mark_special_pieces(self, texts: tf.Tensor) -> tf.Tensor:
        texts = tf.strings.regex_replace(texts, f"[{''.join(_MARKS.values())}]", _NOT_A_MARK)
        for piece, mark in _MARKS.items():
            if piece in self.vocab:
                texts = tf.strings.regex_replace(texts, rf"\[{piece[1:-1]}\]", mark)
        return texts


def read_vocabulary(path: str) -> list[str]:
    """The pieces of a vocabulary file, in order; BertlineError if it cannot serve as one."""
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            lines = file.read().split(b"\n")
    except tf.errors.OpError:
        raise BertlineError(f"{path}: cannot be read as a vocabulary; name a file with one WordPiece a line.") from None
    if lines[-1] == b"":
        lines.pop()
    line_of: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        where = f"{path}, line {number}"
        try:
            piece = line.removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError:
            raise BertlineError(f"{where}: not UTF-8; save the vocabulary as UTF-8.") from None
        if not piece:
            raise BertlineError(f"{where}: the line is empty; every line must hold a piece, for its number is the id.")
        if piece in line_of:
            raise BertlineError(f"{where}: {piece!r} stands on line {line_of[piece]} too; keep it once.")
        line_of[piece] = number
    for piece in (PAD, UNK, CLS, SEP):
        if piece not in line_of:
            raise BertlineError(f"{path}: no line (of {len(lines)}) is {piece}; a BERT vocabulary has it.")
    return list(line_of)
