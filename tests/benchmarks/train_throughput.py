"""Training throughput: our input pipeline and step against a plain Keras loop, in one run.

The plain loop is what one writes first: every text padded to 128 tokens, `keras.optimizers.AdamW`, `fit`. Both train the
same encoder from the same weights on the same review sentences, batch 32, and are timed alternately, so that a noisy
neighbour hits both.

    python tests/benchmarks/train_throughput.py [--steps 12] [--rounds 3] [--xla] [--optimizer lamb] [--accumulate 4]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from bertline.pipeline.core.environment import prepare

prepare()

import keras  # noqa: E402
import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
import tensorflow as tf  # noqa: E402

from bertline.models import checkpoints  # noqa: E402
from bertline.models.data import batching  # noqa: E402
from bertline.models.tasks.base.task import Context, get_task  # noqa: E402
from bertline.models.tokenization.tokenizer import TextEncoder  # noqa: E402
from bertline.models.training.distribution import join  # noqa: E402
from bertline.models.training.optimizer import Optimizer  # noqa: E402
from bertline.models.training.step import step_function  # noqa: E402
from bertline.pipeline.settings.loader import load  # noqa: E402

BATCH, PADDED = 32, 128


def read_rows(config, count):
    table = pd.read_csv(config.data.path)
    table = table[table.category != "plot"].sample(count, random_state=0)
    encoder = TextEncoder.from_config(config.text.vocab, config.text)
    tokens = encoder(tf.constant(table.text.tolist()))
    labels = (table.category == "fresh").astype(np.int64).to_numpy()
    return batching.Corpus(tokens.flat_values.numpy(), tokens.row_splits.numpy().astype(np.int64), {"label_id": labels})


def build(config):
    encoder, _ = checkpoints.load_encoder(config.model.checkpoint, dropout=config.model.dropout, seed=0)
    return get_task("classification").model.build(encoder, Context(None, ("fresh", "rotten")), config.model.dropout, 0)


def ours(config, rows, settings):
    """Runs whole steps as the Trainer does; returns a function that trains on n random batches of a planned epoch."""
    task = get_task("classification")
    model = build(config)
    optimizer = Optimizer(
        model.trainable_variables,
        rule=settings.optimizer,
        peak=1e-5,
        total_steps=10**6,
        warmup=0.1,
        weight_decay=0.01,
        clip_norm=1.0,
    )
    step = step_function(join(), model, task, optimizer, rows, settings)

    def run(steps, seed):
        planned = batching.plan(rows.lengths, BATCH, settings.buckets, seed=seed)[:steps]
        for batch in batching.batches(rows, planned, BATCH):
            step(batch)
        return sum(len(batch.rows) for batch in planned)

    for batch in batching.plan(rows.lengths, BATCH, settings.buckets, seed=0):  # every shape once: compile, warm up
        step(next(iter(batching.batches(rows, [batch], BATCH)))) if settings.xla else None
    run(3, 1)
    return run


class PlainClassifier(keras.Model):
    """As written in an hour: the whole encoder, the pooler, a dense layer."""

    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder
        self.dropout = keras.layers.Dropout(0.1)
        self.head = keras.layers.Dense(2)

    def call(self, batch, training=False):
        sequence = self.encoder(batch["token_ids"], None, batch["mask"], training=training)
        return self.head(self.dropout(self.encoder.pool(sequence), training=training))


def plain(config, rows):
    model = PlainClassifier(build(config).encoder)
    model.compile(
        optimizer=keras.optimizers.AdamW(1e-5, weight_decay=0.01, global_clipnorm=1.0),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    ragged = tf.RaggedTensor.from_row_splits(rows.values, rows.starts)
    tokens = ragged.to_tensor(shape=[len(rows), PADDED])
    mask = tf.sequence_mask(rows.lengths, PADDED)
    dataset = tf.data.Dataset.from_tensor_slices(({"token_ids": tokens, "mask": mask}, rows.targets["label_id"]))

    def run(steps, seed):
        batches = dataset.shuffle(len(rows), seed=seed).batch(BATCH, drop_remainder=True).take(steps).prefetch(2)
        model.fit(batches, epochs=1, verbose=0)
        return steps * BATCH

    run(2, 1)
    return run


def rate(run, steps, seed):
    began = time.perf_counter()
    return run(steps, seed) / (time.perf_counter() - began)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--xla", action="store_true")
    parser.add_argument("--optimizer", default="adamw", choices=["adamw", "adam_reference", "lamb"])
    parser.add_argument("--accumulate", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        config = load("reviews", workspace=str(Path(folder)))
    settings = config.training.model_copy(
        update={"xla": arguments.xla, "optimizer": arguments.optimizer, "gradient_accumulation_steps": arguments.accumulate}
    )
    rows = read_rows(config, 4096)
    bucketed, padded = ours(config, rows, settings), plain(config, rows)
    pairs = []
    for round_ in range(arguments.rounds):
        # Ours takes five times the steps, so that its random lengths average out and both run for a like time.
        pairs.append((rate(bucketed, 5 * arguments.steps, round_), rate(padded, arguments.steps, round_)))
        print(f"round {round_ + 1}: ours {pairs[-1][0]:.1f}, plain {pairs[-1][1]:.1f} examples/s", flush=True)
    ratio = statistics.median(a / b for a, b in pairs)
    print(f"ours / plain: {ratio:.2f}x (median of {len(pairs)} rounds; mean length {rows.lengths.mean():.1f} tokens)")


if __name__ == "__main__":
    main()
