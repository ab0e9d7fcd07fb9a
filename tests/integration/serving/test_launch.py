"""The real server's process, here played by a stand-in: started, awaited, stopped, swept up after."""

from __future__ import annotations

import datetime
import json
import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import grpc
import model_server
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from bertline.pipeline.core.errors import BertlineError
from bertline.serving.client.wire import MESSAGES
from bertline.serving.launch import launcher as launching
from bertline.serving.launch.config_files import one_model
from bertline.serving.launch.launcher import find_binary, find_docker, launch, probe_version
from bertline.serving.settings import Batching, ServerSettings, Tls


@pytest.fixture
def saw(tmp_path, monkeypatch) -> Path:
    """The stand-in stands on PATH, temporary files in a folder to look into; the stand-in writes what it saw."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    monkeypatch.setenv("PATH", str(model_server.install(tmp_path / "bin").parent), prepend=os.pathsep)
    monkeypatch.setenv("STAND_IN_SAW", str(tmp_path / "saw.json"))
    return tmp_path / "saw.json"


def settings(name: str, **others) -> ServerSettings:
    return ServerSettings(**({"models": one_model(name, "/models/m"), "port": 0, "rest_api_port": 0} | others))


def quiet(line: str) -> None:
    pass


def ended(saw: Path) -> bool:
    """Whether the stand-in was ended by a signal that it was sent, and nothing of ours is left."""
    return Path(f"{saw}.ended").read_text() == "by SIGTERM" and not os.listdir(saw.parent / "temporary")


def self_signed(name: str) -> tuple[bytes, bytes]:
    """A private key and a certificate for a host, in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    who = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    made = x509.CertificateBuilder(who, who, key.public_key(), x509.random_serial_number(), now - day, now + day)
    secret = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return secret, made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def test_every_model_answers_when_launch_returns(saw):
    with launch(settings("slow"), "binary", log=quiet) as running:
        with grpc.insecure_channel(f"127.0.0.1:{running.port}") as channel:
            ask = channel.unary_unary(
                "/tensorflow.serving.ModelService/GetModelStatus",
                request_serializer=bytes,
                response_deserializer=MESSAGES["GetModelStatusResponse"].FromString,
            )
            request = MESSAGES["GetModelStatusRequest"]()
            request.model_spec.name = "slow"
            (version,) = ask(request.SerializeToString()).model_version_status
        assert (version.version, version.state) == (7, 30)
    assert ended(saw)


def test_the_server_reads_what_the_settings_say(saw, tmp_path):
    session = tmp_path / "session.config"
    session.write_text("allow_soft_placement: true")
    given = settings("plain", batching=Batching(max_batch_size=48), prometheus_path="/metrics")
    extra = {"tensorflow_session_config_file": str(session), "grpc_max_threads": "9"}
    with launch(given, "binary", extra=extra, log=quiet) as running:
        read = json.loads(saw.read_text())
        assert (read["models"], read["max_batch_size"], read["prometheus"]) == (["plain"], 48, "/metrics")
        assert read["session"] == "allow_soft_placement: true" and read["flags"]["grpc_max_threads"] == "9"
        assert read["flags"]["port"] == str(running.port) and read["flags"]["rest_api_port"] == str(running.rest_port)
    assert ended(saw)


def test_the_servers_files_are_for_its_user_alone(saw):
    with launch(settings("plain"), "binary", log=quiet) as running:
        assert stat.S_IMODE(running.folder.stat().st_mode) == 0o700
        assert sorted(os.listdir(running.folder)) == ["models.config", "monitoring.config"]


def test_the_port_is_free_again_after_stop_and_stop_may_come_twice(saw):
    running = launch(settings("plain"), "binary", log=quiet)
    running.stop()
    running.stop()
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("127.0.0.1", running.port))


def test_a_server_that_dies_is_told_with_its_last_words(saw):
    with pytest.raises(BertlineError) as caught:
        launch(settings("dying"), "binary", log=quiet)
    told = str(caught.value)
    assert told.startswith("tensorflow_model_server 2.16.1-rc0 exited with code 255. The last it said:\n")
    assert "a first line" in told and "the disk is on fire" in told
    assert not os.listdir(saw.parent / "temporary")


def test_a_model_that_cannot_be_loaded_is_told_and_the_server_stopped(saw):
    with pytest.raises(BertlineError, match="model broken cannot be loaded: version 7: there is no saved_model.pb"):
        launch(settings("broken"), "binary", log=quiet)
    assert ended(saw)


def test_waiting_has_an_end(saw):
    with pytest.raises(BertlineError, match="no answer for its models in 3 s. The last it said:\n  Running ModelServer"):
        launch(settings("silent"), "binary", log=quiet, patience=3.0)
    assert ended(saw)


@pytest.mark.parametrize("client_verify", [False, True])
def test_a_server_with_tls_is_awaited_too(saw, client_verify):
    key, cert = self_signed("elsewhere")
    tls = Tls(key, cert, custom_ca=cert if client_verify else b"", client_verify=client_verify)
    said: list[str] = []
    with launch(settings("plain", tls=tls), "binary", said.append, log=quiet) as running:
        assert running.process.poll() is None
    assert ended(saw) and any("TLS on gRPC and not on REST" in line for line in said)


def test_a_port_in_use_is_told_before_anything_starts(saw):
    with socket.socket() as other:
        other.bind(("0.0.0.0", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(BertlineError, match=f"--port {port}: the port is in use"):
            launch(settings("plain", port=port), "binary", log=quiet)
        with pytest.raises(BertlineError, match=f"--rest_api_port {port}: the port is in use"):
            launch(settings("plain", rest_api_port=port), "binary", log=quiet)
    assert not saw.exists() and not os.listdir(saw.parent / "temporary")


SERVE = """
import sys
from bertline.serving.launch.config_files import one_model
from bertline.serving.launch.launcher import serve
from bertline.serving.settings import ServerSettings
settings = ServerSettings(one_model(sys.argv[1], "/m"), port=0, rest_api_port=None)
serve(settings, "binary", lambda line: print(line, flush=True))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(("model", "mark"), [("plain", " serves plain: gRPC on "), ("silent", " loads silent")])
def test_a_signal_ends_the_server_and_the_command(saw, number, model, mark):
    """Also while the models are still being loaded."""
    command = [sys.executable, "-c", SERVE, model]
    environment = {**os.environ, "TMPDIR": str(saw.parent / "temporary")}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as serving:
        assert serving.stdout and serving.stderr
        lines = iter(serving.stdout.readline, "")
        assert any(mark in line for line in lines)
        assert any("Running ModelServer" in line for line in iter(serving.stderr.readline, ""))  # its log comes through
        serving.send_signal(number)
        assert any(" is stopped" in line for line in lines)
        assert serving.wait() == 0
    assert ended(saw)


def test_a_server_that_ends_by_itself_ends_the_command(saw):
    with pytest.raises(BertlineError, match="exited with code 3"):
        launching.serve(settings("brief"), "binary", quiet)
    assert not os.listdir(saw.parent / "temporary")


def test_the_binary_tells_its_version(saw, tmp_path):
    found = find_binary()
    assert found is not None and probe_version(found) == "2.16.1-rc0"
    other = tmp_path / "other"
    other.write_text("#!/bin/sh\necho who, me?\n")
    other.chmod(0o755)
    with pytest.raises(BertlineError, match=r"--version prints none \(who, me\?\)"):
        probe_version(other)
    with pytest.raises(BertlineError, match="No such file"):
        probe_version(tmp_path / "nowhere")


def test_docker_counts_only_where_its_daemon_answers(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_docker() is None
    for code, found in ((1, None), (0, tmp_path / "docker")):
        (tmp_path / "docker").write_text(f"#!/bin/sh\nexit {code}\n")
        (tmp_path / "docker").chmod(0o755)
        assert find_docker() == found


@pytest.mark.parametrize(("engine", "told"), [("binary", "Debian package"), ("docker", "install and start it")])
def test_without_a_server_one_sentence_says_how_to_get_it(tmp_path, monkeypatch, engine, told):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BertlineError, match=told) as caught:
        launch(settings("plain"), engine)
    assert "pip install" not in str(caught.value) and "embedded" in str(caught.value)
