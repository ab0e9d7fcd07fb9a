"""Callers who do not wait, and a server that is told to end: what nobody waits for is not run."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from served_models import HELD
from serving_client import ANSWERS, PATIENCE, Client, eventually, refused, request, serving
from tensorflow_serving.apis import prediction_service_pb2_grpc

from bertline.serving.settings import Batching


@pytest.fixture(params=[None, Batching(max_batch_size=1)], ids=["one by one", "in batches"])
def busy(request, base, gate, monkeypatch) -> Iterator[Client]:
    """A server that runs as much as it will at a time, until the gate opens."""
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    rows = [f"busy-{number}" for number in range(1 if request.param else 2)]
    with serving(base, batching=request.param) as client:
        held = [client.later(HELD, **gate.row(row)) for row in rows]
        assert eventually(lambda: all(map(gate.has_run, rows)))
        yield client
        gate.open()
        assert all(future.result(PATIENCE) for future in held)


@pytest.mark.parametrize("deadline", [0.001, 0.5])
def test_a_request_whose_time_is_over_is_not_run(busy, gate, deadline):
    waiting = busy.later(HELD, timeout=deadline, **gate.row("late"))
    assert refused(waiting.result).code() == grpc.StatusCode.DEADLINE_EXCEEDED
    time.sleep(0.5)  # the server counts from when the request reached it, which may be a little later
    gate.open()
    assert busy.answers() and not gate.has_run("late")


def test_a_request_that_is_cancelled_is_not_run(busy, gate):
    waiting = busy.later(HELD, **gate.row("cancelled"))
    time.sleep(0.5)  # it is in the queue by then; if not, all the better for it
    assert waiting.cancel()
    time.sleep(0.5)
    gate.open()
    assert busy.answers() and not gate.has_run("cancelled")


def test_a_rest_client_that_hangs_up_is_not_run(busy, gate):
    row = {name: texts[0] for name, texts in gate.row("gone").items()}
    body = json.dumps({"signature_name": HELD, "instances": [row]}).encode()
    head = f"POST {ANSWERS} HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", busy.server.rest_port), timeout=PATIENCE) as plugged:
        plugged.sendall(head + body)
        time.sleep(0.5)
    time.sleep(2)  # on a busy machine the server needs a while to see it
    gate.open()
    assert busy.answers() and not gate.has_run("gone")


def test_sigterm_ends_the_process_when_its_request_is_answered(base, gate):
    program = "import sys; from bertline.pipeline.cli import main; main(sys.argv[1:])"
    flags = ["serve", "--port=0", "--rest_api_port=0", "--model_name=m", f"--model_base_path={base}"]
    process = subprocess.Popen(
        [sys.executable, "-c", program, *flags],
        cwd=Path(__file__).parents[4], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        said = []
        for line in process.stdout:
            said.append(line)
            if "gRPC on" in line:
                break
        assert said and "gRPC on" in said[-1], said
        with grpc.insecure_channel(said[-1].split()[-1]) as channel:
            stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            held = stub.Predict.future(request(HELD, **gate.row("row")), PATIENCE)
            assert eventually(lambda: gate.has_run("row"))
            process.send_signal(signal.SIGTERM)
            assert any("stopping" in line for line in process.stdout)
            assert process.poll() is None and not held.done()
            gate.open()
            assert held.result(PATIENCE).outputs["looks"].int_val
            assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
