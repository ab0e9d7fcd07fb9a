"""Takes the pictures of docs/assets/screenshots from a workspace in which a pipeline has run at least twice.

    python docs/screenshots.py path/to/workspace "A dull film, and far too long."

It drives the Chromium of the tests (tests/install-browser), and needs no network.
"""

from __future__ import annotations

import argparse
import base64
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from browser import HOW_TO_INSTALL, Browser, find_browser  # noqa: E402  of the tests, which are no package
from mlflow.tracking import MlflowClient  # noqa: E402

from bertline.serving.launch.ports import free_ports  # noqa: E402

ASSETS = Path(__file__).parent / "assets" / "screenshots"
BERTLINE = Path(sys.executable).parent / "bertline"
WIDTH, HEIGHT = 1280, 860
MAX_BYTES = 200_000
_PATIENCE = 120
_CLOSE_ASSISTANT = 'document.querySelector(\'[aria-label="Close Assistant"], [aria-label="Close"]\')?.click()'
"""MLflow opens it at the first visit; it needs a language model, which nobody has set up here."""


def command(*words: str | Path, workspace: Path) -> None:
    subprocess.run(
        [BERTLINE, *words, "--workspace", workspace], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def pages(workspace: Path, text: str, folder: Path) -> dict[str, str]:
    """Name of a picture -> the address of what it shows."""
    done = json.loads((workspace / "summary.json").read_text())
    name = done["name"]
    made = {page: folder / f"{page}.html" for page in ("report", "comparison", "explanation")}
    command("report", "--last", "-o", made["report"], workspace=workspace)
    command("compare", "--last", "2", "--html", made["comparison"], workspace=workspace)
    command("explain", name, text, "--html", made["explanation"], workspace=workspace)
    files = made | {"data": workspace / "pipelines" / name / "data.html"}
    return {page: path.resolve().as_uri() for page, path in files.items()}


def take(browser: Browser, name: str, address: str) -> None:
    browser.open(address)
    browser.look(WIDTH, HEIGHT)
    image = browser.do("Page.captureScreenshot", format="png")["data"]
    save(name, image)


def save(name: str, image: str) -> None:
    content = base64.b64decode(image)
    if len(content) > MAX_BYTES:
        raise SystemExit(f"{name}.png would have {len(content):,} bytes, and {MAX_BYTES:,} are the limit")
    (ASSETS / f"{name}.png").write_bytes(content)
    print(f"{name}.png  {len(content):,} bytes")


def take_mlflow(browser: Browser, workspace: Path) -> None:
    done = json.loads((workspace / "summary.json").read_text())
    run = MlflowClient(done["mlflow_uri"]).get_run(done["mlflow_run_id"]).info
    port, _ = free_ports()
    shown = subprocess.Popen(
        [BERTLINE, "ui", "--workspace", workspace, "--port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(port)
        browser.open(f"http://127.0.0.1:{port}/#/experiments/{run.experiment_id}/runs/{run.run_id}/model-metrics")
        browser.look(WIDTH, HEIGHT)
        ends = time.monotonic() + _PATIENCE
        while "train/loss" not in browser.ask("document.body.innerText") and time.monotonic() < ends:
            time.sleep(0.5)
        browser.ask(_CLOSE_ASSISTANT)
        browser.click("input[placeholder='Search metric charts']")
        browser.write("(train|eval_epoch)/(loss|acc|learning)")
        time.sleep(5)  # the last charts come by requests of their own
        browser.settle()
        save("mlflow", browser.do("Page.captureScreenshot", format="png")["data"])
    finally:
        shown.terminate()
        shown.wait()


def wait_for(port: int) -> None:
    ends = time.monotonic() + _PATIENCE
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).close()
            return
        except OSError:
            if time.monotonic() > ends:
                raise
            time.sleep(0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workspace", type=Path)
    parser.add_argument("text", help="what is explained")
    given = parser.parse_args()
    program = find_browser()
    if program is None:
        raise SystemExit(HOW_TO_INSTALL)
    ASSETS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "browser").mkdir()
        browser = Browser(program, Path(folder) / "browser")
        try:
            for name, address in pages(given.workspace, given.text, Path(folder)).items():
                take(browser, name, address)
            take_mlflow(browser, given.workspace)
        finally:
            browser.close()


if __name__ == "__main__":
    main()
