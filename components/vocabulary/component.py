"""The vocabulary: the file that the user or the checkpoint gives, or one learned from the training texts. Of a task that
writes texts it is one for both sides, or one for each.

Learning counts the words with the very ops that split them later, then joins the most frequent neighbours, starting
from single characters (byte-pair encoding, written in WordPiece's notation). TensorFlow Text has a learner, but it
exceeds the size it is given, and takes a minute or two for 430,000 words of reviews, which take seconds here.
"""

import collections
import heapq
import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import apache_beam as beam
import tensorflow as tf
from tfx import types
from tfx.dsl.components.base import base_beam_component, base_beam_executor, executor_spec
from tfx.dsl.io import fileio
from tfx.types import artifact_utils, standard_artifacts
from tfx.types.component_spec import ChannelParameter, ComponentSpec, ExecutionParameter

from bertline.components.artifacts import Vocabulary
from bertline.components.compat import make_beam_pipeline
from bertline.models.tokenization.normalizer import WordSplitter
from bertline.models.tokenization.vocabulary import SPECIAL_PIECES, read_vocabulary
from bertline.pipeline.config import TextConfig
from bertline.pipeline.core import events
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.core.storage import at_hand

VOCABULARY_FILE = "vocab.txt"
TARGET_VOCABULARY_FILE = "target_vocab.txt"
"""Of the language that is translated into, where it has a vocabulary of its own."""

MAX_CHARACTERS = 100
"""Longer words teach nothing: the shorter of the two readings' limits makes them [UNK]."""
MAX_ALPHABET = 1000
"""So many single characters are kept even if they take more than half of the vocabulary."""

Pair = tuple[str, str]


def learn_vocabulary(
    counts: Mapping[str, int], size: int, reserved: Sequence[str] = (), *, setting: str = "data.text"
) -> list[str]:
    """Learns WordPieces from words and how often each occurs.

    The special and the reserved pieces come first, then the alphabet by falling frequency, then longer pieces in the
    order in which they were found. Equal counts give an equal vocabulary, whatever their order.

    Args:
      counts: word -> occurrences; the words are normalised and split.
      size: pieces at most; a small corpus gives fewer, for whatever is joined must occur twice.
      reserved: pieces to have besides the special ones.
      setting: what names the column of the texts.
    """
    kept = sorted((word, count) for word, count in counts.items() if len(word) <= MAX_CHARACTERS)
    if not kept:
        raise BertlineError(f"{setting}: the training texts contain no word, so no vocabulary can be learned from them.")
    first = list(dict.fromkeys((*SPECIAL_PIECES, *reserved)))
    room = size - len(first)
    alphabet = _alphabet(kept)[: min(room, max(MAX_ALPHABET, room // 2))]
    pieces = dict.fromkeys(alphabet)  # an ordered set: two ways of joining may give the same piece
    spelled = [([word[0], *(f"##{character}" for character in word[1:])], count) for word, count in kept]
    joins = _joins([(symbols, count) for symbols, count in spelled if pieces.keys() >= set(symbols)])
    while len(pieces) < room and (piece := next(joins, None)):
        pieces[piece] = None
    return [*first, *pieces]


def _alphabet(words: Iterable[tuple[str, int]]) -> list[str]:
    """Characters by falling frequency; those that were ever part of a longer word also as a continuation."""
    frequency: collections.Counter[str] = collections.Counter()
    of_longer_words: set[str] = set()
    for word, count in words:
        for character in word:
            frequency[character] += count
        if len(word) > 1:
            of_longer_words.update(word)
    alphabet = []
    for character in sorted(frequency, key=lambda character: (-frequency[character], character)):
        alphabet += [character, f"##{character}"] if character in of_longer_words else [character]
    return alphabet


def _joins(words: list[tuple[list[str], int]]) -> Iterator[str]:
    """Joins the most frequent pair of neighbours wherever it stands, again and again; yields what each join makes."""
    frequency: collections.Counter[Pair] = collections.Counter()
    holders: dict[Pair, set[int]] = collections.defaultdict(set)  # pair -> words that hold it, or once held it
    for index, (symbols, count) in enumerate(words):
        for pair in itertools.pairwise(symbols):
            frequency[pair] += count
            holders[pair].add(index)
    heap = [(-count, pair) for pair, count in frequency.items()]
    heapq.heapify(heap)
    while heap:
        negative, best = heapq.heappop(heap)
        if -negative != frequency[best]:
            continue  # outdated: the pair's present count has an entry of its own
        if -negative < 2:
            return
        joined = best[0] + best[1].removeprefix("##")
        touched: set[Pair] = set()
        for index in holders.pop(best):
            symbols, count = words[index]
            for pair in itertools.pairwise(symbols):
                frequency[pair] -= count
                touched.add(pair)
            symbols[:] = _join(symbols, best, joined)
            for pair in itertools.pairwise(symbols):
                frequency[pair] += count
                holders[pair].add(index)
                touched.add(pair)
        for pair in touched:
            heapq.heappush(heap, (-frequency[pair], pair))
        yield joined


def _join(symbols: Sequence[str], pair: Pair, joined: str) -> list[str]:
    result: list[str] = []
    position = 0
    while position < len(symbols):
        found = tuple(symbols[position : position + 2]) == pair
        result.append(joined if found else symbols[position])
        position += 2 if found else 1
    return result


class SplitIntoWords(beam.DoFn):
    """Batches of texts -> (word, occurrences in the batch)."""

    def __init__(self, text: TextConfig) -> None:
        self._text = text

    def setup(self) -> None:
        text, kept = self._text, (*SPECIAL_PIECES, *self._text.reserved_tokens)
        joined: dict[str, Any] = {"joined": True} if text.preserve_whitespace else {}
        splitter = WordSplitter(
            lower=text.lowercase, reading=text.tokenizer_variant, strip_accents=text.strip_accents, kept=kept, **joined
        )
        self._marks = tuple(mark.encode() for mark in splitter.marks.values())
        self._split = tf.function(
            lambda texts: splitter(texts).flat_values, input_signature=[tf.TensorSpec([None], tf.string)], autograph=False
        )

    def process(self, texts: list[bytes]) -> Iterable[tuple[bytes, int]]:
        counts = collections.Counter(self._split(tf.constant(texts)).numpy().tolist())
        # Pieces that are kept whole teach nothing, also where a mark of joined words stands before or after them.
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
    for path in fileio.glob(os.path.join(scratch, "counts*")):
        with fileio.open(path, "rb") as file:
            for line in file.read().splitlines():
                word, count = line.split(b" ")
                counts[word.decode("utf-8")] = int(count)
    fileio.rmtree(scratch)
    return counts


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


class Executor(base_beam_executor.BaseBeamExecutor):
    """Validates and copies the given vocabularies, or learns them from the split `train`."""

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        text = TextConfig.model_validate_json(exec_properties["text"])
        folder = artifact_utils.get_single_uri(output_dict["vocabulary"])
        train = os.path.join(artifact_utils.get_split_uri(input_dict["examples"], "train"), "*")
        keys = (json.loads(exec_properties[name]) for name in ("text_keys", "target_keys"))
        for name, source in sources_of(text, *keys).items():
            if source.given:
                pieces = read_vocabulary(at_hand(source.given))
            else:
                scratch = os.path.join(folder, "counts")
                counts = count_words(lambda: make_beam_pipeline(self), train, source.text_keys, text, scratch)
                pieces = learn_vocabulary(counts, text.vocab_size, text.reserved_tokens, setting=source.setting)
                which = f" of {source.setting}" if text.separate_vocabularies else ""
                events.emit(events.Note(f"learned {len(pieces):,} tokens from {len(counts):,} different words{which}"))
            with fileio.open(os.path.join(folder, name), "wb") as file:
                file.write("".join(f"{piece}\n" for piece in pieces).encode("utf-8"))


class VocabularySpec(ComponentSpec):
    PARAMETERS = {
        "text": ExecutionParameter(type=str),
        "text_keys": ExecutionParameter(type=str),
        "target_keys": ExecutionParameter(type=str),
        "vocab_digest": ExecutionParameter(type=str),
        "code": ExecutionParameter(type=str),
    }
    INPUTS = {"examples": ChannelParameter(type=standard_artifacts.Examples)}
    OUTPUTS = {"vocabulary": ChannelParameter(type=Vocabulary)}


class VocabularyGen(base_beam_component.BaseBeamComponent):
    """The vocabulary of the line, or the two of them.

    Args:
      examples: raw Examples; the split `train` is learned from.
      text: JSON of the `TextConfig`.
      text_keys: JSON list of the features that hold text.
      vocab_digest: digest of the content of `text.vocab` and `text.target_vocab`, so that a changed file is not answered
        from the cache.
      code: fingerprint of the sources, for the same reason.
      target_keys: JSON list of the features that hold texts which are to be written.
    """

    SPEC_CLASS = VocabularySpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(Executor)

    def __init__(
        self,
        examples: types.BaseChannel,
        text: str,
        text_keys: str,
        vocab_digest: str,
        code: str,
        target_keys: str = "[]",
    ) -> None:
        super().__init__(
            VocabularySpec(
                examples=examples,
                text=text,
                text_keys=text_keys,
                target_keys=target_keys,
                vocab_digest=vocab_digest,
                code=code,
                vocabulary=types.Channel(type=Vocabulary),
            )
        )
