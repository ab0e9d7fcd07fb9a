"""Requests that share a run: each gets what it gets alone."""

import contextlib
import random
from collections.abc import Iterator

import grpc
import numpy as np
import pytest
from served_models import HELD, NUMBERS, SUMS, TEXTS
from serving_client import PATIENCE, Client, Gate, eventually, refused, serving, values

from bertline.serving.settings import Batching


@contextlib.contextmanager
def gathered(client: Client, gate: Gate, count: int) -> Iterator[None]:
    """The `count` requests that are asked inside wait, and run together when the gate opens."""
    held = client.later(HELD, **gate.row("held"))
    assert eventually(lambda: gate.has_run("held"))
    yield
    assert eventually(lambda: sum(map(len, list(client.server._runner._queues.values()))) == count)
    gate.open()
    held.result(PATIENCE)


def batches(client: Client) -> int:
    """How many have run."""
    lines = client.server.monitoring.render().decode().splitlines()
    return sum(int(line.split()[-1]) for line in lines if "processed_batch_size_v2{" in line)


def test_texts_of_all_lengths_get_in_a_batch_what_they_get_alone(base, gate):
    chance = random.Random(7)
    sent = [
        [
            "".join(chance.choices("abc äß\U0001f600", k=chance.choice([0, 1, 5, 50, 500])))
            for _ in range(chance.randint(1, 9))
        ]
        for _ in range(150)
    ]
    batching = Batching(max_batch_size=32, allowed_batch_sizes=(8, 32))
    with serving(base, batching=batching) as client:
        with gathered(client, gate, len(sent)):
            asked = [(texts, client.later(TEXTS, text=texts)) for texts in chance.sample(sent, len(sent))]
        together = [(texts, future.result(PATIENCE)) for texts, future in asked]
        assert batches(client) < 100
    with serving(base) as client:
        for texts, response in together:
            assert response == client.predict(TEXTS, text=texts)
            assert values(response, "length") == [len(text.encode()) for text in texts]


@pytest.mark.parametrize("pads", [False, True])
def test_rows_of_all_widths_get_in_a_batch_what_they_get_alone(base, gate, pads):
    chance = random.Random(8)
    sent = [[[chance.randint(0, 99) for _ in range(width)]] for width in chance.choices(range(1, 20), k=60)]
    with serving(base, batching=Batching(pad_variable_length_inputs=pads)) as client:
        with gathered(client, gate, len(sent)):
            asked = [(rows, client.later(SUMS, x=rows)) for rows in sent]
        assert [values(future.result(PATIENCE), "sum") for _, future in asked] == [[sum(rows[0])] for rows in sent]
        assert (batches(client) < 10) is pads


def test_a_request_that_spoils_a_batch_fails_alone(base, gate):
    texts = [str(number) for number in range(40)]
    texts[7] = texts[23] = "no number"
    with serving(base, batching=Batching()) as client:
        with gathered(client, gate, len(texts)):
            asked = [client.later(NUMBERS, text=[text]) for text in texts]
        for text, future in zip(texts, asked, strict=True):
            if text == "no number":
                assert refused(future.result).code() == grpc.StatusCode.INVALID_ARGUMENT
            else:
                assert values(future.result(PATIENCE), "number") == [float(text)]


def test_a_queue_that_is_full_refuses_and_goes_on(base, gate):
    with serving(base, batching=Batching(max_batch_size=1, max_enqueued_batches=2)) as client:
        with gathered(client, gate, 2):
            asked = [client.later(TEXTS, text=["a"]) for _ in range(10)]
            assert eventually(lambda: sum(future.done() for future in asked) == 8)
        codes = [future.code() for future in asked]
        assert sorted(map(str, codes)) == ["StatusCode.OK"] * 2 + ["StatusCode.UNAVAILABLE"] * 8
        assert client.answers()


def test_an_empty_request_harms_no_batch(base, gate):
    with serving(base, batching=Batching(allowed_batch_sizes=(8, 64))) as client:
        with gathered(client, gate, 4):
            others = [client.later(TEXTS, text=["a"]), client.later(TEXTS, text=["b"])]
            empty = client.later(TEXTS, text=np.zeros([0], "S1"))
            asked = [*others, client.later(TEXTS, text=["c"])]
        assert [values(future.result(PATIENCE), "upper") for future in asked] == [[b"A"], [b"B"], [b"C"]]
        assert empty.code() in (grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT)
