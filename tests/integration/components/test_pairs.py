"""Documents to pre-training examples, on real Beam."""

from __future__ import annotations

import apache_beam as beam
import pytest
import tensorflow as tf
from wordpiece import VOCAB, write_vocab

from bertline.components.sentence_pairs.executor import make_pairs, shard_of
from bertline.models.tokenization.tokenizer import TextEncoder
from bertline.pipeline.config import PretrainingConfig, TextConfig

TEXT = TextConfig(tokenizer_variant="huggingface", seq_len=24)
DOCUMENTS = [
    "\n".join(f"{letter} {' '.join('xyz'[: 1 + sentence % 3])} ." for sentence in range(6 + number))
    for number, letter in enumerate("abcdefghij")
] + ["", "\x00\n \n", "the\n\ncafe !"]


def write_documents(folder, documents):
    folder.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(folder / "data.gz"), tf.io.TFRecordOptions(compression_type="GZIP")) as writer:
        for document in documents:
            feature = {"text": tf.train.Feature(bytes_list=tf.train.BytesList(value=[document.encode()]))}
            writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    return str(folder / "*")


def made(folder, documents, duplicates=1, lengths={0: TEXT.seq_len}, **settings):  # noqa: B006
    """The examples as plain lists, in the order of the files."""
    files = write_documents(folder / "in", documents)
    vocab = write_vocab(folder, VOCAB)
    pipeline = lambda: beam.Pipeline(options=beam.options.pipeline_options.PipelineOptions(["--direct_num_workers=1"]))  # noqa: E731
    output = folder / f"out{duplicates}"
    make_pairs(pipeline, files, str(output), vocab, TEXT, PretrainingConfig(**settings), lengths, duplicates)
    numbers = ("token_ids", "segment_ids", "masked_positions", "masked_ids", "words")
    spec = {name: tf.io.RaggedFeature(tf.int64) for name in numbers} | {"label": tf.io.FixedLenFeature([], tf.string)}
    records = [r.numpy() for path in sorted(output.iterdir()) for r in tf.data.TFRecordDataset(str(path), "GZIP")]
    parsed = tf.io.parse_example(records, spec)
    columns = [parsed[name].to_list() for name in numbers] + [parsed["label"].numpy().tolist()]
    return list(zip(*columns, strict=True))


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    return made(tmp_path_factory.mktemp("pairs"), DOCUMENTS)


def test_examples_are_packed_pairs_with_masks_that_fit_them(examples):
    assert len(examples) > 10
    assert {label for *_, label in examples} == {b"next", b"random"}
    for ids, segments, positions, masked, (words,), _ in examples:
        assert len(ids) <= TEXT.seq_len and len(ids) == len(segments)
        assert ids[0] == 2 and ids[-1] == 3 and ids.count(3) == 2
        assert segments == [0] * (ids.index(3) + 1) + [1] * (len(ids) - ids.index(3) - 1)
        assert len(positions) == len(masked) == max(1, round(0.15 * len(ids)))
        assert not {ids[position] for position in positions} & {0, 2, 3}
        assert words == len(ids) - 3  # of tokens that are words


def test_every_document_is_read_to_its_end_and_empty_ones_are_left_out(examples, tmp_path):
    encoder = TextEncoder(write_vocab(tmp_path, VOCAB), tokenizer_variant="huggingface")
    seen = {token for ids, *_ in examples for token in ids}
    expected = {token for row in encoder.tokenize(tf.constant(DOCUMENTS)).to_list() for token in row}
    assert expected <= seen


def test_equal_documents_give_equal_examples_in_whatever_order_they_come(examples, tmp_path):
    assert made(tmp_path, DOCUMENTS[::-1]) == examples


def test_duplicates_are_cut_and_masked_in_other_ways(examples, tmp_path):
    twice = made(tmp_path, DOCUMENTS, duplicates=2)
    assert twice[: len(examples)] == examples
    assert twice[len(examples) :] != examples and len(twice) > 1.5 * len(examples)


def test_another_seed_makes_other_pairs(examples, tmp_path):
    assert made(tmp_path, DOCUMENTS, seed=1) != examples


def test_documents_are_dealt_out_by_their_text():
    shards = [shard_of(f"document {number}".encode(), 4) for number in range(400)]
    assert all(70 < shards.count(shard) < 130 for shard in range(4))
