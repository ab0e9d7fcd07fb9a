"""Pre-training examples: documents become pairs of sentences, packed, with masks drawn for them.

The rules are in `models/data/sentence_pairs.py` and `models/data/masking.py`; here Beam deals the documents out. A shard
is a few thousand documents, chosen by a hash; they lend each other their sentences. What a shard gives follows from its
documents, the seed and its number alone, so equal input gives equal examples, on one machine or on many.
"""

import hashlib
import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product

import apache_beam as beam
import numpy as np
import tensorflow as tf
from tensorflow_metadata.proto.v0.schema_pb2 import BYTES, INT, Schema

from bertline.components.vocabulary.executor import texts_of
from bertline.models.data.masking import MaskingRules, mask_batch
from bertline.models.data.sentence_pairs import pairs_of
from bertline.models.tasks.graphs.pretraining import LABELS, PHASE, masking_rules
from bertline.models.tokenization.tokenizer import TextEncoder
from bertline.pipeline.config import PretrainingConfig, TextConfig
from bertline.pipeline.core import events
from bertline.pipeline.core.errors import BertlineError

SHARD_BYTES = 64 * 2**20
"""Bytes of documents that are held in memory together, as files hold them: gzipped."""
_BATCH = 4096

_NUMBERS = ("token_ids", "segment_ids", "masked_positions", "masked_ids", PHASE, "words")


def make_splits(
    make_pipeline: Callable[[], beam.Pipeline],
    documents: Mapping[str, str],
    outputs: Mapping[str, str],
    vocab_path: str,
    text: TextConfig,
    settings: PretrainingConfig,
) -> None:
    """Writes the examples of the splits `train` and `eval`: of all phases to learn from, of the last one to be judged by.

    Args:
      make_pipeline: makes a Beam pipeline to run on.
      documents: split -> glob of TFRecord files of Examples whose `text` is a document, a sentence a line.
      outputs: split -> folder that receives the TFRecord files.
      vocab_path: the vocabulary's file.
    """
    lengths = dict(enumerate([phase.seq_len for phase in settings.phases] or [text.seq_len]))
    last = {max(lengths): lengths[max(lengths)]}  # what the finished model is judged by
    for split, of_split, duplicates in (("train", lengths, settings.dupe_factor), ("eval", last, 1)):
        output = outputs[split]
        make_pairs(make_pipeline, documents[split], output, vocab_path, text, settings, of_split, duplicates)
        count = sum(1 for path in tf.io.gfile.glob(f"{output}/*") for _ in tf.data.TFRecordDataset(path, "GZIP"))
        if not count:
            raise BertlineError(f"data: the {split} documents contain no word to learn from.")
        events.emit(events.Note(f"{count:,} {split} pairs of sentences"))


class MakePairs(beam.DoFn):
    """(shard, documents) -> serialized Examples."""

    def __init__(
        self, vocab_path: str, text: TextConfig, settings: PretrainingConfig, lengths: Mapping[int, int], duplicates: int
    ) -> None:
        self._vocab_path, self._text, self._settings, self._duplicates = vocab_path, text, settings, duplicates
        self._lengths = lengths

    def setup(self) -> None:
        encoder = TextEncoder.from_config(self._vocab_path, self._text)
        self._cls, self._sep = encoder.cls_id, encoder.sep_id
        self._rules: MaskingRules = masking_rules(encoder, self._settings)
        self._tokens = tf.function(encoder.tokenize, input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)

    def process(self, keyed: tuple[int, Iterable[bytes]]) -> Iterator[bytes]:
        shard, texts = keyed
        documents = self._tokenized(sorted(texts))
        for (phase, seq_len), duplicate in product(self._lengths.items(), range(self._duplicates)):
            generator = random.Random(f"{self._settings.seed}/{shard}/{duplicate}/{seq_len}")
            masks = np.random.default_rng([self._settings.seed, shard, duplicate, seq_len])
            short_share = self._settings.short_seq_probability
            for index in generator.sample(range(len(documents)), len(documents)):
                for pair in pairs_of(documents, index, generator, max_tokens=seq_len - 3, short_share=short_share):
                    yield self._example(*pair, phase, masks)

    def _tokenized(self, texts: list[bytes]) -> list[list[list[int]]]:
        """Ids of each sentence of each document; what has none is left out."""
        sentences = [text.split(b"\n") for text in texts]
        flat = [sentence for document in sentences for sentence in document]
        ids: list[list[int]] = []
        for begin in range(0, len(flat), _BATCH):
            ids += self._tokens(tf.constant(flat[begin : begin + _BATCH])).to_list()
        remaining = iter(ids)
        documents = [[found for _ in document if (found := next(remaining))] for document in sentences]
        return [document for document in documents if document]

    def _example(
        self, first: list[int], second: list[int], is_random: bool, phase: int, masks: np.random.Generator
    ) -> bytes:
        ids = np.asarray([self._cls, *first, self._sep, *second, self._sep], np.int32)
        masked = mask_batch(ids[np.newaxis], np.asarray([len(ids)]), self._rules, masks)
        places = masked.positions[masked.chosen]
        numbers = {
            "token_ids": ids,
            "segment_ids": [0] * (len(first) + 2) + [1] * (len(second) + 1),
            "masked_positions": places,
            "masked_ids": masked.token_ids[0, places],
            PHASE: [phase],
            "words": [len(ids) - int(self._rules.continues[ids].sum()) - 3],
        }
        feature = {name: tf.train.Feature(int64_list=tf.train.Int64List(value=v)) for name, v in numbers.items()}
        label = tf.train.BytesList(value=[LABELS[is_random].encode()])
        feature["label"] = tf.train.Feature(bytes_list=label)
        return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def shard_of(text: bytes, shards: int) -> int:
    return int.from_bytes(hashlib.sha256(text).digest()[:4], "big") % shards


def make_pairs(
    make_pipeline: Callable[[], beam.Pipeline],
    documents: str,
    output: str,
    vocab_path: str,
    text: TextConfig,
    settings: PretrainingConfig,
    lengths: Mapping[int, int],
    duplicates: int,
) -> None:
    """Writes the examples of one split.

    Args:
      make_pipeline: makes the Beam pipeline to run on.
      documents: glob of TFRecord files of Examples whose `text` is a document, a sentence a line.
      output: folder that receives the TFRecord files.
      lengths: phase -> tokens that its examples have at most, [CLS] and [SEP] included.
      duplicates: how often the documents are cut for each phase.
    """
    size = sum(tf.io.gfile.stat(path).length for path in tf.io.gfile.glob(documents))
    shards = max(1, round(size / SHARD_BYTES))
    with make_pipeline() as pipeline:
        _ = (
            pipeline
            | "Read" >> beam.io.ReadFromTFRecord(documents)
            | "Texts" >> beam.FlatMap(texts_of, ("text",))
            | "Shard" >> beam.Map(lambda document: (shard_of(document, shards), document))
            | "Together" >> beam.GroupByKey()
            | "Pairs" >> beam.ParDo(MakePairs(vocab_path, text, settings, lengths, duplicates))
            | "Write"
            >> beam.io.WriteToTFRecord(
                os.path.join(output, "data_tfrecord"), file_name_suffix=".gz", num_shards=shards, compression_type="gzip"
            )
        )


def make_schema() -> Schema:
    schema = Schema()
    for name in _NUMBERS:
        schema.feature.add(name=name, type=INT)
    schema.feature.add(name="label", type=BYTES).string_domain.value.extend(LABELS)
    return schema
