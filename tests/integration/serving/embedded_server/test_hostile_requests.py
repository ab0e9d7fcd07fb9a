"""Requests that mean no good: malformed, too large, too deep, never finished."""

import contextlib
import http.client
import json
import random
import socket

import grpc
import psutil
from google.protobuf import message
from served_models import SUMS, TEXTS
from serving_client import ANSWERS, PATIENCE, Client, refused, request, serving
from tensorflow.core.framework import tensor_pb2, types_pb2
from tensorflow_serving.apis import predict_pb2

from bertline.serving.settings import MEGABYTE, Batching, Limits

REFUSALS = {"INVALID_ARGUMENT", "NOT_FOUND", "FAILED_PRECONDITION", "UNIMPLEMENTED", "PERMISSION_DENIED", "OUT_OF_RANGE"}
METHODS = [
    "PredictionService/Predict",
    "PredictionService/Classify",
    "PredictionService/Regress",
    "PredictionService/MultiInference",
    "PredictionService/GetModelMetadata",
    "ModelService/GetModelStatus",
]
UNREADABLE = "Exception deserializing request!"


def mutated(chance: random.Random, sent: bytes) -> bytes:
    """With some bytes changed, taken out, doubled or cut off."""
    changed = bytearray(sent)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(changed) + 1)
        until = min(len(changed), at + chance.randint(1, 8))
        kind = chance.randrange(4)
        if kind == 0:
            changed[at:until] = chance.randbytes(until - at)
        elif kind == 1:
            del changed[at:until]
        elif kind == 2:
            changed[at:at] = changed[at:until]
        else:
            del changed[max(at, 1) :]
    return bytes(changed)


def odd_tensor(chance: random.Random) -> tensor_pb2.TensorProto:
    """A tensor that claims what it does not hold."""
    sizes = [0, 1, 2, 3, 7, -1, -2, 1000, 1 << 20, 1 << 31, 1 << 40, (1 << 63) - 1, -(1 << 63)]
    tensor = tensor_pb2.TensorProto(dtype=chance.choice([0, 1, 1, 1, 7, 7, *types_pb2.DataType.values(), 77]))
    for _ in range(chance.choice([0, 1, 1, 2, 3, 20, 300])):
        tensor.tensor_shape.dim.add(size=chance.choice(sizes))
    tensor.tensor_shape.unknown_rank = chance.random() < 0.05
    few = chance.randrange(4)
    tensor.float_val.extend([chance.random()] * few)
    tensor.string_val.extend([chance.randbytes(few)] * chance.randrange(3))
    tensor.int_val.extend([chance.randint(-(1 << 31), (1 << 31) - 1)] * chance.randrange(3))
    tensor.half_val.extend([chance.randint(0, 1 << 20)] * chance.randrange(3))
    if chance.random() < 0.3:
        tensor.tensor_content = chance.randbytes(chance.randrange(9))
    return tensor


def odd_request(chance: random.Random, good: list[message.Message]) -> bytes:
    kind = chance.randrange(4)
    if kind == 0:
        return chance.randbytes(chance.randrange(200))
    if kind == 1:
        return mutated(chance, chance.choice(good).SerializeToString())
    asked = predict_pb2.PredictRequest()
    asked.CopyFrom(chance.choice(good))
    asked.model_spec.signature_name = chance.choice([asked.model_spec.signature_name] * 5 + [TEXTS, SUMS, "none"])
    for name in list(asked.inputs):
        asked.inputs[name].CopyFrom(odd_tensor(chance))
    if chance.random() < 0.1:
        asked.output_filter.extend(chance.choices(["y", "upper", "length", "none", ""], k=2))
    return asked.SerializeToString()


def ask_oddly_by_grpc(client: Client, chance: random.Random, count: int) -> set[str]:
    """How they ended."""
    good = [request(x=[1.0, 2.0]), request(TEXTS, text=["one", "two"]), request(SUMS, x=[[1, 2], [3, 4]])]
    calls = [client.channel.unary_unary(f"/tensorflow.serving.{method}", bytes, bytes) for method in METHODS]
    ends = set()
    for _ in range(count):
        sent = odd_request(chance, good)
        try:
            chance.choice(calls[:1] * 5 + calls)(sent, timeout=PATIENCE)
            ends.add("OK")
        except grpc.RpcError as error:
            ends.add(UNREADABLE if UNREADABLE in error.details() else error.code().name)
    return ends


def odd_json(chance: random.Random) -> bytes:
    good = [
        b'{"instances": [1.0, 2.0]}',
        b'{"inputs": {"x": [1.0, 2.0]}}',
        b'{"signature_name": "texts", "instances": [{"text": "one"}, {"text": {"b64": "YWJj"}}]}',
        b'{"signature_name": "sums", "inputs": [[1, 2], [3, 4]]}',
        b'{"examples": [{"x": 1.0}]}',
    ]
    tokens = [b"[", b"]", b"{", b"}", b'"', b",", b":", b"1e999", b"-", b"NaN", b"null", b'"\\ud800"', b"\xff", b"9" * 400]
    kind = chance.randrange(3)
    if kind == 0:
        return mutated(chance, chance.choice(good))
    sent = chance.choice(good)
    at = chance.randrange(len(sent))
    if kind == 1:
        return sent[:at] + chance.choice(tokens) * chance.randint(1, 3) + sent[at:]
    return b"".join(chance.choices(tokens, k=chance.randrange(20)))


def ask_oddly_by_rest(client: Client, chance: random.Random, count: int) -> set[int]:
    paths = ["/v1/models/m", "/v1/models/m/metadata", "/v1/models/m:explain", "/v1/models/m/versions/x:predict", "/", "*",
             "/v1/models/m/versions/99999999999999999999:predict", "/v1/models//:predict", "/v1/models/%ff:predict",
             "/v1/models/m/labels/a%00b:predict", "/v1/models/m:predict?x=%zz", "/v2/models/m/infer", "//v1/models/m",
             "/v1/models/m:classify", "/v1/models/m:regress", "/v1/models/" + "m" * 5000]  # fmt: skip
    verbs = ["POST"] * 6 + ["GET", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "FOO"]
    ends = set()
    connection = http.client.HTTPConnection("127.0.0.1", client.server.rest_port, timeout=PATIENCE)
    with contextlib.closing(connection):
        for _ in range(count):
            path = ANSWERS if chance.random() < 0.7 else chance.choice(paths)
            verb = "POST" if path == ANSWERS else chance.choice(verbs)
            headers = {"content-encoding": "gzip"} if chance.random() < 0.02 else {}
            connection.request(verb, path, odd_json(chance), headers)
            response = connection.getresponse()
            body = response.read()
            ends.add(response.status)
            assert verb == "HEAD" or json.loads(body) is not None
    return ends


def send_broken_http(port: int, chance: random.Random, count: int) -> None:
    body = b'{"instances": [2.0]}'
    head = f"POST {ANSWERS} HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
    for _ in range(count):
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as plugged, contextlib.suppress(OSError):
            plugged.sendall(chance.choice([mutated(chance, head + body), mutated(chance, head), chance.randbytes(100)]))
            plugged.shutdown(socket.SHUT_WR)
            while plugged.recv(65536):
                pass


def test_ten_thousand_malformed_requests_are_refused_and_leave_nothing_behind(base, caplog):
    caplog.set_level("CRITICAL", "grpc")  # it logs each message that it cannot read
    chance, process = random.Random(2026), psutil.Process()
    with serving(base, batching=Batching(), limits=Limits(tensor_elements=100_000, slow_seconds=5)) as client:
        by_grpc, by_rest = ask_oddly_by_grpc(client, chance, 500), ask_oddly_by_rest(client, chance, 300)
        send_broken_http(client.server.rest_port, chance, 100)
        before = process.memory_info().rss
        by_grpc |= ask_oddly_by_grpc(client, chance, 5400)
        by_rest |= ask_oddly_by_rest(client, chance, 3200)
        send_broken_http(client.server.rest_port, chance, 300)
        send_broken_http(client.server.port, chance, 200)
        grown = process.memory_info().rss - before
        assert client.answers() and json.loads(client.rest()[1]) == {"predictions": [3.0]}
    assert by_grpc - {"OK", UNREADABLE} <= REFUSALS and by_grpc > {"OK", UNREADABLE, "INVALID_ARGUMENT", "NOT_FOUND"}
    assert by_rest == {200, 400, 404}
    assert grown < 200 * MEGABYTE
    assert [record.getMessage() for record in caplog.records if record.name.startswith("bertline.serving.embedded.")] == []


def test_a_few_bytes_ask_for_no_more_memory_than_the_limit(base):
    with serving(base) as client:
        before = psutil.Process().memory_info().rss
        for shape in ([1 << 40], [1 << 20, 1 << 20, 1 << 20], [(1 << 24) + 1], [0, 1 << 62], [-1], [1] * 300):
            asked = request(x=[2.0])
            del asked.inputs["x"].tensor_shape.dim[:]
            for size in shape:
                asked.inputs["x"].tensor_shape.dim.add(size=size)
            error = refused(lambda asked=asked: client.predictions.Predict(asked))
            assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert psutil.Process().memory_info().rss - before < 64 * MEGABYTE and client.answers()


def test_bodies_of_64_megabytes_are_refused(base):
    with serving(base) as client:
        asked = request(x=[2.0])
        asked.inputs["x"].tensor_content = bytes(64 * MEGABYTE)
        assert refused(lambda: client.predictions.Predict(asked)).code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        status, page = client.rest(body=b" " * (64 * MEGABYTE))
        assert status == 413 and "limit" in json.loads(page)["error"]
        assert client.answers()


def test_json_of_100_000_levels_is_refused(base):
    with serving(base) as client:
        for level in (b"[", b'{"a":', b'{"instances":[', b'[{"inputs":'):
            for body in (level * 100_000, b'{"instances": ' + level * 100_000):
                status, page = client.rest(body=body)
                assert status == 400 and json.loads(page)["error"], level
        assert client.rest()[0] == 200


def test_json_of_millions_of_values_is_refused(base):
    with serving(base) as client:
        for item in (b"1,", b"[],", b'"",', b'{"x":1},'):
            status, page = client.rest(body=b'{"instances": [' + item * 1_200_000 + b"1]}")
            assert status == 400 and "more than 1048576 values" in json.loads(page)["error"], item
        assert client.rest()[0] == 200


def test_two_hundred_half_sent_requests_keep_nobody_waiting(base):
    with serving(base) as client, contextlib.ExitStack() as stack:
        for number in range(200):
            port = client.server.rest_port if number % 2 else client.server.port
            plugged = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE))
            plugged.sendall(
                f"POST {ANSWERS} HTTP/1.1\r\nHost: a\r\nContent-Le".encode() if number % 2 else b"PRI * HTTP/2.0"
            )
        for _ in range(20):
            assert client.answers() and client.rest()[0] == 200
        with grpc.insecure_channel(f"127.0.0.1:{client.server.port}") as another:
            assert Client(client.server, another).answers()
