"""The client's calls over real connections, to a PredictionService made of TensorFlow Serving's own messages."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import json
import threading
from concurrent import futures
from contextlib import contextmanager

import grpc
import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from pipeline.cli import main
from serving import connection
from serving.client import AsyncClient, Client, ClientTls, ServingError

MODEL = "loud"
FULL = "The batch scheduling queue to which this task was submitted is full"
LONG = 60.0
"""Seconds that no test waits for."""


class Shouts(prediction_service_pb2_grpc.PredictionServiceServicer, model_service_pb2_grpc.ModelServiceServicer):
    """A model of two versions that gives each text a number, its length, unless it is told to do otherwise."""

    def __init__(self):
        self.before = lambda request, context: None
        """Called with each Predict, and may fail it."""
        self.version = 4
        self.filling = None
        """One more output, as large as it is."""
        self.sizes = []
        self.left = []
        self.lock = threading.Lock()

    def Predict(self, request, context):
        texts = tf.make_ndarray(request.inputs["text"])
        with self.lock:
            self.sizes.append(len(texts))
            self.left.append(context.time_remaining())
        if request.model_spec.name != MODEL:
            context.abort(grpc.StatusCode.NOT_FOUND, f"Servable not found for request: Latest({request.model_spec.name})")
        if request.model_spec.HasField("version") and request.model_spec.version.value not in (3, 4):
            wanted = request.model_spec.version.value
            context.abort(grpc.StatusCode.NOT_FOUND, f"Servable not found for request: Specific({MODEL}, {wanted})")
        self.before(request, context)
        reply = predict_pb2.PredictResponse()
        reply.model_spec.version.value = self.version
        lengths = np.array([len(text) for text in texts], np.float32)
        reply.outputs["value"].CopyFrom(tf.make_tensor_proto(lengths))
        if self.filling:
            reply.outputs["filling"].CopyFrom(tf.make_tensor_proto([self.filling] * len(texts)))
        return reply

    def GetModelMetadata(self, request, context):
        signature_map = get_model_metadata_pb2.SignatureDefMap()
        signature = signature_map.signature_def["serving_default"]
        for infos, name, dtype in ((signature.inputs, "text", 7), (signature.outputs, "value", 1)):
            infos[name].dtype = dtype
            infos[name].tensor_shape.dim.add(size=-1)
        reply = get_model_metadata_pb2.GetModelMetadataResponse()
        reply.model_spec.version.value = self.version
        reply.metadata["signature_def"].Pack(signature_map)
        return reply

    def GetModelStatus(self, request, context):
        reply = get_model_status_pb2.GetModelStatusResponse()
        for version in (3, 4):
            reply.model_version_status.add(version=version, state="AVAILABLE")
        return reply


@contextmanager
def listening(servicer, credentials=None, port=0):
    server = grpc.server(futures.ThreadPoolExecutor(16), options=[("grpc.so_reuseport", 0)])
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(servicer, server)
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(servicer, server)
    address = f"127.0.0.1:{port}"
    port = server.add_secure_port(address, credentials) if credentials else server.add_insecure_port(address)
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


@pytest.fixture
def shouts():
    return Shouts()


@pytest.fixture
def address(shouts):
    with listening(shouts) as where:
        yield where


class Blocking:
    """The calls of `AsyncClient`, each awaited in a loop of its own: so both clients go through the same tests."""

    def __init__(self, *arguments, **options):
        self.made = arguments, options

    def __getattr__(self, name):
        def called(*arguments, **options):
            async def within():
                async with AsyncClient(*self.made[0], **self.made[1]) as client:
                    return await getattr(client, name)(*arguments, **options)

            return asyncio.run(within())

        return called


both = pytest.mark.parametrize("make", [Client, Blocking], ids=["sync", "async"])


def fails(times, code=grpc.StatusCode.UNAVAILABLE, details=FULL):
    """Fails so many requests, and no more."""
    left = iter(range(times))

    def before(request, context):
        if next(left, None) is not None:
            context.abort(code, details)

    return before


@both
def test_an_answer_carries_the_version_that_gave_it(shouts, address, make):
    client = make(address, MODEL)
    found = client.predict({"text": ["ab", "é", b"\xff\0\0"]})
    assert found.outputs["value"].tolist() == [2, 2, 3] and found.version == 4
    assert [(one.value, one.version) for one in client.regress("one text")] == [(8, 4)]
    assert client.regress([]) == []
    assert [(status.version, status.state) for status in client.status()] == [(3, "AVAILABLE"), (4, "AVAILABLE")]
    assert client.metadata().version == 4 and list(client.metadata().signatures) == ["serving_default"]


@both
def test_what_is_unavailable_is_asked_again_until_it_answers(shouts, address, make):
    shouts.before = fails(3)
    assert make(address, MODEL, timeout=LONG).regress("abc")[0].value == 3
    assert len(shouts.sizes) == 4


@both
def test_it_is_asked_again_no_more_often_than_said(shouts, address, make):
    shouts.before = fails(100)
    with pytest.raises(ServingError, match="too much to do .*queue.*ask again later") as failed:
        make(address, MODEL, timeout=LONG, retries=2).regress("abc")
    assert failed.value.code == "UNAVAILABLE" and len(shouts.sizes) == 3


@both
@pytest.mark.parametrize("code", ["INVALID_ARGUMENT", "INTERNAL", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED"])
def test_no_other_failure_is_asked_again(shouts, address, make, code):
    shouts.before = fails(1, grpc.StatusCode[code], "no")
    with pytest.raises(ServingError) as failed:
        make(address, MODEL).regress("abc")
    assert failed.value.code == code and len(shouts.sizes) == 1


@both
def test_retries_end_with_the_deadline_of_the_whole_call(shouts, address, make):
    shouts.before = fails(10_000)
    with pytest.raises(ServingError) as failed:
        make(address, MODEL, timeout=0.5, retries=10_000).regress("abc")
    assert failed.value.code in ("UNAVAILABLE", "DEADLINE_EXCEEDED")
    assert shouts.left == sorted(shouts.left, reverse=True) and max(shouts.left) <= 0.5  # each was told what is left


@both
def test_a_call_ends_at_its_deadline_and_the_server_is_told(shouts, address, make):
    ended = threading.Event()

    def before(request, context):
        context.add_callback(ended.set)
        ended.wait(LONG)

    shouts.before = before
    with pytest.raises(ServingError, match=r"no answer within 0\.2 s .*allow more time") as failed:
        make(address, MODEL).regress("abc", timeout=0.2)
    assert failed.value.code == "DEADLINE_EXCEEDED" and ended.wait(LONG)


@both
def test_many_rows_are_asked_in_parts_and_answered_in_their_order(shouts, address, make):
    texts = ["x" * (number % 17) for number in range(200)]
    found = make(address, MODEL, timeout=LONG).regress(texts)
    assert [one.value for one in found] == [len(text) for text in texts]
    assert sorted(shouts.sizes) == [8, 64, 64, 64]


@both
def test_several_parts_are_under_way_together_and_no_more_than_said(shouts, address, make):
    together = threading.Barrier(3)
    under_way, most = [], []

    def before(request, context):
        with shouts.lock:
            under_way.append(request)
            most.append(len(under_way))
        together.wait(LONG)  # none is answered before three have come
        with shouts.lock:
            under_way.pop()

    shouts.before = before
    make(address, MODEL, timeout=LONG, max_batch=1, at_once=3).regress(["a"] * 6)
    assert max(most) == 3


@both
def test_rows_of_a_call_are_all_answered_by_one_version(shouts, address, make):
    asked = iter(range(100))

    def before(request, context):
        shouts.version = 3 if next(asked) == 0 else 4  # a new one takes over after the first part

    shouts.before = before
    found = make(address, MODEL, timeout=LONG, max_batch=1, at_once=1).regress(["a", "b", "c"])
    assert [one.version for one in found] == [4, 4, 4] and len(shouts.sizes) == 6


@both
def test_versions_that_answer_in_turns_are_told(shouts, address, make):
    turns = iter(range(100))
    shouts.before = lambda request, context: setattr(shouts, "version", next(turns))
    with pytest.raises(ServingError, match="two versions answer in turns") as failed:
        make(address, MODEL, timeout=LONG, max_batch=1, at_once=1).regress(["a", "b"])
    assert failed.value.code == "ABORTED" and len(shouts.sizes) == 2 * connection.ROUNDS


@both
def test_the_first_part_that_fails_gives_up_the_others(shouts, address, make):
    ended = threading.Event()
    begun = threading.Event()

    def before(request, context):
        if tf.make_ndarray(request.inputs["text"])[0] == b"bad":
            begun.wait(LONG)
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "a bad row")
        context.add_callback(ended.set)
        begun.set()
        ended.wait(LONG)

    shouts.before = before
    with pytest.raises(ServingError, match="a bad row"):
        make(address, MODEL, timeout=2 * LONG, max_batch=1).regress(["good", "bad"])
    assert ended.wait(LONG)  # the server was told, long before the deadline


def test_a_task_that_is_cancelled_cancels_its_request(shouts, address):
    begun, ended = threading.Event(), threading.Event()

    def before(request, context):
        context.add_callback(ended.set)
        begun.set()
        ended.wait(LONG)

    shouts.before = before

    async def cancelled():
        async with AsyncClient(address, MODEL, timeout=2 * LONG) as client:
            task = asyncio.ensure_future(client.regress("abc"))
            await asyncio.to_thread(begun.wait, LONG)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await asyncio.to_thread(ended.wait, LONG)

    asyncio.run(cancelled())


def test_an_interrupted_call_cancels_its_request(shouts, address, monkeypatch):
    begun, ended = threading.Event(), threading.Event()

    def before(request, context):
        context.add_callback(ended.set)
        begun.set()
        ended.wait(LONG)

    shouts.before = before
    client = Client(address, MODEL, timeout=2 * LONG)
    asked = client._stubs["Predict"].future

    class Interrupted:
        """What a call is to one who presses Ctrl-C."""

        def __init__(self, call):
            self.cancel = call.cancel

        def result(self):
            assert begun.wait(LONG)
            raise KeyboardInterrupt

    stub = type("Stub", (), {"future": staticmethod(lambda *given, **options: Interrupted(asked(*given, **options)))})
    monkeypatch.setitem(client._stubs, "Predict", stub)
    with pytest.raises(KeyboardInterrupt):
        client.regress("abc")
    assert ended.wait(LONG)  # long before the deadline


@both
def test_what_is_not_there_is_told_with_what_is(shouts, address, make):
    with pytest.raises(ServingError, match="model quiet: the server has no such model") as failed:
        make(address, "quiet").regress("a")
    assert failed.value.code == "NOT_FOUND"
    with pytest.raises(ServingError, match="loud version 7: there is no such version .*it has 3, 4"):
        make(address, MODEL, version=7).regress("a")


@both
def test_a_port_where_nothing_listens_is_told_as_such(make):
    with listening(Shouts()) as gone:
        pass
    with pytest.raises(ServingError, match=f"{gone}, model loud: nothing answers there .*start the server"):
        make(gone, MODEL, retries=1).status()


@both
def test_a_server_that_is_not_up_yet_can_be_waited_for(shouts, make):
    with listening(shouts) as where:
        pass
    with futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lambda: make(where, MODEL, timeout=LONG, wait_for_ready=True).regress("abc"))
        with listening(shouts, port=int(where.rpartition(":")[2])):
            assert waiting.result()[0].value == 3


@both
def test_a_reply_above_the_bound_is_refused(shouts, address, make):
    shouts.filling = b"x" * 20_000
    assert make(address, MODEL).predict({"text": ["a"]}).outputs["filling"].tolist() == [shouts.filling]
    with pytest.raises(ServingError, match="too large .*max_message_bytes") as failed:
        make(address, MODEL, max_message_bytes=10_000).predict({"text": ["a"]})
    assert failed.value.code == "RESOURCE_EXHAUSTED"


def make_certificate(name, issuer=None, issuer_key=None):
    """A key, and a certificate for it that another has signed, or it itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    hosts = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .sign(issuer_key or key, hashes.SHA256())
    )
    return key, made


def pem(key_or_certificate):
    if isinstance(key_or_certificate, x509.Certificate):
        return key_or_certificate.public_bytes(serialization.Encoding.PEM)
    form = serialization.PrivateFormat.PKCS8
    return key_or_certificate.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


@pytest.fixture(scope="module")
def authority():
    return make_certificate("authority")


@pytest.fixture(scope="module")
def files(authority, tmp_path_factory):
    """PEM files of an authority, of a server and of a client that it has signed."""
    folder = tmp_path_factory.mktemp("tls")
    (folder / "ca.pem").write_bytes(pem(authority[1]))
    for name in ("server", "client"):
        key, certificate = make_certificate(name, authority[1], authority[0])
        (folder / f"{name}.pem").write_bytes(pem(certificate))
        (folder / f"{name}.key").write_bytes(pem(key))
    return folder


def server_credentials(files, *, mutual):
    pair = (files / "server.key").read_bytes(), (files / "server.pem").read_bytes()
    return grpc.ssl_server_credentials([pair], (files / "ca.pem").read_bytes() if mutual else None, mutual)


@both
def test_a_secure_server_is_asked_by_whom_it_knows(shouts, files, make):
    ca = str(files / "ca.pem")
    known = ClientTls.read(ca=ca, cert=str(files / "client.pem"), key=str(files / "client.key"))
    with listening(shouts, server_credentials(files, mutual=False)) as where:
        assert make(where, MODEL, tls=ClientTls.read(ca=ca)).regress("abc")[0].value == 3
        for stranger in (ClientTls(ca=pem(make_certificate("other")[1])), None):
            with pytest.raises(ServingError) as failed:
                make(where, MODEL, tls=stranger, retries=0).regress("abc")
            assert failed.value.code == "UNAVAILABLE"
    with listening(shouts, server_credentials(files, mutual=True)) as where:
        assert make(where, MODEL, tls=known).regress("abc")[0].value == 3
        with pytest.raises(ServingError):
            make(where, MODEL, tls=ClientTls.read(ca=ca), retries=0).regress("abc")
    assert len(shouts.sizes) == 2


def predict(*arguments, stdin=None):
    return CliRunner().invoke(main, ["predict", *arguments], input=stdin)


def test_the_command_asks_a_server(shouts, address):
    asked = predict("--server", address, "--name", MODEL, "abc", "é")
    assert (asked.exit_code, asked.output) == (0, "3.000\n2.000\n")
    asked = predict("--server", address, "--name", MODEL, "--json", stdin="abc\n\n")
    assert [json.loads(line) for line in asked.output.splitlines()] == [
        {"text": "abc", "value": 3.0, "version": 4},
        {"text": "", "value": 0.0, "version": 4},
    ]


def test_a_file_is_asked_with_several_requests_in_flight_and_answered_in_its_order(shouts, address, tmp_path):
    together = threading.Barrier(8, timeout=LONG)
    shouts.before = lambda request, context: together.wait()  # fewer than eight at once would never be answered
    rows = [{"id": number, "text": "x" * (number * 7 % 101)} for number in range(16 * 64)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = predict(
        "--server", address, "--name", MODEL, "--file", str(tmp_path / "in.jsonl"), "--out", str(tmp_path / "out.jsonl")
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    found = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert found == [{**row, "value": len(row["text"]), "version": 4} for row in rows]


def test_a_file_that_a_server_cannot_answer_leaves_nothing(shouts, address, tmp_path):
    shouts.before = fails(1, grpc.StatusCode.INTERNAL, "out of memory")
    (tmp_path / "in.txt").write_text("a\n" * 1000)
    out = tmp_path / "out.jsonl"
    failed = predict("--server", address, "--name", MODEL, "--file", str(tmp_path / "in.txt"), "--out", str(out))
    assert failed.exit_code == 1 and "out of memory" in failed.output and not out.exists()


def test_the_command_speaks_tls(shouts, files):
    with listening(shouts, server_credentials(files, mutual=True)) as where:
        keys = [f"--tls_{name}={files / file}" for name, file in (("cert", "client.pem"), ("key", "client.key"))]
        asked = predict("--server", where, "--name", MODEL, f"--tls_ca={files / 'ca.pem'}", *keys, "abc")
        assert (asked.exit_code, asked.output) == (0, "3.000\n")


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--name", "loud", "a"), "--name goes with --server"),
        (("--tls", "a"), "--tls goes with --server"),
        (("--server", "{}", "--model", "folder", "a"), "--model is a folder here"),
        (("--server", "localhost", "--name", "loud", "a"), "localhost: it is no HOST:PORT"),
        (("--server", "{}", "a"), "name it by --name"),
        (("--server", "{}", "--name", "loud", "--mask", "a"), "its task is regression, not pretraining"),
        (("--server", "{}", "--name", "loud", "--embed", "a"), "it has no embed, but serving_default"),
        (("--server", "{}", "--name", "loud", "a", "--second", "b"), "the model reads one text, and row 1 has 2"),
        (("--server", "{}", "--name", "loud", "--version", "1", "--label", "x", "a"), "a version and a label name two"),
    ],
)
def test_what_does_not_go_together_is_refused_in_one_sentence(address, tmp_path, arguments, part):
    refused = predict("--workspace", str(tmp_path), *(argument.format(address) for argument in arguments))
    assert refused.exit_code == 1 and refused.output.startswith("error: ") and part in refused.output
