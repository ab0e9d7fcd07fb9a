"""How fast an encoder-decoder writes: with what it has computed kept beside computing all of it again for each token.

Both write the same 64 tokens for the same sources, and are timed alternately, so that a noisy neighbour hits both. Then,
for sources of mixed lengths: greedy and beam search, in batches as they come, in batches of like length, and one by one.

    python tests/benchmarks/decode.py [--rows 16] [--tokens 64] [--rounds 3]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bertline.pipeline.core.environment import prepare

prepare()

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

from bertline.models.seq2seq.generation import Decoder  # noqa: E402
from bertline.models.seq2seq.model import causal_bias  # noqa: E402
from bertline.models.tasks.base.task import Context  # noqa: E402
from bertline.models.tasks.graphs.translation import make_model  # noqa: E402
from bertline.models.tokenization.tokenizer import TextEncoder  # noqa: E402
from bertline.models.tokenization.vocabulary import SPECIAL_TOKENS  # noqa: E402
from bertline.pipeline.config import ModelConfig, TranslationConfig  # noqa: E402

VOCAB_SIZE = 4000
SIZE = {"layers": 4, "hidden": 128, "heads": 4, "intermediate": 256}  # of the preset multi30k-small


def seconds(ways: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The median time of each, after one round to trace and warm up."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(rounds + 1):
        for name, way in ways.items():
            began = time.perf_counter()
            way()
            if turn:
                found[name].append(time.perf_counter() - began)
    return {name: statistics.median(times) for name, times in found.items()}


def cache_against_none(context: Context, rows: int, tokens: int, rounds: int) -> None:
    model = make_model(ModelConfig(**SIZE), context, 1)
    random = np.random.default_rng(0)
    source_ids = tf.constant(random.integers(5, VOCAB_SIZE, (rows, 20)), tf.int32)
    mask = tf.ones([rows, 20], tf.bool)
    begin = tf.fill([rows, 1], context.target.cls_id)

    @tf.function(autograph=False)
    def again() -> tuple[tf.Tensor, tf.Tensor]:
        """Each token from all before it, computed anew."""
        source = model.read(source_ids, mask)

        def add(written: tf.Tensor, ids: tf.Tensor, _: tf.Tensor) -> tuple[tf.Tensor, ...]:
            length = tf.shape(ids)[1]
            states = model.write(ids, source, bias=causal_bias(length)).states
            last = model.logits(tf.reshape(states, [rows, length, -1])[:, -1])
            return written + 1, tf.concat([ids, tf.argmax(last, 1, tf.int32)[:, tf.newaxis]], 1), last

        shapes = (tf.TensorShape([]), tf.TensorShape([rows, None]), tf.TensorShape([rows, VOCAB_SIZE]))
        start = (tf.constant(0), begin, tf.zeros([rows, VOCAB_SIZE]))
        _, ids, last = tf.while_loop(lambda written, *_: written < tokens, add, start, shape_invariants=shapes)
        return ids, last

    decoder_of = lambda: Decoder(model, {"token_ids": source_ids, "mask": mask}, context)  # noqa: E731

    @tf.function(autograph=False)
    def kept() -> tuple[tf.Tensor, tf.Tensor]:
        """As the served model does it, without an end."""
        decoder = decoder_of()
        step = decoder.step(1)

        def add(written: tf.Tensor, ids: tf.Tensor, _: tf.Tensor, *state: tf.Tensor) -> tuple[tf.Tensor, ...]:
            past = tf.nest.pack_sequence_as(nothing, state)
            logits, past = step(ids[:, -1], written, past)
            return written + 1, tf.concat([ids, tf.argmax(logits, 1, tf.int32)[:, tf.newaxis]], 1), logits, *flat(past)

        nothing = decoder.nothing(1)
        flat = tf.nest.flatten
        shapes = (tf.TensorShape([]), tf.TensorShape([rows, None]), tf.TensorShape([rows, VOCAB_SIZE]))
        shapes += tuple(tf.TensorShape([size or None for size in part.shape]) for part in flat(nothing))
        start = (tf.constant(0), begin, tf.zeros([rows, VOCAB_SIZE]), *flat(nothing))
        _, ids, last, *_ = tf.while_loop(lambda written, *_: written < tokens, add, start, shape_invariants=shapes)
        return ids, last

    (ids, last), (same_ids, same_last) = again(), kept()
    allowed = np.isfinite(last) & (same_last.numpy() > -1e8)
    apart = float(np.abs(last.numpy() - same_last.numpy())[allowed].max())
    took = seconds({"again": again, "kept": kept}, rounds)
    ratio = took["again"] / took["kept"]
    speed = {name: rows * tokens / value for name, value in took.items()}
    print(f"{rows} texts of {tokens} tokens: {speed['again']:,.0f} tokens/s without a cache, {speed['kept']:,.0f} with one")
    same = bool((ids.numpy() == same_ids.numpy()).all())
    print(f"with a cache {ratio:.1f}× as fast; the same tokens: {same}; last logits at most {apart:.1e} apart")


def mixed_lengths(context: Context, rounds: int) -> None:
    model = make_model(ModelConfig(**SIZE), context, 1)
    random = np.random.default_rng(1)
    lengths = np.clip(random.lognormal(2.6, 0.5, 128), 3, 80).astype(int)
    sources = [tf.constant(random.integers(5, VOCAB_SIZE, size), tf.int32) for size in lengths]

    def run(way: Callable[[Decoder], object]) -> Callable[[list[int], int], int]:
        spec = {"token_ids": tf.TensorSpec([None, None], tf.int32), "mask": tf.TensorSpec([None, None], tf.bool)}

        @tf.function(input_signature=[spec], autograph=False)
        def written(batch: dict[str, tf.Tensor]) -> tf.Tensor:
            return tf.cast(tf.size(way(Decoder(model, batch, context)).ids.flat_values), tf.int32)

        def all_of(order: list[int], size: int) -> int:
            total = 0
            for begin in range(0, len(order), size):
                ragged = tf.ragged.stack([sources[at] for at in order[begin : begin + size]])
                mask = tf.sequence_mask(ragged.row_lengths(), ragged.bounding_shape()[1])
                total += int(written({"token_ids": ragged.to_tensor(), "mask": mask}))
            return total

        return all_of

    as_they_come, by_length = list(range(len(sources))), np.argsort(lengths).tolist()
    for name, way in (("greedy", Decoder.greedy), ("beam of 4", Decoder.best)):
        ask = run(way)
        tokens = ask(as_they_come, 32)
        took = seconds(
            {
                "in batches of 32 as they come": lambda ask=ask: ask(as_they_come, 32),
                "in batches of 32 of like length": lambda ask=ask: ask(by_length, 32),
                "one by one": lambda ask=ask: ask(as_they_come, 1),
            },
            rounds,
        )
        slowest = took["one by one"]
        for how, value in took.items():
            print(f"{name}, {how}: {tokens / value:,.0f} tokens/s, {slowest / value:.1f}× one by one")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        vocab = Path(folder) / "vocab.txt"
        words = [f"w{number}" for number in range(VOCAB_SIZE - len(SPECIAL_TOKENS))]
        vocab.write_text("".join(f"{token}\n" for token in (*SPECIAL_TOKENS, *words)))
        text = TextEncoder(str(vocab), lower=False, preserve_whitespace=True, seq_len=128)
        context = Context(text, (), target=text, translation=TranslationConfig())
        cache_against_none(context, given.rows, given.tokens, given.rounds)
        mixed_lengths(context, given.rounds)


if __name__ == "__main__":
    main()
