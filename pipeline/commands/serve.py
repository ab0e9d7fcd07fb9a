"""`bertline serve`: a model server, told by TensorFlow Serving's own flags.

Of a command line of tensorflow_model_server only the first word changes. Its flags become one value, `ServerSettings`, that
the embedded server and the real one take alike (`pipeline/commands/options/serving.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from bertline.pipeline.commands.options.serving import own_flags, settings_of
from bertline.pipeline.core import environment

if TYPE_CHECKING:
    from bertline.serving.settings import ServerSettings

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
