"""`python -m bertline.serving.embedded NAME FOLDER PORT`: the embedded server in a process of its own, gRPC only.

It is what `process.py` starts, and ends with it: the pipe that is its standard input closes when the other side is gone.
"""

from __future__ import annotations

import os
import sys
import threading

from bertline.serving.embedded.server import serve
from bertline.serving.launch.config_files import one_model
from bertline.serving.settings import ServerSettings


def _end_with_the_pipe() -> None:
    while os.read(0, 1024):  # not by sys.stdin, whose lock a thread must not hold when Python ends
        pass
    os._exit(0)


if __name__ == "__main__":
    name, folder, port = sys.argv[1:]
    threading.Thread(target=_end_with_the_pipe, daemon=True).start()
    settings = ServerSettings(models=one_model(name, folder), port=int(port), rest_api_port=None, load_retries=0)
    serve(settings, lambda line: print(line, flush=True))
