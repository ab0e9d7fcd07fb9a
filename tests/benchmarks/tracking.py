"""What tracking costs a training: with it, without it, and with a server that hangs, alternately in one run.

The sample encoder is trained on review sentences in the preset's batches. With tracking, every step is recorded and the
sender tells a new sqlite store at the same time; the last way has a socket that takes connections and never answers.

    python tests/benchmarks/tracking.py [--steps 60] [--rounds 3] [--size tiny]
"""

from __future__ import annotations

import argparse
import contextlib
import socket
import statistics
import tempfile
import time
from pathlib import Path

from bertline.pipeline.core.environment import prepare

prepare()

import pandas as pd  # noqa: E402
import tensorflow as tf  # noqa: E402

from bertline.components.tracking.tracker import Tracker  # noqa: E402
from bertline.models import checkpoints  # noqa: E402
from bertline.models.data import batching  # noqa: E402
from bertline.models.encoders.bert.backbone import Encoder, EncoderSize  # noqa: E402
from bertline.models.tasks.base.task import Context, get_task  # noqa: E402
from bertline.models.tokenization.tokenizer import TextEncoder  # noqa: E402
from bertline.models.training import loop as training  # noqa: E402
from bertline.pipeline.core import events  # noqa: E402
from bertline.pipeline.settings.loader import load  # noqa: E402

TASK = get_task("classification")


def read_rows(config, count):
    table = pd.read_csv(config.data.path)
    table = table[table.category != "plot"].sample(count, random_state=0)
    tokens = TextEncoder.from_config(config.text.vocab, config.text)(tf.constant(table.text.tolist()))
    labels = (table.category == "fresh").astype("int64").to_numpy()
    return batching.Corpus(tokens.flat_values.numpy(), tokens.row_splits.numpy().astype("int64"), {"label_id": labels})


def build(config, size):
    if size == "tiny":  # short steps: the most that a record a step can cost
        encoder = Encoder(EncoderSize(vocab_size=30522, layers=2, hidden=128, heads=2, intermediate=512), seed=0)
    else:
        encoder, _ = checkpoints.load_encoder(config.model.checkpoint, dropout=config.model.dropout, seed=0)
    return TASK.model.build(encoder, Context(None, ("fresh", "rotten")), config.model.dropout, 0)


def train(config, rows, evaluation, size, tracker):
    """Seconds that the steps took, their losses, and seconds that the tracker held them up in sum."""
    held_up, losses, at = 0.0, [], []

    def report(record):
        nonlocal held_up
        numbers = record.numbers()
        if "loss" in numbers:
            losses.append(numbers["loss"])
            at.append(time.perf_counter())
        if tracker:
            began = time.perf_counter()
            tracker.hear(events.Training(record))
            held_up += time.perf_counter() - began

    with tempfile.TemporaryDirectory() as folder:
        training.train(
            lambda: build(config, size),
            TASK,
            config.training.model_copy(update={"epochs": 1}),
            rows,
            evaluation,
            checkpoint_folder=Path(folder),
            report=report,
        )
    return at[-1] - at[4], losses, held_up  # the first steps trace and compile


@contextlib.contextmanager
def hanging():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


@contextlib.contextmanager
def tracked(how, uri_of_hanging):
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as workspace:
        overrides = [f"tracking.uri={uri_of_hanging}"] if how == "hanging" else []
        config = load("reviews", overrides, workspace=workspace)
        tracker = None if how == "without" else Tracker(config, f"run {time.time_ns()}")
        if tracker:
            tracker.start()
            while how == "with" and tracker.mlflow_run_id is None:  # as it is by the time that a line trains
                time.sleep(0.1)
        yield config, tracker
        if tracker:
            began = time.perf_counter()
            tracker.finish("FINISHED", {})
            print(f"    finish {time.perf_counter() - began:.1f} s: {tracker.problem or 'MLflow has everything'}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", choices=("sample", "tiny"), default="sample")
    arguments = parser.parse_args()
    config = load("reviews", [], workspace=tempfile.mkdtemp())
    rows = read_rows(config, arguments.steps * config.training.batch_size)
    evaluation = read_rows(config, 16)
    seconds, losses = {"without": [], "with": [], "hanging": []}, {}
    with hanging() as uri:
        for number in range(arguments.rounds):
            order = list(seconds) if number % 2 == 0 else list(reversed(seconds))
            for how in order:
                with tracked(how, uri) as (config, tracker):
                    took, found, held_up = train(config, rows, evaluation, arguments.size, tracker)
                seconds[how].append(took)
                assert losses.setdefault("all", found) == found, "tracking changed the training"
                print(f"round {number + 1} {how:8} {took:6.2f} s, of which the tracker held it up {held_up * 1000:.1f} ms")
    for how in ("with", "hanging"):
        ratios = [ours / plain for ours, plain in zip(seconds[how], seconds["without"], strict=True)]
        print(f"{how} / without: {statistics.median(ratios):.3f}  ({', '.join(f'{ratio:.3f}' for ratio in ratios)})")
    print(f"losses of all {len(losses['all'])} steps are equal in every way of training")


if __name__ == "__main__":
    main()
