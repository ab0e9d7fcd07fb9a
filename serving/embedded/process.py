"""The embedded server in a fresh process: nothing that the caller has loaded can help it, as nothing does elsewhere."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from bertline.pipeline.core.child_process import environment_of_child
from bertline.serving.launch import ports
from bertline.serving.launch.launcher import Running, Say, heard, spawned
from bertline.serving.settings import ServerSettings


def start(settings: ServerSettings, log: Say) -> Running:
    """Starts it and does not wait for it.

    Args:
      settings: with one model and any port; of the rest it has the defaults, and no REST.
      log: takes each line that it writes.
    """
    (model,) = settings.models.model_config_list.config
    settings = replace(settings, port=settings.port or ports.free_ports(settings.host)[0], rest_api_port=None)
    process = spawned(
        [sys.executable, "-m", "bertline.serving.embedded", model.name, model.base_path, str(settings.port)],
        stdin=subprocess.PIPE,
        env=environment_of_child(CUDA_VISIBLE_DEVICES="-1"),  # the process that has trained holds the GPUs' memory
    )
    folder = Path(tempfile.mkdtemp(prefix="bertline-serve-"))
    return heard(Running(process, settings, "the embedded server", folder), log)
