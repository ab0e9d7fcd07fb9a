"""WordPiece inside the graph: the one tokenizer of Transform, training and the served model.

Words come from `bertline.models.tokenization.normalizer`, tokens by greedy longest match, their places in the original
text from `bertline.models.tokenization.offsets`, and [CLS], [SEP], pairs and windows from
`bertline.models.tokenization.packing`. All are TensorFlow ops, so they trace in tf.data and tf.Transform and export in a
SavedModel; nothing is tokenized a second way at serving time.
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf
import tensorflow_text as tf_text

from bertline.models.tokenization import packing
from bertline.models.tokenization.joiner import JOINER
from bertline.models.tokenization.normalizer import ASCII_CONTROLS, WordSplitter
from bertline.models.tokenization.offsets import locate
from bertline.models.tokenization.packing import Sliding, Tokens, Windows
from bertline.models.tokenization.vocabulary import CLS, CONTINUATION, MASK, PAD, SEP, SPECIAL_TOKENS, UNK, read_vocabulary
from bertline.pipeline.config import Long, TextConfig, TokenizerVariant
from bertline.pipeline.core.errors import BertlineError


class TextEncoder(tf.Module):
    """Turns texts into ids of WordPieces, and says where each token stands.

    Args:
      vocab_path: file with one token a line; a token's id is its line.
      lower: uncased text: lower-cased, accents dropped.
      tokenizer_variant: which reference tokenizer is matched where the two differ.
      seq_len: ids that a packed row has at most, [CLS] and [SEP] included.
      strip_accents: whether accents are dropped; by default from uncased text only.
      reserved: further tokens that the variant `huggingface` keeps whole, like the special ones.
      long: what `pack` keeps of a text that is longer; with `auto` all that any of the others may need.
      window_step: tokens from one window of a long text to the next; half of a window by default.
      max_windows: windows that `long` reads of a text at most.
      preserve_whitespace: keep in the tokens which words stood together without a space, for `detokenize` to write them so.

    Example:
      >>> encoder = TextEncoder("vocab.txt", seq_len=128)
      >>> encoder(tf.constant(["Hello, world!"]))
      <tf.RaggedTensor [[101, 7592, 1010, 2088, 999, 102]]>
      >>> encoder.tokens(tf.constant(["Hello, world!"]))["start_chars"]
      <tf.RaggedTensor [[0, 5, 7, 12]]>
    """

    def __init__(
        self,
        vocab_path: str,
        *,
        lower: bool = True,
        tokenizer_variant: TokenizerVariant = "original",
        seq_len: int = 128,
        strip_accents: bool | None = None,
        reserved: tuple[str, ...] = (),
        long: Long = "cut",
        window_step: int | None = None,
        max_windows: int = 8,
        preserve_whitespace: bool = False,
    ):
        super().__init__(name="text_encoder")
        self.tokenizer_variant, self.seq_len, self.long = tokenizer_variant, seq_len, long
        self.window_step = window_step or max(1, (seq_len - 2) // 2)
        self.sliding = Sliding.over(seq_len, window_step, max_windows)
        self.vocab = read_vocabulary(vocab_path)
        self.vocab_size = len(self.vocab)
        self.pad_id, self.unk_id, self.cls_id, self.sep_id = map(self.vocab.index, (PAD, UNK, CLS, SEP))
        self.mask_id = self.vocab.index(MASK) if MASK in self.vocab else None
        # The file itself travels in a SavedModel's assets/; the ops below work on what was made of it.
        self.vocab_asset = tf.saved_model.Asset(vocab_path)

        kept = [token for token in (*SPECIAL_TOKENS, *reserved) if token in self.vocab]
        self._splitter = WordSplitter(
            lower=lower,
            tokenizer_variant=tokenizer_variant,
            strip_accents=strip_accents,
            kept=kept,
            preserve_whitespace=preserve_whitespace,
        )
        self._max_bytes = 4 * self._splitter.max_characters
        # The op itself needs its [UNK] under its own name; in a text it travels as a mark that no vocabulary has.
        in_words = [token if token == UNK else self._splitter.marks.get(token, token) for token in self.vocab]
        self._continues = [token.startswith(CONTINUATION) for token in in_words]
        self._unseen = (
            JOINER if preserve_whitespace else ""
        )  # in a text that is not joined, it is a character like any other
        self._characters = [len(token.removeprefix(CONTINUATION).replace(self._unseen, "")) for token in in_words]
        try:
            with tf.init_scope():
                self._words_to_pieces = tf_text.FastWordpieceTokenizer(
                    in_words, max_bytes_per_word=self._max_bytes, token_out_type=tf.int32, no_pretokenization=True
                )
                self._ascii_to_pieces = tf_text.FastWordpieceTokenizer(
                    self.vocab, max_bytes_per_word=self._splitter.max_characters, token_out_type=tf.int32
                )
        except RuntimeError as error:  # for example when it holds nothing but special tokens
            raise BertlineError(f"{vocab_path}: no tokenizer can be made from these tokens: {error}") from None

    @classmethod
    def from_config(cls, vocab_path: str, text: TextConfig, *, undecided: bool = False) -> TextEncoder:
        """
        Args:
          undecided: whether the training is to see first how long the texts are; else `auto` cuts them.
        """
        if undecided:
            long: Long = "auto" if text.long in ("auto", "windows") else text.long
        else:
            long = "cut" if text.long == "auto" else text.long
        return cls(
            vocab_path,
            lower=text.lowercase,
            tokenizer_variant=text.tokenizer_variant,
            seq_len=text.seq_len,
            strip_accents=text.strip_accents,
            reserved=text.reserved_tokens,
            long=long,
            window_step=text.window_step,
            max_windows=text.max_windows,
            preserve_whitespace=text.preserve_whitespace,
        )

    def __call__(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """[batch] string -> [batch, (≤ seq_len)] int32: [CLS], the text's tokens, cut to length, [SEP]."""
        return self.pack_one({"token_ids": self.tokenize(texts)})["token_ids"]

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """[batch] string -> [batch, (tokens)] int32, without [CLS] and [SEP] and of any length."""

        def of_plain(texts: tf.Tensor) -> Tokens:
            texts = tf.strings.regex_replace(texts, f"[{ASCII_CONTROLS}]+", "")
            return {"token_ids": self._ascii_to_pieces.tokenize(self._lowered(texts))}

        def of_any(texts: tf.Tensor) -> Tokens:
            return {"token_ids": self._cut_up(self._splitter(texts)).merge_dims(1, 2)}

        # ASCII needs neither NFD nor Unicode classes, and is most of many a corpus: less than half the time, equal ids.
        return self._route(texts, f"[{self._splitter.plain}{ASCII_CONTROLS}]*", of_plain, of_any)["token_ids"]

    def tokens(self, texts: tf.Tensor) -> Tokens:
        """[batch] string -> the tokens with their words and offsets, under the names of
        `bertline.models.tokenization.packing`."""

        def of_plain(texts: tf.Tensor) -> Tokens:
            ids, starts, ends = self._ascii_to_pieces.tokenize_with_offsets(self._lowered(texts))
            starts, ends = tf.cast(starts, tf.int32), tf.cast(ends, tf.int32)
            return {
                "token_ids": ids,
                "start_bytes": starts, "end_bytes": ends, "start_chars": starts, "end_chars": ends,
            }  # fmt: skip

        def of_any(texts: tf.Tensor) -> Tokens:
            words = self._splitter(texts)
            ids = self._cut_up(words)
            shown = tf.strings.regex_replace(words.flat_values, self._unseen, "") if self._unseen else words.flat_values
            of_word = tf.repeat(tf.strings.length(shown, unit="UTF8_CHAR"), ids.values.row_lengths())
            ids = ids.merge_dims(1, 2)
            of_token = tf.gather(self._characters, ids.flat_values)
            lengths = ids.with_flat_values(tf.where(ids.flat_values == self.unk_id, of_word, of_token))
            return {"token_ids": ids, **locate(texts, lengths, self._splitter)}

        # Here the short way is for texts of which it drops nothing, so that its offsets are those of the original.
        found = self._route(texts, f"[{self._splitter.plain}]*", of_plain, of_any)
        ids = found["token_ids"]
        begins_word = tf.cast(~tf.gather(self._continues, ids.flat_values), tf.int32)
        before = packing.sums_before(ids.with_flat_values(begins_word)).flat_values
        return {**found, "word_ids": ids.with_flat_values(before + begins_word - 1)}

    def word_tokens(self, words: tf.RaggedTensor) -> Tokens:
        """[batch, (words)] string -> [batch, (tokens)]: `word_ids` number the given words, offsets begin anew in each.

        A word that leaves no token behind (a control character, say) is simply not among the `word_ids`.
        """
        of_words = self.tokens(words.flat_values)
        numbers = tf.cast(tf.ragged.range(words.row_lengths()).flat_values, tf.int32)
        repeated = tf.repeat(numbers, of_words["token_ids"].row_lengths())
        of_words["word_ids"] = of_words["token_ids"].with_flat_values(repeated)
        return {name: words.with_values(ragged).merge_dims(1, 2) for name, ragged in of_words.items()}

    def pack(self, first: Tokens, second: Tokens | None = None) -> Tokens:
        """[CLS] first [SEP], or [CLS] first [SEP] second [SEP], shortened to `seq_len`, the longer text first."""
        lengths = first["token_ids"].row_lengths()
        if second is None:
            most = {"auto": self.undecided_room, "windows": self.sliding.room}.get(self.long, self.seq_len - 2)
            return self._closed(self._shortened(first, tf.minimum(lengths, most)))
        others = second["token_ids"].row_lengths()
        if self.long == "auto":
            # Which of the two is longer may decide about a token, and stays so.
            longer = [tf.cast(one > other, one.dtype) for one, other in ((lengths, others), (others, lengths))]
            kept = tuple(
                tf.minimum(length, self.undecided_room + more)
                for length, more in zip((lengths, others), longer, strict=True)
            )
        else:
            kept = packing.longest_first(lengths, others, self.seq_len - 3, self.tokenizer_variant)
        return self._closed(*(self._shortened(part, length) for part, length in zip((first, second), kept, strict=True)))

    @property
    def undecided_room(self) -> int:
        """Tokens of a text that hold what any way of reading it needs, and show whether it is longer."""
        return max(2 * self.seq_len, self.sliding.room + 1)

    def _shortened(self, tokens: Tokens, kept: tf.Tensor) -> Tokens:
        """So many tokens of each row, from where `long` says."""
        if self.long == "cut":
            return packing.cut(tokens, kept)
        # A quarter from the begin: Sun et al. (arXiv 1905.05583) take 128 and 382 of 510.
        tails = kept - (kept + 2) // 4 if self.long == "head_tail" else kept // 2
        return packing.ends(tokens, kept - tails, tails)

    def unpacked(self, tokens: Tokens) -> tuple[Tokens, ...]:
        """The texts of what `pack` has put together, without [CLS] and [SEP]."""
        bare = {name: ragged for name, ragged in tokens.items() if name != "segment_ids"}
        lengths = tf.cast(tokens["token_ids"].row_lengths(), tf.int32)
        firsts = lengths
        if "segment_ids" in tokens:
            firsts = lengths - tf.cast(tf.reduce_sum(tokens["segment_ids"], axis=1), tf.int32)
        rows = tf.range(tf.size(lengths))
        first = packing.take(bare, rows, tf.ones_like(rows), firsts - 2)
        if "segment_ids" not in tokens:
            return (first,)
        return first, packing.take(bare, rows, firsts, lengths - firsts - 1)

    def pack_one(self, text: Tokens) -> Tokens:
        """[CLS] text [SEP], shortened to `seq_len`; without segments, for there is one."""
        return {name: ragged for name, ragged in self.pack(text).items() if name != "segment_ids"}

    def windows(self, texts: Tokens, *, step: int, question: Tokens | None = None, max_question: int = 64) -> Windows:
        """Packed windows of `seq_len` over texts of any length, each after its row's question if there is one.

        Args:
          texts: what the windows slide over.
          step: tokens from one window to the next.
          question: stands as the first text in each window, the windows' own tokens then as the second.
          max_question: tokens that are kept of a question.
        """
        if question is None:
            room = tf.fill([texts["token_ids"].nrows(tf.int32)], self.seq_len - 2)
            found = packing.windows(texts, room, step)
            return found._replace(tokens=self._closed(found.tokens))
        # At least one token of the text has to fit in beside it.
        kept = tf.minimum(tf.cast(question["token_ids"].row_lengths(), tf.int32), min(max_question, self.seq_len - 4))
        found = packing.windows(texts, self.seq_len - 3 - kept, step)
        repeated = packing.take(question, found.rows, tf.zeros_like(found.rows), tf.gather(kept, found.rows))
        return found._replace(tokens=self._closed(repeated, found.tokens))

    def detokenize(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """[batch, (tokens)] int32 -> [batch] string: the words with one space between, without [CLS], [SEP] and [PAD].

        What normalisation has dropped (case, accents, the white space) is gone, and [UNK] stays [UNK]. Of a text without
        [UNK], the same tokens are made again. An encoder with `preserve_whitespace` puts a space only where there was one.
        """
        unseen = {self.pad_id, self.cls_id, self.sep_id}
        shown = [
            "" if number in unseen else token.removeprefix(CONTINUATION) if continues else f" {token}"
            for number, (token, continues) in enumerate(zip(self.vocab, self._continues, strict=True))
        ]
        texts = tf.strings.reduce_join(tf.gather(shown, ids), axis=-1)
        return tf.strings.strip(
            tf.strings.regex_replace(texts, f" {JOINER}|{JOINER} ", "") if self._splitter.preserve_whitespace else texts
        )

    def _route(
        self, texts: tf.Tensor, plain: str, of_plain: Callable[[tf.Tensor], Tokens], of_any: Callable[[tf.Tensor], Tokens]
    ) -> Tokens:
        """Texts that match `plain` go one way, the others the other; the rows come back in their order."""
        if self._splitter.preserve_whitespace:  # the short way does not say where the spaces were
            return of_any(texts)
        is_plain = tf.strings.regex_full_match(texts, plain)
        return packing.choose(is_plain, of_plain(texts[is_plain]), of_any(texts[~is_plain]))

    def _lowered(self, ascii_texts: tf.Tensor) -> tf.Tensor:
        return tf.strings.lower(ascii_texts) if self._splitter.lower else ascii_texts

    def _cut_up(self, words: tf.RaggedTensor) -> tf.RaggedTensor:
        """[batch, (words)] string -> [batch, (words), (tokens)] int32."""
        # The op's own limit is in bytes, the references' in characters: a word that is too long for it stands in.
        too_long = tf.strings.length(words.flat_values, unit="UTF8_CHAR") > self._splitter.max_characters
        words = words.with_flat_values(tf.where(too_long, "x" * (self._max_bytes + 1), words.flat_values))
        return self._words_to_pieces.tokenize(words)

    def _closed(self, *parts: Tokens) -> Tokens:
        return packing.pack(parts, self.cls_id, self.sep_id)
