"""`bertline serve`: a model server, told by TensorFlow Serving's own flags.

Of a command line of tensorflow_model_server only the first word changes. Its flags become one value, `ServerSettings`, that
the embedded server and the real one take alike.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from bertline.models.kinds import told
from bertline.pipeline.console import summary
from bertline.pipeline.core import environment
from bertline.pipeline.core.errors import BertlineError
from bertline.serving.contract import read_card

if TYPE_CHECKING:
    from tensorflow_serving.config import model_server_config_pb2

    from bertline.serving.settings import Batching, ServerSettings, TryPage

ENGINES = ("embedded", "binary", "docker")

# Flags of tensorflow_model_server (model_servers/main.cc) that the settings have no place for; True: those that are
# switches. The real server is given them as they are, and the embedded one has no use for them.
OTHER_FLAGS = {
    "allow_version_labels_for_unavailable_models": True,
    "enable_grpc_healthcheck_service": True,
    "enable_per_model_batching_parameters": True,
    "enable_profiler": True,
    "enable_serialization_as_tensor_content": True,
    "enable_signature_method_name_check": True,
    "flush_filesystem_caches": True,
    "grpc_channel_arguments": False,
    "grpc_socket_path": False,
    "mixed_precision": False,
    "num_load_threads": False,
    "num_request_iterations_for_warmup": False,
    "num_tflite_interpreters_per_pool": False,
    "num_tflite_pools": False,
    "num_unload_threads": False,
    "per_process_gpu_memory_fraction": False,
    "platform_config_file": False,
    "prefer_tflite_model": True,
    "remove_unused_fields_from_bundle_metagraph": True,
    "rest_api_enable_cors_support": True,
    "rest_api_num_threads": False,
    "saved_model_tags": False,
    "skip_initialize_tpu": True,
    "tensorflow_session_config_file": False,
    "thread_pool_factory_config_file": False,
    "use_alts_credentials": True,
    "xla_cpu_compilation_enabled": True,
    "xla_gpu_compilation_enabled": True,
}

Command = Callable[..., None]


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
    if sentence := told(read_card(found.path)):
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


def _other_flags(command: Command) -> Command:
    """Gives a command the flags of `OTHER_FLAGS`, which its help leaves out."""
    for name, is_switch in OTHER_FLAGS.items():
        switch: dict[str, Any] = {"is_flag": False, "flag_value": "true"} if is_switch else {}
        command = click.option(f"--{name}", hidden=True, **switch)(command)
    return command


def _switch(name: str, default: bool | None, help: str) -> Callable[[Command], Command]:
    """A switch as TensorFlow has them: --name, --name=true or --name=false."""
    return click.option(
        f"--{name}", type=bool, metavar="[=true|false]", is_flag=False, flag_value=True, default=default, help=help
    )


PORT = click.IntRange(0, 65535)


@click.command()
@click.option("--port", type=PORT, metavar="PORT", default=8500, show_default=True, help="gRPC port; 0: any free port.")
@click.option("--rest_api_port", type=PORT, metavar="PORT", default=8501, show_default=True, help="REST port; 0: off.")
@click.option("--model_name", metavar="NAME", help="[default: default, or the pipeline's name]")
@click.option("--model_base_path", metavar="DIR", help="Folder of its numbered versions. [default: what was pushed last]")
@click.option("--model_config_file", metavar="FILE", help="Several models: a ModelServerConfig, in protobuf's text format.")
@click.option(
    "--model_config_file_poll_wait_seconds",
    type=int,
    metavar="N",
    default=0,
    show_default=True,
    help="Seconds between two reads of that file, each applied as a reload; 0 reads it once.",
)
@_switch("enable_batching", None, "Batch requests. [default: only for what was pushed last]")
@click.option("--batching_parameters_file", metavar="FILE", help="BatchingParameters, in protobuf's text format.")
@_switch("page", None, "A try-out page on the REST port. [default: only if --host is this machine]")
@click.option("--monitoring_config_file", metavar="FILE", help="Metrics for Prometheus: a MonitoringConfig.")
@click.option("--ssl_config_file", metavar="FILE", help="Keys for TLS: an SSLConfig.")
@click.option(
    "--file_system_poll_wait_seconds",
    type=click.IntRange(0),
    metavar="N",
    default=1,
    show_default=True,
    help="Seconds between two checks for new versions; 0 checks once.",
)
@click.option(
    "--rest_api_timeout_in_ms",
    type=click.IntRange(1),
    metavar="N",
    default=30_000,
    show_default=True,
    help="Deadline of a REST request; over gRPC the caller sets it.",
)
@click.option(
    "--rest_api_max_values",
    type=click.IntRange(1),
    metavar="N",
    default=1 << 20,
    show_default=True,
    help="Limit of values in a JSON body, because parsing them delays all requests. gRPC has no limit.",
)
@click.option("--max_num_load_retries", type=click.IntRange(0), metavar="N", default=5, show_default=True)
@click.option("--load_retry_interval_micros", type=int, metavar="N", default=60_000_000, show_default=True)
@_switch("enable_model_warmup", True, "Warm up each version with the requests in its assets.extra. [default: true]")
@click.option(
    "--tensorflow_session_parallelism",
    type=click.IntRange(0),
    metavar="N",
    default=0,
    help="Threads of TensorFlow. [default: all cores]",
)
@click.option(
    "--tensorflow_intra_op_parallelism", type=click.IntRange(0), metavar="N", default=0, help="Threads of one operation."
)
@click.option(
    "--tensorflow_inter_op_parallelism",
    type=click.IntRange(0),
    metavar="N",
    default=0,
    help="Threads of parallel operations.",
)
@click.option(
    "--grpc_max_threads", type=click.IntRange(1), metavar="N", help="Requests at the same time; more are refused."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; 0.0.0.0 is all of them.")
@click.option("--root", metavar="DIR", help="A reload may name models under this folder. [default: none]")
@click.option(
    "--engine", type=click.Choice(ENGINES), default=ENGINES[0], show_default=True, help="Which server; see above."
)
@click.option("--workspace", default="workspace", show_default=True, help="Where to look for what was pushed last.")
@click.option("--request_log", metavar="DIR", help="Log some requests with their responses there, as PredictionLog.")
@click.option(
    "--request_log_rate", type=click.FloatRange(0, 1), default=0.01, show_default=True, help="Fraction of the requests."
)
@_other_flags
@click.version_option(package_name="bertline")
def serve(**flags: Any) -> None:
    """Serve models over gRPC and REST, as TensorFlow Serving does, until Ctrl-C.

    Without --model_base_path and --model_config_file it serves what the last run pushed, and each version that later runs
    push. The flags are those of tensorflow_model_server: its command lines work unchanged.

    \b
    bertline serve                                                    what the last run pushed
    bertline serve --model_name=reviews --model_base_path=models/reviews
    bertline serve --model_config_file=models.config --enable_batching --rest_api_port=8080
    bertline serve --host=0.0.0.0 --ssl_config_file=ssl.config        for others, over TLS
    bertline serve --engine docker                                    the same, by the real server

    \b
    Send requests:
    curl -d '{"instances": ["A film to remember."]}' http://localhost:8501/v1/models/NAME:predict
    curl http://localhost:8501/v1/models/NAME
    or try it in a browser, on http://localhost:8501/: type, paste or drop a table; explain predictions (--page=false: off)

    \b
    --engine embedded   in this process: the same protocol, nothing to install
    --engine binary     starts tensorflow_model_server, which is on PATH
    --engine docker     starts the image tensorflow/serving

    Flags of tensorflow_model_server that are not listed are passed to the real server; the embedded one notes that it
    ignores them. Unlike the real one, it listens on 127.0.0.1 by default, and completes pending requests before it exits.
    """
    others = {name: flags.pop(name) for name in OTHER_FLAGS}
    start(settings_of(flags), flags["engine"], own_flags(flags, others))


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


def start(settings: ServerSettings, engine: str, own: Mapping[str, str]) -> None:
    """Runs a server until it is told to end."""
    if engine == "embedded":
        environment.prepare()
        from bertline.serving.launch import ports

        rest = {"--rest_api_port": settings.rest_api_port} if settings.rest_api_port else {}
        ports.require_free(settings.host, {"--port": settings.port, **rest})
        from bertline.serving.embedded.server import serve as serve_embedded

        serve_embedded(settings, click.echo)
    else:
        from bertline.serving.launch.launcher import serve as serve_real

        serve_real(settings, "binary" if engine == "binary" else "docker", click.echo, extra=own)


def _note(text: str) -> None:
    click.echo(f"note: {text}", err=True)
