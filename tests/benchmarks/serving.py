"""How fast the embedded server answers, beside calling the same SavedModel in this process: one run, ratios.

- Throughput of 1, 8 and 64 clients that each ask one text at a time, of mixed lengths, against the same texts in full
  batches through the model itself, in the order in which they come.
- What a lone request takes longer than a direct call, at the median.
- Batches of like length against batches as they come.

The server is a process of its own, and so are the clients: they share the machine's cores, as the direct call does not.
Rounds alternate, so that a noisy neighbour hits all.

    python tests/benchmarks/serving.py [--texts 384] [--rounds 3] [--model FOLDER]
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from bertline.pipeline.core.environment import prepare

CLIENTS = (1, 8, 64)
BATCH = 64
NAME = "model"


class Measured(NamedTuple):
    seconds: float
    latencies: list[float]


def export_sample(folder: Path) -> Path:
    """The sample encoder with an untrained head: what it answers does not matter here."""
    from bertline.components.trainer.model import make_model
    from bertline.models.tasks.base.task import Context, get_task
    from bertline.models.tokenization.tokenizer import TextEncoder
    from bertline.pipeline.settings.loader import load
    from bertline.serving.export.saved_model import ServedModel, export

    config = load("reviews")
    task = get_task("classification")
    context = Context(TextEncoder(str(config.text.vocab), seq_len=512), ("bad", "good"))
    export(ServedModel(task, context, make_model(task, context, config.model, 1)), str(folder / "1"), {"task": task.name})
    return folder


def mixed_texts(count: int) -> list[bytes]:
    """Reviews of the sample, one alone or several together: many short texts, few long ones."""
    import pandas as pd

    from bertline.pipeline.settings.loader import load

    table = pd.read_csv(load("reviews").data.path)
    reviews = table[table.category != "plot"].text.tolist()
    draw = random.Random(1)
    return [
        " ".join(draw.sample(reviews, draw.choices((1, 2, 4, 8, 12), (50, 25, 12, 8, 5))[0])).encode() for _ in range(count)
    ]


def serve(base: str, by_length: bool, said: Any, stop: Any) -> None:
    """The server's process."""
    prepare()
    from tensorflow_serving.config import model_server_config_pb2

    from bertline.serving.embedded.server import Server
    from bertline.serving.settings import Batching, ServerSettings

    models = model_server_config_pb2.ModelServerConfig()
    models.model_config_list.config.add(name=NAME, base_path=base, model_platform="tensorflow")
    batching = Batching(max_batch_size=BATCH, by_length=by_length)
    server = Server(ServerSettings(models=models, port=0, rest_api_port=None, batching=batching))
    server.start()
    said.send(server.port)
    stop.wait()
    server.stop()


def ask_all(port: int, texts: list[bytes], clients: int, said: Any) -> None:
    """The clients' process: each takes the next text when its last one is answered."""
    import grpc
    from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

    from bertline.serving.embedded.tensors import to_proto

    def request(text: bytes) -> predict_pb2.PredictRequest:
        made = predict_pb2.PredictRequest()
        made.model_spec.name = NAME
        to_proto([text], made.inputs["text"])
        return made

    def alone() -> Measured:
        """By the blocking stub, as a caller without an event loop has it."""
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            predict = prediction_service_pb2_grpc.PredictionServiceStub(channel).Predict
            predict(request(texts[0]), timeout=120)
            latencies = []
            for text in texts:
                made, began = request(text), time.perf_counter()
                predict(made, timeout=120)
                latencies.append(time.perf_counter() - began)
            return Measured(sum(latencies), latencies)

    async def together() -> Measured:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            waiting = iter([request(text) for text in texts])
            latencies: list[float] = []

            async def client() -> None:
                for one in waiting:
                    began = time.perf_counter()
                    await stub.Predict(one, timeout=120)
                    latencies.append(time.perf_counter() - began)

            await stub.Predict(request(texts[0]), timeout=120)
            began = time.perf_counter()
            await asyncio.gather(*(client() for _ in range(clients)))
            return Measured(time.perf_counter() - began, latencies)

    said.send(tuple(alone() if clients == 1 else asyncio.run(together())))


def served(context: Any, port: int, texts: list[bytes], clients: int) -> Measured:
    ours, theirs = context.Pipe()
    process = context.Process(target=ask_all, args=(port, texts, clients, theirs))
    process.start()
    measured = Measured(*ours.recv())
    process.join()
    return measured


def direct(signature: Any, texts: list[bytes], batch: int) -> Measured:
    import tensorflow as tf

    latencies = []
    began = time.perf_counter()
    for start in range(0, len(texts), batch):
        asked = time.perf_counter()
        signature(text=tf.constant(texts[start : start + batch]))["probabilities"].numpy()
        latencies.append(time.perf_counter() - asked)
    return Measured(time.perf_counter() - began, latencies)


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=384)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--model", help="folder of versions, of a model that reads one text [default: the sample encoder]")
    args = parser.parse_args()
    prepare()
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as made:
        base = Path(args.model) if args.model else export_sample(Path(made) / NAME)
        texts = mixed_texts(args.texts)
        stop, ports = context.Event(), {}
        for by_length in (True, False):
            ours, theirs = context.Pipe()
            context.Process(target=serve, args=(str(base), by_length, theirs, stop), daemon=True).start()
            ports[by_length] = ours.recv()
        try:
            measure(context, base, ports, texts, args.rounds)
        finally:
            stop.set()


def measure(context: Any, base: Path, ports: dict[bool, int], texts: list[bytes], rounds: int) -> None:
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  the ops inside the model

    loaded = tf.saved_model.load(str(max(base.iterdir(), key=lambda folder: int(folder.name))))
    signature = loaded.signatures["serving_default"]
    lone = [min(texts, key=len)] * 100
    direct(signature, texts[:BATCH], BATCH)
    ratios: dict[str, list[float]] = {}

    def note(what: str, value: float) -> None:
        ratios.setdefault(what, []).append(value)

    for round_number in range(1, rounds + 1):
        base_line = direct(signature, texts, BATCH)
        print(f"round {round_number}: direct, batches of {BATCH}: {len(texts) / base_line.seconds:.1f} texts/s")
        for clients in CLIENTS:
            some = texts if clients > 1 else texts[: len(texts) // 4]
            measured = served(context, ports[True], some, clients)
            rate = len(some) / measured.seconds
            note(f"{clients} clients / direct in full batches", rate * base_line.seconds / len(texts))
            p50, p99 = percentile(measured.latencies, 0.5), percentile(measured.latencies, 0.99)
            print(f"  {clients:>2} clients: {rate:.1f} texts/s, p50 {p50:.0f} ms, p99 {p99:.0f} ms")
        plain = served(context, ports[False], texts, 64)
        like = served(context, ports[True], texts, 64)
        note("64 clients, like lengths / as they come", plain.seconds / like.seconds)
        print(f"  64 clients, batches as they come: {len(texts) / plain.seconds:.1f} texts/s")
        alone, over = direct(signature, lone, 1).latencies, served(context, ports[True], lone, 1).latencies
        note("lone request, added ms at the median", (statistics.median(over) - statistics.median(alone)) * 1000)
    for what, values in ratios.items():
        print(f"{what}: {statistics.median(values):.2f}  ({', '.join(f'{value:.2f}' for value in values)})")


if __name__ == "__main__":
    main()
