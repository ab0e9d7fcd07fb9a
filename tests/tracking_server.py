"""MLflow's own server on loopback, which can be killed, started again, and made to hang."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from serving.ports import free_ports


class TrackingServer:
    """Its runs and files stand in a folder, and outlive its process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port = free_ports()[0]
        self.uri = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        mlflow = Path(sys.executable).with_name("mlflow")
        command = [mlflow, "server", "--host", "127.0.0.1", "--port", str(self.port), "--workers", "1"]
        command += ["--backend-store-uri", f"sqlite:///{self._folder}/server.db"]
        command += ["--artifacts-destination", str(self._folder / "artifacts")]
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
            )
        while not self._answers():
            assert self._process.poll() is None, (self._folder / "server.log").read_text()
            time.sleep(0.1)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.uri}/health", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def hang(self) -> None:
        """Connections are taken, and nothing is answered."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        if self._process:
            self._signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        os.killpg(self._process.pid, number)
