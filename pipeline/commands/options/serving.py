"""What the flags of `bertline serve` say: settings of a server, and which model it has."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from bertline.models.kinds import describe_kind
from bertline.pipeline.console import summary
from bertline.pipeline.core.errors import BertlineError
from bertline.serving.contract import read_metadata

if TYPE_CHECKING:
    from tensorflow_serving.config import model_server_config_pb2

    from bertline.serving.settings import Batching, ServerSettings, TryPage


class Pushed(NamedTuple):
    """A model where servers find it."""

    name: str
    base_path: str
    """Absolute, or a URI."""


def last_pushed(workspace: str) -> Pushed:
    """What the last run of a workspace pushed, under the pipeline's name."""
    found = summary.served(workspace)
    if found is None:
        raise BertlineError(
            f"no run in {workspace} has pushed a model yet; run `bertline run`, or name a model by --model_base_path."
        )
    if found.instead:
        _note(found.instead)
    if sentence := describe_kind(read_metadata(found.path)):
        _note(sentence)
    return Pushed(found.name, str(found.path.absolute().parent))


def named_model(model_name: str | None, model_base_path: str | None, workspace: str) -> Pushed:
    """The one model that --model_name and --model_base_path tell, or else the last that was pushed."""
    from bertline.serving.launch.config_files import is_model_name, is_uri

    if model_base_path is None:
        found = last_pushed(workspace)
    else:
        is_folder = not is_uri(model_base_path)
        found = Pushed("default", os.path.abspath(model_base_path) if is_folder else model_base_path)
    found = found._replace(name=model_name or found.name)
    if not is_model_name(found.name):
        raise BertlineError(f"--model_name {found.name}: a name is made of letters, digits, _ . and -; give another one.")
    if not is_uri(found.base_path):
        _require_versions(Path(found.base_path))
    return found


def _require_versions(path: Path) -> None:
    if (path / "saved_model.pb").is_file():
        hint = f"give its parent, {path.parent}" if path.name.isdecimal() else "move it into a folder named 1"
        raise BertlineError(f"{path} is a model, not the folder of its numbered versions; {hint}.")
    if not path.is_dir():
        raise BertlineError(f"{path}: no such folder; --model_base_path is the folder of a model's numbered versions.")


def settings_of(flags: Mapping[str, Any]) -> ServerSettings:
    """The settings that the command line tells."""
    from bertline.serving.launch.config_files import PROMETHEUS_PATH, read_monitoring, read_tls
    from bertline.serving.settings import Limits, ServerSettings

    if flags["rest_api_port"] and flags["rest_api_port"] == flags["port"]:
        raise BertlineError(f"--port and --rest_api_port are both {flags['port']}; give each its own.")
    monitoring, keys, limits = flags["monitoring_config_file"], flags["ssl_config_file"], Limits()
    most = flags["grpc_max_threads"] or limits.concurrent_requests
    intra, inter = _threads(flags)
    settings = ServerSettings(
        models=_models(flags),
        host=flags["host"],
        port=flags["port"],
        rest_api_port=flags["rest_api_port"] or None,
        rest_timeout_seconds=flags["rest_api_timeout_in_ms"] / 1000,
        root=_absolute(flags["root"]),
        batching=_batching(flags),
        page=_page(flags),
        prometheus_path=read_monitoring(monitoring) if monitoring else PROMETHEUS_PATH,
        tls=read_tls(keys) if keys else None,
        poll_seconds=float(flags["file_system_poll_wait_seconds"]),
        model_config_file=_absolute(flags["model_config_file"]),
        config_poll_seconds=float(max(flags["model_config_file_poll_wait_seconds"], 0)),
        load_retries=flags["max_num_load_retries"],
        load_retry_seconds=max(flags["load_retry_interval_micros"], 0) / 1_000_000,
        warm_up=flags["enable_model_warmup"],
        request_log=_absolute(flags["request_log"]),
        request_log_rate=flags["request_log_rate"],
        intra_op_threads=intra,
        inter_op_threads=inter,
        limits=replace(limits, concurrent_requests=most, json_values=flags["rest_api_max_values"]),
    )
    if flags["engine"] == "embedded":
        _require_within_reach(settings)
    return settings


def _absolute(path: str | None) -> Path | None:
    return Path(path).absolute() if path else None


def _models(flags: Mapping[str, Any]) -> model_server_config_pb2.ModelServerConfig:
    from bertline.serving.launch.config_files import one_model, read_models

    path = flags["model_config_file"]
    if not path:
        return one_model(*named_model(flags["model_name"], flags["model_base_path"], flags["workspace"]))
    for flag in ("model_name", "model_base_path"):
        if flags[flag]:
            _note(f"--{flag} is ignored: --model_config_file names the models.")
    return read_models(path)


def _page(flags: Mapping[str, Any]) -> TryPage | None:
    """For this machine unless it is asked for: whoever reaches the page may ask every model, as over REST, and why."""
    from bertline.serving.launch.ports import is_loopback
    from bertline.serving.settings import TryPage

    wanted = flags["page"]
    if flags["engine"] != "embedded" or not flags["rest_api_port"]:
        if wanted:
            missing = "the real server has none" if flags["engine"] != "embedded" else "there is no --rest_api_port"
            _note(f"--page is ignored: {missing}.")
        return None
    if not (is_loopback(flags["host"]) if wanted is None else wanted):
        return None
    return TryPage(explainer=(sys.executable, "-m", "bertline.pipeline.inference.explain.lines"))


def _require_within_reach(settings: ServerSettings) -> None:
    """The embedded server reads folders of this machine, and under a root no others."""
    from bertline.serving.launch.config_files import is_uri

    for model in settings.models.model_config_list.config:
        path, root = model.base_path, settings.root
        if is_uri(path):
            raise BertlineError(
                f"{path}: the embedded server reads local folders only; copy {model.name}, or use another --engine."
            )
        if root and not Path(path).resolve().is_relative_to(root.resolve()):
            raise BertlineError(f"{path} of {model.name} is not under --root {root}; name a root that holds all models.")


def _batching(flags: Mapping[str, Any]) -> Batching | None:
    """Off unless it is asked for, as in TensorFlow Serving; but on for what was pushed last, by numbers that suit a CPU."""
    from bertline.serving.launch.config_files import read_batching, serving_batching
    from bertline.serving.settings import Batching

    is_ours = not flags["model_config_file"] and not flags["model_base_path"]
    enabled = is_ours if flags["enable_batching"] is None else flags["enable_batching"]
    path = flags["batching_parameters_file"]
    if not enabled:
        if path:
            raise BertlineError("--batching_parameters_file says how to batch, and batching is off; add --enable_batching.")
        return None
    if path:
        return read_batching(path)
    return Batching() if is_ours else serving_batching()


def _threads(flags: Mapping[str, Any]) -> tuple[int, int]:
    """Threads of one operation and of several. As in server.cc the two flags go before the one for both."""
    both = flags["tensorflow_session_parallelism"]
    intra, inter = flags["tensorflow_intra_op_parallelism"], flags["tensorflow_inter_op_parallelism"]
    if both and intra and inter:
        raise BertlineError(
            "--tensorflow_session_parallelism sets --tensorflow_intra_op_parallelism and"
            " --tensorflow_inter_op_parallelism; leave it out, or these two."
        )
    return (intra, inter) if intra or inter else (both, both)


def own_flags(flags: Mapping[str, Any], others: Mapping[str, str | None]) -> dict[str, str]:
    """The flags that only the real server takes; the embedded one says that it ignores them."""
    given = {name: value for name, value in others.items() if value is not None}
    if flags["model_config_file_poll_wait_seconds"] > 0:
        _note_polling(flags)
    if flags["engine"] != "embedded":
        if flags["grpc_max_threads"]:
            given["grpc_max_threads"] = str(flags["grpc_max_threads"])
        return given
    # Ignored, these two would leave open what was meant to be closed, or answer by another graph than was meant.
    if given.get("use_alts_credentials", "false").lower() not in ("false", "0"):
        raise BertlineError("--use_alts_credentials: the embedded server has TLS only; give --ssl_config_file instead.")
    if given.get("saved_model_tags", "serve") != "serve":
        raise BertlineError("--saved_model_tags: the embedded server loads the graph tagged serve; take another --engine.")
    for name in given:
        _note(f"--{name} is ignored by the embedded server.")
    return {}


def _note_polling(flags: Mapping[str, Any]) -> None:
    flag = "--model_config_file_poll_wait_seconds"
    if not flags["model_config_file"]:
        _note(f"{flag} is ignored: there is no --model_config_file.")
    elif flags["engine"] != "embedded":
        _note(f"{flag} is ignored: the real server is given a copy of the file; a reload over gRPC changes its models.")
    elif not flags["root"]:
        _note(f"{flag}: without --root the file may drop models and change policies, and name no new folder.")


def _note(text: str) -> None:
    click.echo(f"note: {text}", err=True)
