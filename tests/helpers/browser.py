"""A headless Chromium, told by its DevTools protocol what to do; it remembers every error and every request."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

import websocket

NAMES = ("chromium", "chromium-browser", "google-chrome")
HOW_TO_INSTALL = "no Chromium is installed; tests/install-browser brings Debian's"
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars",
    "--remote-debugging-port=0", "about:blank",
)  # fmt: skip
_PATIENCE = 60  # seconds, for one answer on a busy machine


def find_browser() -> str | None:
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Browser:
    """One window, until `close`."""

    def __init__(self, program: str, folder: Path) -> None:
        """Args: folder: for its profile, new and empty."""
        self.errors: list[str] = []
        """Of the console, of scripts, and of the page's own security policy."""
        self.requests: list[str] = []
        self._numbers = 0
        self._log = (folder / "browser.log").open("w")
        command = [program, *_FLAGS[:-1], f"--user-data-dir={folder / 'profile'}", _FLAGS[-1]]
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log)
        try:
            self._socket = websocket.create_connection(self._address(folder), timeout=_PATIENCE, suppress_origin=True)
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.do(f"{domain}.enable")
        except BaseException:
            self._end()
            raise

    def _address(self, folder: Path) -> str:
        chosen = folder / "profile" / "DevToolsActivePort"
        end = time.monotonic() + _PATIENCE
        while not (chosen.is_file() and len(chosen.read_text().splitlines()) == 2):
            if self._process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the browser did not start: {(folder / 'browser.log').read_text()[-500:]}")
            time.sleep(0.05)
        port = chosen.read_text().splitlines()[0]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=_PATIENCE) as answer:
            return next(page["webSocketDebuggerUrl"] for page in json.load(answer) if page["type"] == "page")

    def do(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._numbers += 1
        number = self._numbers
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv())
            if message.get("id") == number:
                assert "error" not in message, message
                return message["result"]
            self._hear(message)

    def _hear(self, message: dict[str, Any]) -> None:
        method, what = message.get("method"), message.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(what["request"]["url"])
        elif method == "Runtime.exceptionThrown" or (
            method == "Runtime.consoleAPICalled" and what["type"] in ("error", "warning", "assert")
        ):
            self.errors.append(json.dumps(what)[:1000])
        elif method == "Log.entryAdded" and what["entry"]["level"] in ("error", "warning"):
            self.errors.append(what["entry"]["text"])

    def open(self, address: str) -> None:
        self.do("Page.navigate", url=address)
        self.ask(
            "new Promise(done => document.readyState === 'complete' ? done() : addEventListener('load', () => done()))"
        )

    def ask(self, script: str) -> Any:
        """The value of a script in the page."""
        found = self.do("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def look(self, width: int, height: int = 900, *, dark: bool = False) -> None:
        self.do("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.do("Emulation.setEmulatedMedia", features=[scheme])
        self.settle()

    def settle(self) -> None:
        """Two frames later what was changed is laid out and drawn."""
        self.ask("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done())))")

    def place(self, selector: str, across: float = 0.5) -> tuple[float, float]:
        """A point of an element that is scrolled into view."""
        box = self.ask(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'center'}});"
            " const b = e.getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; })()"
        )
        return box[0] + across * box[2], box[1] + box[3] / 2

    def hover(self, selector: str, across: float = 0.5) -> None:
        x, y = self.place(selector, across)
        self.do("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, selector: str) -> None:
        x, y = self.place(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.do("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def key(self, name: str, code: int, text: str = "") -> None:
        for kind in ("keyDown", "keyUp"):
            given = {"text": text} if text and kind == "keyDown" else {}
            self.do("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=code, **given)

    def write(self, text: str) -> None:
        self.do("Input.insertText", text=text)

    def picture(self, path: Path) -> None:
        """The whole page."""
        image = self.do("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(image["data"]))

    def close(self) -> None:
        self._socket.close()
        self._end()

    def _end(self) -> None:
        self._process.terminate()
        self._process.wait(_PATIENCE)
        self._log.close()
