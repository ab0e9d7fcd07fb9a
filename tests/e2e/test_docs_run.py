"""The README and the tutorials do what they say: their blocks are executed, in order, in a folder of the reader's."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from documents import ROOT, Block, blocks, commands, name_of, pages_that_run

from bertline.serving.client.sync import Client, ServingError
from bertline.serving.launch.ports import free_ports

pytestmark = pytest.mark.full

BIN = Path(sys.executable).parent
PAGES = [page for page in pages_that_run() if any(block.runs for block in blocks(page))]
_PATIENCE = 1200


def write_tickets(folder: Path) -> None:
    """What the README calls tickets.csv: a queue that follows from the words."""
    chance = random.Random(0)
    subjects = {
        "billing": ("card", "invoice", "payment", "refund"),
        "app": ("app", "screen", "login", "update"),
        "delivery": ("parcel", "courier", "package", "shipment"),
    }
    happened = ("has a problem", "is wrong again", "did not work today", "was never what I expected", "makes me angry")
    lines = ["body,queue"]
    for number in range(240):
        queue = chance.choice(sorted(subjects))
        lines.append(f"My {chance.choice(subjects[queue])} {chance.choice(happened)} since day {number}.,{queue}")
    (folder / "tickets.csv").write_text("\n".join(lines) + "\n")


def execute(folder: Path, block: Block) -> None:
    """A shell block line by line: a record is looked at when it is whole, which on a busy machine takes its time."""
    if block.language == "python":
        call(folder, sys.executable, "-c", block.code)
    for line in commands(block) if block.language == "bash" else ():
        if re.match(r"(\.venv/bin/)?bertline (runs|report|compare)\b", line):
            wait_for_the_record(folder)
        call(folder, "bash", "-euo", "pipefail", "-c", line)


def call(folder: Path, *words: str | Path) -> None:
    environment = os.environ | {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "NO_COLOR": "1"}
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=_PATIENCE)
    assert done.returncode == 0, f"{words[-1]}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"


def wait_for_the_record(folder: Path) -> None:
    ends = time.monotonic() + _PATIENCE
    while subprocess.run([BIN / "bertline", "sync"], cwd=folder, capture_output=True).returncode:
        assert time.monotonic() < ends, "MLflow does not have everything"


def execute_beside_a_server(folder: Path, block: Block) -> None:
    """What was pushed last is served; the block's own address is that of `bertline serve` without options."""
    port, _ = free_ports()
    serve = [BIN / "bertline", "serve", "--port", str(port), "--rest_api_port", "0"]
    with (folder / "server.log").open("w") as log, subprocess.Popen(serve, cwd=folder, stdout=log, stderr=log) as server:
        try:
            wait_until_loaded(f"localhost:{port}", json.loads((folder / "workspace" / "summary.json").read_text())["name"])
            assert "localhost:8500" in block.code
            execute(folder, replace(block, code=block.code.replace("localhost:8500", f"localhost:{port}")))
        finally:
            server.terminate()


def wait_until_loaded(address: str, model: str) -> None:
    ends = time.monotonic() + _PATIENCE
    while time.monotonic() < ends:
        with suppress(ServingError), Client(address, model=model) as client:
            if any(version.state == "AVAILABLE" for version in client.status()):
                return
        time.sleep(0.2)
    raise AssertionError(f"{model} is not loaded")


@pytest.mark.timeout(3 * _PATIENCE)
@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_of_a_page_does_what_it_says(page, tmp_path):
    (tmp_path / ".venv").symlink_to(BIN.parent)
    write_tickets(tmp_path)
    for block in blocks(page):
        if block.title:
            (tmp_path / block.title).write_text(block.code, encoding="utf-8")
        elif block.runs:
            execute(tmp_path, block)
        elif block.mark == "run with":
            assert block.reason == "server"
            execute_beside_a_server(tmp_path, block)


def test_the_readme_names_the_commands_that_check_a_change():
    assert re.search(r"^make test\b", (ROOT / "README.md").read_text(), re.MULTILINE)
