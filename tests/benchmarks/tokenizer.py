"""Sentences per second of our tokenizer beside the Rust one of the `tokenizers` package: one thread each, in one run.

Both make ids, with [CLS] and [SEP], at most 512 of them, of batches of 1,000 texts with the same vocabulary. They are
timed alternately, so that a noisy neighbour hits both. With `--offsets` both also say where each token stands.

    python tests/benchmarks/tokenizer.py [--rounds 5] [--offsets]
    python tests/benchmarks/tokenizer.py --file tweets=tweets.txt --file news=news.txt
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from bertline.pipeline.core.environment import prepare

prepare()
os.environ["RAYON_NUM_THREADS"] = "1"

import pandas as pd  # noqa: E402
import tensorflow as tf  # noqa: E402
from tokenizers import BertWordPieceTokenizer  # noqa: E402

from bertline.models.tokenization.tokenizer import TextEncoder  # noqa: E402
from bertline.pipeline.settings.loader import load  # noqa: E402

BATCH, TEXTS, SEQ_LEN = 1000, 8000, 512
SENTENCES = (100_000, 1_000_000)


def read_reviews(config) -> list[str]:
    table = pd.read_csv(config.data.path)
    return table[table.category != "plot"].text.tolist()


def sample_texts(config) -> dict[str, list[str]]:
    """Reviews, one by one and sixteen together, and Chinese made of the vocabulary's own characters."""
    reviews = read_reviews(config)
    tokens = Path(config.text.vocab).read_text(encoding="utf-8").split("\n")
    characters = [token for token in tokens if "\u4e00" <= token <= "\u9fff"]

    def sentence(i: int) -> str:
        chosen = (characters[(31 * i + 17 * j + j * j) % len(characters)] for j in range(45))
        return "".join(character + "，" * (j % 9 == 8) for j, character in enumerate(chosen))

    return {
        "short English": reviews[:TEXTS],
        "long English": [" ".join(reviews[i : i + 16]) for i in range(0, TEXTS, 8)],
        "Chinese": [sentence(i) for i in range(TEXTS)],
    }


def ours(text, offsets: bool) -> Callable[[list[str]], object]:
    encoder = TextEncoder.from_config(text.vocab, text.model_copy(update={"seq_len": SEQ_LEN}))
    work = (lambda texts: encoder.pack(encoder.tokens(texts))) if offsets else encoder.__call__
    graph = tf.function(work, input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    return lambda texts: graph(tf.constant(texts))


def theirs(text, offsets: bool) -> Callable[[list[str]], object]:
    tokenizer = BertWordPieceTokenizer(text.vocab, lowercase=text.lowercase)
    tokenizer.enable_truncation(SEQ_LEN)
    return tokenizer._tokenizer.encode_batch if offsets else tokenizer._tokenizer.encode_batch_fast


def rate(encode: Callable[[list[str]], object], texts: list[str]) -> float:
    began = time.perf_counter()
    for begin in range(0, len(texts), BATCH):
        encode(texts[begin : begin + BATCH])
    return len(texts) / (time.perf_counter() - began)


def compare(texts: dict[str, list[str]], config, rounds: int, offsets: bool) -> None:
    contenders = {"ours": ours(config.text, offsets), "tokenizers": theirs(config.text, offsets)}
    print(f"{'':16}{'characters':>12}{'ours/s':>12}{'tokenizers/s':>14}{'ratio':>8}")
    for name, some in texts.items():
        found: dict[str, list[float]] = {contender: [] for contender in contenders}
        for round_number in range(rounds + 1):
            for contender, encode in contenders.items():
                measured = rate(encode, some)
                if round_number:  # the first round warms up
                    found[contender].append(measured)
        our, their = (statistics.median(rates) for rates in found.values())
        length = statistics.mean(map(len, some))
        print(f"{name:16}{length:12.0f}{our:12,.0f}{their:14,.0f}{our / their:8.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--offsets", action="store_true")
    parser.add_argument("--file", action="append", default=[], metavar="NAME=FILE", help="texts of your own, one a line")
    options = parser.parse_args()
    for set_threads in (
        tf.config.threading.set_intra_op_parallelism_threads,
        tf.config.threading.set_inter_op_parallelism_threads,
    ):
        set_threads(1)
    config = load("reviews")
    files = (given.partition("=") for given in options.file)
    texts = {name: Path(path).read_text(encoding="utf-8").splitlines()[:TEXTS] for name, _, path in files}
    compare(texts or sample_texts(config), config, options.rounds, options.offsets)


if __name__ == "__main__":
    main()
