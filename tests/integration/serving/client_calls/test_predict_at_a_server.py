"""`bertline predict --server`: the command asks a server."""

from __future__ import annotations

import json
import threading

import grpc
import pytest
from click.testing import CliRunner
from shouting_server import LONG, MODEL, fails, listening, server_credentials

from bertline.pipeline.cli import main


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
        (("--server", "localhost", "--name", "loud", "a"), "localhost: not HOST:PORT"),
        (("--server", "{}", "a"), "give --name"),
        (("--server", "{}", "--name", "loud", "--mask", "a"), "its task is regression, not pretraining"),
        (("--server", "{}", "--name", "loud", "--embed", "a"), "no signature embed, but serving_default"),
        (("--server", "{}", "--name", "loud", "a", "--second", "b"), "the model reads one text, and example 1 has 2"),
        (("--server", "{}", "--name", "loud", "--version", "1", "--label", "x", "a"), "a version and a label name two"),
    ],
)
def test_what_does_not_go_together_is_refused_in_one_sentence(address, tmp_path, arguments, part):
    refused = predict("--workspace", str(tmp_path), *(argument.format(address) for argument in arguments))
    assert refused.exit_code == 1 and refused.output.startswith("error: ") and part in refused.output
