"""`bertline serve`: TensorFlow Serving's flags become settings. No server is started."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from bertline.pipeline.cli import main
from bertline.pipeline.commands import serve as serve_command
from bertline.serving.launch.config_files import serving_batching
from bertline.serving.settings import Batching, Limits, ServerSettings

MODELS = """model_config_list {
  config { name: "one" base_path: "%s" model_platform: "tensorflow" }
  config { name: "two" base_path: "/models/two" model_platform: "tensorflow" }
}"""


class Started:
    """What the command line told the server."""

    settings: ServerSettings
    engine: str
    own: dict[str, str]
    notes: str

    @property
    def models(self) -> dict[str, str]:
        return {model.name: model.base_path for model in self.settings.models.model_config_list.config}


@pytest.fixture
def workspace(tmp_path, monkeypatch) -> Path:
    """A workspace whose last run pushed version 3, seen from beside it."""
    version = tmp_path / "workspace" / "models" / "reviews" / "3"
    version.mkdir(parents=True)
    (version / "saved_model.pb").touch()
    told = {"name": "my-reviews", "pushed_path": str(version.relative_to(tmp_path))}
    (tmp_path / "workspace" / "summary.json").write_text(json.dumps(told))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "workspace"


@pytest.fixture
def start(workspace, monkeypatch):
    """Runs the command up to where a server would start."""
    started = Started()

    def remember(settings: ServerSettings, engine: str, own: dict[str, str]) -> None:
        started.settings, started.engine, started.own = settings, engine, own

    monkeypatch.setattr(serve_command, "start", remember)

    def start(*flags: str) -> Started:
        done = CliRunner().invoke(main, ["serve", *flags])
        assert done.exit_code == 0, done.output
        started.notes = done.stderr
        return started

    return start


def refused(*flags: str) -> str:
    done = CliRunner().invoke(main, ["serve", *flags])
    assert done.exit_code == 1 and "Traceback" not in done.output
    return " ".join(done.stderr.split())


def test_without_flags_the_last_pushed_model_is_served_in_batches(start, workspace):
    started = start()
    assert started.models == {"my-reviews": str(workspace / "models" / "reviews")} and started.engine == "embedded"
    settings = started.settings
    assert (settings.host, settings.port, settings.rest_api_port) == ("127.0.0.1", 8500, 8501)
    assert settings.batching == Batching() and settings.root is None and settings.tls is None and not started.notes
    assert start("--model_name=other").models == {"other": str(workspace / "models" / "reviews")}


def test_defaults_of_the_flags_are_those_of_the_settings(start):
    settings = start().settings
    assert settings == ServerSettings(settings.models, batching=Batching(), page=settings.page)


@pytest.mark.parametrize(
    ("flags", "is_there"),
    [
        ([], True),
        (["--host=localhost"], True),
        (["--host=::1"], True),
        (["--host=0.0.0.0"], False),
        (["--host=0.0.0.0", "--page"], True),
        (["--page=false"], False),
        (["--rest_api_port=0"], False),
        (["--engine=binary"], False),
    ],
)
def test_a_page_is_there_for_this_machine_alone_unless_it_is_asked_for(start, flags, is_there):
    started = start(*flags)
    assert (started.settings.page is not None) is is_there and not started.notes


def test_a_page_that_cannot_be_there_is_told(start):
    assert "--page is ignored: the real server has none" in start("--page", "--engine=docker").notes
    assert "--page is ignored: there is no --rest_api_port" in start("--page", "--rest_api_port=0").notes


def test_a_command_line_of_tensorflow_serving_moves_over(start, workspace):
    started = start(
        "--port=9000", "--rest_api_port=0", "--model_name=m", f"--model_base_path={workspace / 'models' / 'reviews'}",
        "--enable_batching=true", "--file_system_poll_wait_seconds=0", "--max_num_load_retries=2",
        "--load_retry_interval_micros=1500000", "--enable_model_warmup=false", "--tensorflow_intra_op_parallelism=3",
        "--tensorflow_inter_op_parallelism=4", "--grpc_max_threads=12",
    )  # fmt: skip
    settings = started.settings
    assert started.models == {"m": str(workspace / "models" / "reviews")}
    assert (settings.port, settings.rest_api_port, settings.poll_seconds) == (9000, None, 0.0)
    assert (settings.load_retries, settings.load_retry_seconds, settings.warm_up) == (2, 1.5, False)
    assert (settings.intra_op_threads, settings.inter_op_threads, settings.limits.concurrent_requests) == (3, 4, 12)
    assert settings.batching == serving_batching() and not started.notes


def test_a_model_without_a_name_is_default_and_a_path_may_be_relative(start, workspace):
    assert start("--model_base_path", "workspace/models/reviews").models == {
        "default": str(workspace / "models" / "reviews")
    }


@pytest.mark.parametrize(
    ("flags", "enabled"),
    [
        ([], False),
        (["--enable_batching"], True),
        (["--enable_batching=true"], True),
        (["--enable_batching=false"], False),
        (["--enable_batching", "--port=8500"], True),
    ],
)
def test_a_switch_is_spelled_as_tensorflow_spells_it(start, flags, enabled):
    assert (start("--model_base_path=workspace/models/reviews", *flags).settings.batching is not None) is enabled


def test_batching_of_the_last_pushed_model_can_be_turned_off(start):
    assert start("--enable_batching=false").settings.batching is None


def test_files_are_read(start, workspace, tmp_path):
    (tmp_path / "models.config").write_text(MODELS % (workspace / "models" / "reviews"))
    (tmp_path / "batching.config").write_text("max_batch_size { value: 16 }")
    (tmp_path / "monitoring.config").write_text('prometheus_config { enable: true path: "/metrics" }')
    key, cert = "-----BEGIN PRIVATE KEY-----", "-----BEGIN CERTIFICATE-----"
    (tmp_path / "ssl.config").write_text(f'server_key: "{key}" server_cert: "{cert}"')
    started = start(
        "--model_config_file=models.config", "--enable_batching", "--batching_parameters_file=batching.config",
        "--monitoring_config_file=monitoring.config", "--ssl_config_file=ssl.config", "--model_name=not-this-one",
    )  # fmt: skip
    assert started.models == {"one": str(workspace / "models" / "reviews"), "two": "/models/two"}
    settings = started.settings
    assert settings.batching and settings.batching.max_batch_size == 16 and settings.prometheus_path == "/metrics"
    assert settings.tls and settings.tls.server_cert == cert.encode()
    assert started.notes == "note: --model_name is ignored: --model_config_file names the models.\n"


def test_a_file_for_prometheus_may_turn_it_off(start, tmp_path):
    (tmp_path / "monitoring.config").write_text("prometheus_config { enable: false }")
    assert start("--monitoring_config_file=monitoring.config").settings.prometheus_path is None


def test_our_own_flags_become_settings(start, tmp_path):
    settings = start("--host=::1", "--root=workspace", "--request_log=log", "--request_log_rate=0.5",
                     "--rest_api_max_values=7").settings  # fmt: skip
    assert settings.limits == Limits(json_values=7)
    assert (settings.host, settings.root) == ("::1", tmp_path / "workspace")
    assert (settings.request_log, settings.request_log_rate) == (tmp_path / "log", 0.5)


@pytest.mark.parametrize(
    ("flags", "threads"), [(["session=4"], (4, 4)), (["session=4", "intra_op=2"], (2, 0)), (["inter_op=3"], (0, 3))]
)
def test_one_flag_sets_the_threads_of_both_kinds_unless_they_have_their_own(start, flags, threads):
    settings = start(*(f"--tensorflow_{flag.replace('=', '_parallelism=')}" for flag in flags)).settings
    assert (settings.intra_op_threads, settings.inter_op_threads) == threads


def test_flags_that_mean_nothing_here_are_named_in_a_line_each(start):
    started = start("--flush_filesystem_caches=false", "--num_load_threads=4", "--enable_profiler")
    assert sorted(started.notes.splitlines()) == [
        f"note: --{name} is ignored by the embedded server."
        for name in ("enable_profiler", "flush_filesystem_caches", "num_load_threads")
    ]
    assert started.own == {}


def test_a_file_of_models_may_be_read_again_and_again(start, workspace, tmp_path):
    (tmp_path / "models.config").write_text(MODELS % (workspace / "models" / "reviews"))
    file, poll = "--model_config_file=models.config", "--model_config_file_poll_wait_seconds="
    started = start(file, poll + "60", "--root=/")
    settings = started.settings
    assert (settings.model_config_file, settings.config_poll_seconds) == (tmp_path / "models.config", 60.0)
    assert not started.notes
    for never in ("0", "-1"):
        assert start(file, poll + never).settings.config_poll_seconds == 0.0 and not start(file, poll + never).notes
    for flags, told in (
        ([], "is ignored: there is no --model_config_file"),
        ([file], "without --root the file may drop models"),
        ([file, "--engine=binary"], "is ignored: the real server is given a copy of the file"),
    ):
        assert told in start(poll + "60", *flags).notes


@pytest.mark.parametrize("engine", ["binary", "docker"])
def test_the_real_server_gets_its_flags_as_they_are(start, engine):
    started = start(f"--engine={engine}", "--num_load_threads=4", "--enable_profiler", "--grpc_max_threads=9")
    assert started.own == {"num_load_threads": "4", "enable_profiler": "true", "grpc_max_threads": "9"}
    assert not started.notes and started.engine == engine


def test_every_flag_of_tensorflow_serving_is_known(start):
    """The list of model_servers/main.cc; `version` is a flag of every command."""
    known = {name for option in serve_command.serve.params for name in option.opts}
    assert {f"--{name}" for name in FLAGS.split()} <= known


FLAGS = """
port grpc_socket_path rest_api_port rest_api_num_threads rest_api_timeout_in_ms rest_api_enable_cors_support
enable_batching allow_version_labels_for_unavailable_models batching_parameters_file
enable_per_model_batching_parameters model_config_file model_config_file_poll_wait_seconds model_name model_base_path
num_load_threads num_unload_threads max_num_load_retries load_retry_interval_micros file_system_poll_wait_seconds
flush_filesystem_caches tensorflow_session_parallelism tensorflow_session_config_file tensorflow_intra_op_parallelism
tensorflow_inter_op_parallelism use_alts_credentials ssl_config_file platform_config_file
per_process_gpu_memory_fraction saved_model_tags grpc_channel_arguments grpc_max_threads enable_model_warmup
num_request_iterations_for_warmup version monitoring_config_file remove_unused_fields_from_bundle_metagraph
prefer_tflite_model num_tflite_pools num_tflite_interpreters_per_pool enable_signature_method_name_check
xla_cpu_compilation_enabled xla_gpu_compilation_enabled enable_profiler thread_pool_factory_config_file mixed_precision
skip_initialize_tpu enable_grpc_healthcheck_service enable_serialization_as_tensor_content
"""


def test_a_flag_that_nobody_knows_is_an_error(workspace):
    done = CliRunner().invoke(main, ["serve", "--modle_name=x"])
    assert done.exit_code == 2 and "No such option" in done.stderr


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--workspace=elsewhere"], "no run in elsewhere has pushed a model yet"),
        (["--model_base_path=nowhere"], "no such folder; --model_base_path is the folder of a model's numbered"),
        (["--model_base_path=workspace/models/reviews/3"], "is a model, not the folder of its numbered versions"),
        (["--model_name=a/b"], "--model_name a/b: a name is made of letters, digits"),
        (["--model_base_path=gs://bucket/m"], "gs://bucket/m: the embedded server reads local folders only"),
        (["--port=8501"], "--port and --rest_api_port are both 8501; give each its own"),
        (["--root=elsewhere"], "is not under --root"),
        (["--enable_batching=false", "--batching_parameters_file=b"], "batching is off; add --enable_batching"),
        (["--use_alts_credentials"], "has TLS only; give --ssl_config_file instead"),
        (["--saved_model_tags=serve,tpu"], "loads the graph tagged serve"),
        (["--ssl_config_file=nowhere"], "nowhere: No such file or directory"),
        (
            [f"--tensorflow_{kind}_parallelism=2" for kind in ("session", "intra_op", "inter_op")],
            "--tensorflow_session_parallelism sets",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_served_is_told_in_a_sentence(workspace, flags, told):
    assert told in refused(*flags)


def test_a_uri_is_left_to_the_real_server(start):
    assert start("--engine=binary", "--model_base_path=gs://bucket/m").models == {"default": "gs://bucket/m"}


@pytest.mark.parametrize("flag", ["--port", "--rest_api_port"])
def test_a_port_in_use_is_told_before_tensorflow_is_loaded(workspace, flag):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        both = {"--port": "0", "--rest_api_port": "0"} | {flag: str(port)}
        told = refused(*(f"{name}={value}" for name, value in both.items()))
    assert told.endswith(f"{flag} {port}: the port is in use on 127.0.0.1; stop what listens there, or give another one.")


def test_an_address_of_another_machine_is_told(workspace):
    assert "--host 192.0.2.1 is not an address of this machine" in refused("--host=192.0.2.1")


def test_help_loads_neither_tensorflow_nor_grpc():
    code = (
        "import sys; from bertline.pipeline.cli import main\n"
        "try: main(['serve', '--help'])\n"
        "except SystemExit: print({'tensorflow', 'tfx', 'grpc', 'google.protobuf'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "set()" and "bertline serve --model_config_file" in done.stdout
