"""What the real TensorFlow Serving is told: files and command lines that say what our settings say. Nothing is started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Literal

from bertline.pipeline.core.errors import BertlineError
from bertline.serving.launch import config_files
from bertline.serving.settings import ServerSettings

Engine = Literal["binary", "docker"]

BINARY = "tensorflow_model_server"
IMAGE = "tensorflow/serving"
GRPC_PORT, REST_PORT = 8500, 8501
"""Inside a container, whatever the host's ports are."""
FILE_FLAGS = ("tensorflow_session_config_file", "platform_config_file", "thread_pool_factory_config_file")
"""Flags of the server that name a file of this machine, beside those that are written anew."""


def default_image() -> str:
    """The image of the version that the pinned messages are of: a server knows the ops of its own TensorFlow, and older."""
    return f"{IMAGE}:{metadata.version('tensorflow-serving-api')}"


def files_of(settings: ServerSettings) -> dict[str, str]:
    """The server's files by name."""
    files = {"models.config": config_files.models_text(settings.models)}
    if settings.batching is not None:
        files["batching.config"] = config_files.batching_text(settings.batching)
    if settings.prometheus_path is not None and settings.rest_api_port is not None:
        files["monitoring.config"] = config_files.monitoring_text(settings.prometheus_path)
    if settings.tls is not None:
        files["ssl.config"] = config_files.tls_text(settings.tls)
    return files


def server_flags(settings: ServerSettings, folder: str, extra: Mapping[str, str] | None = None) -> list[str]:
    """The command line of tensorflow_model_server, whose files stand in a folder; `extra` are flags of its own.

    Each is written with `=`: TensorFlow's flags know no other way.
    """
    files = {name.removesuffix(".config"): f"{folder}/{name}" for name in files_of(settings)}
    flags: dict[str, object] = {
        "port": settings.port,
        "rest_api_port": settings.rest_api_port or 0,
        "rest_api_timeout_in_ms": round(settings.rest_timeout_seconds * 1000),
        "model_config_file": files["models"],
        # Whole seconds: half a second would be 0, which is no polling at all.
        "file_system_poll_wait_seconds": max(1, round(settings.poll_seconds)) if settings.poll_seconds > 0 else 0,
        "max_num_load_retries": settings.load_retries,
        "load_retry_interval_micros": round(settings.load_retry_seconds * 1_000_000),
        "enable_model_warmup": str(settings.warm_up).lower(),
        "tensorflow_intra_op_parallelism": settings.intra_op_threads,
        "tensorflow_inter_op_parallelism": settings.inter_op_threads,
    }
    if "batching" in files:
        flags |= {"enable_batching": "true", "batching_parameters_file": files["batching"]}
    if "monitoring" in files:
        flags["monitoring_config_file"] = files["monitoring"]
    if "ssl" in files:
        flags["ssl_config_file"] = files["ssl"]
    return [f"--{name}={value}" for name, value in {**flags, **(extra or {})}.items()]


def in_container(settings: ServerSettings) -> ServerSettings:
    """The same server as a container sees it: its own ports, and models under /models."""
    models = type(settings.models).FromString(settings.models.SerializeToString())
    for model in models.model_config_list.config:
        if not config_files.is_uri(model.base_path):
            model.base_path = f"/models/{model.name}"
    rest = None if settings.rest_api_port is None else REST_PORT
    return replace(settings, models=models, host="0.0.0.0", port=GRPC_PORT, rest_api_port=rest)


def docker_command(
    docker: str | Path,
    settings: ServerSettings,
    folder: str | Path,
    name: str,
    image: str,
    extra: Mapping[str, str] | None = None,
) -> list[str]:
    """`docker run` for a server whose files, as the container sees them, stand in a folder of the host.

    The image's own entry point is a shell, which as a container's first process does not pass SIGTERM on: so the server
    is started by itself, under Docker's little init.
    """
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    published = ["-p", f"{host}:{settings.port}:{GRPC_PORT}"]
    if settings.rest_api_port is not None:
        published += ["-p", f"{host}:{settings.rest_api_port}:{REST_PORT}"]
    mounted = ["-v", f"{folder}:/config:ro"]
    for model in settings.models.model_config_list.config:
        if config_files.is_uri(model.base_path):
            continue
        if ":" in model.base_path:
            raise BertlineError(
                f"{model.base_path}: Docker mounts no folder with a colon in its name; rename it, or link to it."
            )
        mounted += ["-v", f"{model.base_path}:/models/{model.name}:ro"]
    entry = ["--entrypoint", f"/usr/bin/{BINARY}", image]
    flags = server_flags(in_container(settings), "/config", extra)
    return [str(docker), "run", "--rm", "--init", "--name", name, *published, *mounted, *entry, *flags]


def notes(settings: ServerSettings, engine: Engine) -> list[str]:
    """What of the settings the real server does not do, a sentence each."""
    found = []
    if engine == "binary" and settings.host not in ("0.0.0.0", "::"):
        found.append(
            f"{BINARY} listens on every address of this machine, whatever --host says; --engine docker keeps to it."
        )
    if settings.tls is not None and settings.rest_api_port is not None:
        found.append(f"{BINARY} has TLS on gRPC and not on REST; --rest_api_port=0 turns REST off.")
    if settings.request_log is not None:
        found.append("--request_log is ignored: only the embedded server keeps requests.")
    if settings.root is not None:
        found.append(f"--root is ignored: {BINARY} reloads models from any folder that it can read.")
    return found
