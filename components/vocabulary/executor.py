"""The vocabulary: the file that the user or the checkpoint gives, or one learned from the training texts. Of a task that
writes texts it is one for both sides, or one for each.

Learning (`learner.py`) goes by how often each word occurs; Beam counts the words, with the very ops that split them later.
"""

import collections
import os
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import apache_beam as beam
import tensorflow as tf

from bertline.components.vocabulary.learner import learn_vocabulary
from bertline.models.tokenization.normalizer import WordSplitter
from bertline.models.tokenization.vocabulary import SPECIAL_TOKENS, read_vocabulary
from bertline.pipeline.config import TextConfig
from bertline.pipeline.core import events
from bertline.pipeline.core.storage import local_copy

VOCABULARY_FILE = "vocab.txt"
TARGET_VOCABULARY_FILE = "target_vocab.txt"
"""Of the language that is translated into, where it has a vocabulary of its own."""


def write_vocabularies(
    make_pipeline: Callable[[], beam.Pipeline],
    train: str,
    folder: str,
    text: TextConfig,
    text_keys: Sequence[str],
    target_keys: Sequence[str],
) -> None:
    """Validates and copies the given vocabularies, or learns them from training examples.

    Args:
      make_pipeline: makes a Beam pipeline to run on.
      train: glob of TFRecord files of tf.train.Examples.
      folder: receives the vocabularies.
      text: how text is read, and which vocabularies are given.
      text_keys: features that hold texts.
      target_keys: features that hold texts which are to be written.
    """
    for name, source in sources_of(text, text_keys, target_keys).items():
        if source.given:
            tokens = read_vocabulary(local_copy(source.given))
        else:
            scratch = os.path.join(folder, "counts")
            counts = count_words(make_pipeline, train, source.text_keys, text, scratch)
            tokens = learn_vocabulary(counts, text.vocab_size, text.reserved_tokens, setting=source.setting)
            which = f" of {source.setting}" if text.separate_vocabularies else ""
            events.emit(events.Note(f"learned {len(tokens):,} tokens from {len(counts):,} different words{which}"))
        with tf.io.gfile.GFile(os.path.join(folder, name), "wb") as file:
            file.write("".join(f"{token}\n" for token in tokens).encode("utf-8"))


class Source(NamedTuple):
    """What one vocabulary is made of."""

    given: str | None
    """Its file; without, it is learned from the texts."""
    text_keys: list[str]
    setting: str
    """What names the column of the texts."""


def sources_of(text: TextConfig, text_keys: Sequence[str], target_keys: Sequence[str]) -> dict[str, Source]:
    """The vocabularies of a line by their file names: one for all texts, or one for each side of a translation."""
    if not (text.separate_vocabularies and target_keys):
        return {VOCABULARY_FILE: Source(text.vocab, [*text_keys, *target_keys], "data.text")}
    return {
        VOCABULARY_FILE: Source(text.vocab, [*text_keys], "data.text"),
        TARGET_VOCABULARY_FILE: Source(text.target_vocab, [*target_keys], "data.label"),
    }


class SplitIntoWords(beam.DoFn):
    """Batches of texts -> (word, occurrences in the batch)."""

    def __init__(self, text: TextConfig) -> None:
        self._text = text

    def setup(self) -> None:
        text, kept = self._text, (*SPECIAL_TOKENS, *self._text.reserved_tokens)
        splitter = WordSplitter(
            lower=text.lowercase,
            tokenizer_variant=text.tokenizer_variant,
            strip_accents=text.strip_accents,
            kept=kept,
            preserve_whitespace=text.preserve_whitespace,
        )
        self._marks = tuple(mark.encode() for mark in splitter.marks.values())
        self._split = tf.function(
            lambda texts: splitter(texts).flat_values, input_signature=[tf.TensorSpec([None], tf.string)], autograph=False
        )

    def process(self, texts: list[bytes]) -> Iterable[tuple[bytes, int]]:
        counts = collections.Counter(self._split(tf.constant(texts)).numpy().tolist())
        # Tokens that are kept whole teach nothing, also where a mark of joined words stands before or after them.
        yield from ((word, count) for word, count in counts.items() if not any(mark in word for mark in self._marks))


def texts_of(record: bytes, text_keys: Sequence[str]) -> list[bytes]:
    """The texts of a serialized tf.train.Example."""
    features = tf.train.Example.FromString(record).features.feature
    return [text for key in text_keys if key in features for text in features[key].bytes_list.value]


def count_words(
    make_pipeline: Callable[[], beam.Pipeline], examples: str, text_keys: Sequence[str], text: TextConfig, scratch: str
) -> dict[str, int]:
    """How often each word occurs, counted by Beam.

    Args:
      make_pipeline: makes the Beam pipeline to run on.
      examples: glob of TFRecord files of tf.train.Examples.
      text_keys: features that hold text.
      text: how text is read.
      scratch: folder for the counts; Beam's workers write it, and it is deleted again.
    """
    with make_pipeline() as pipeline:
        _ = (
            pipeline
            | "Read" >> beam.io.ReadFromTFRecord(examples)
            | "Texts" >> beam.FlatMap(texts_of, text_keys)
            | "Batch" >> beam.BatchElements(min_batch_size=64, max_batch_size=4096)
            | "Split" >> beam.ParDo(SplitIntoWords(text))
            | "Count" >> beam.CombinePerKey(sum)
            | "Format" >> beam.MapTuple(lambda word, count: b"%s %d" % (word, count))  # a word holds no space
            | "Write" >> beam.io.WriteToText(os.path.join(scratch, "counts"), coder=beam.coders.BytesCoder())
        )
    counts = {}
    for path in tf.io.gfile.glob(os.path.join(scratch, "counts*")):
        with tf.io.gfile.GFile(path, "rb") as file:
            for line in file.read().splitlines():
                word, count = line.split(b" ")
                counts[word.decode("utf-8")] = int(count)
    tf.io.gfile.rmtree(scratch)
    return counts
