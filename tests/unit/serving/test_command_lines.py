"""What the real TensorFlow Serving is told, as values: nothing is started."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bertline.pipeline.core.errors import BertlineError
from bertline.serving.launch.config_files import one_model, read_models
from bertline.serving.launch.flags import default_image, docker_command, files_of, in_container, notes, server_flags
from bertline.serving.settings import Batching, ServerSettings, Tls

PLAIN = ServerSettings(one_model("reviews", "/data/reviews"))
FULL = replace(
    PLAIN,
    host="::1",
    port=9000,
    rest_api_port=9001,
    batching=Batching(),
    tls=Tls(b"-----BEGIN key", b"-----BEGIN cert"),
    poll_seconds=0.4,
    load_retries=2,
    load_retry_seconds=1.5,
    warm_up=False,
    intra_op_threads=3,
    inter_op_threads=4,
)


def flags_of(command: list[str]) -> dict[str, str]:
    return dict(flag.removeprefix("--").split("=", 1) for flag in command)


def test_every_setting_has_its_flag():
    assert flags_of(server_flags(FULL, "/f", {"mixed_precision": "bfloat16"})) == {
        "port": "9000",
        "rest_api_port": "9001",
        "rest_api_timeout_in_ms": "30000",
        "model_config_file": "/f/models.config",
        "enable_batching": "true",
        "batching_parameters_file": "/f/batching.config",
        "monitoring_config_file": "/f/monitoring.config",
        "ssl_config_file": "/f/ssl.config",
        "file_system_poll_wait_seconds": "1",
        "max_num_load_retries": "2",
        "load_retry_interval_micros": "1500000",
        "enable_model_warmup": "false",
        "tensorflow_intra_op_parallelism": "3",
        "tensorflow_inter_op_parallelism": "4",
        "mixed_precision": "bfloat16",
    }


def test_flags_name_the_files_that_are_written_and_no_others():
    for settings in (PLAIN, FULL, replace(FULL, rest_api_port=None), replace(PLAIN, prometheus_path=None)):
        named = {value for value in flags_of(server_flags(settings, "/f")).values() if value.startswith("/f/")}
        assert named == {f"/f/{name}" for name in files_of(settings)}


def test_what_is_off_is_off():
    flags = flags_of(server_flags(replace(PLAIN, rest_api_port=None, poll_seconds=0), "/f"))
    assert (flags["rest_api_port"], flags["file_system_poll_wait_seconds"]) == ("0", "0")
    assert "enable_batching" not in flags and "ssl_config_file" not in flags


def test_a_container_sees_its_models_under_one_folder(tmp_path):
    path = tmp_path / "models.config"
    path.write_text("""model_config_list {
      config { name: "a" base_path: "/data/one" model_platform: "tensorflow" version_labels { key: "stable" value: 3 } }
      config { name: "b" base_path: "gs://bucket/two" model_platform: "tensorflow" }
    }""")
    settings = replace(PLAIN, models=read_models(path))
    inside = in_container(settings).models.model_config_list.config
    assert [model.base_path for model in inside] == ["/models/a", "gs://bucket/two"] and inside[0].version_labels
    assert settings.models.model_config_list.config[0].base_path == "/data/one"  # the host's is left as it was
    command = docker_command("docker", settings, "/tmp/files", "name", "image")
    mounts = [value for flag, value in zip(command, command[1:], strict=False) if flag == "-v"]
    assert mounts == ["/tmp/files:/config:ro", "/data/one:/models/a:ro"]


def test_docker_runs_the_server_itself_bound_to_the_host():
    command = docker_command("/bin/docker", PLAIN, "/tmp/files", "bertline-1", "tensorflow/serving:2.16.1")
    assert command[:10] == [
        "/bin/docker", "run", "--rm", "--init", "--name", "bertline-1",
        "-p", "127.0.0.1:8500:8500", "-p", "127.0.0.1:8501:8501",
    ]  # fmt: skip
    image = command.index("tensorflow/serving:2.16.1")
    assert command[image - 2 : image] == ["--entrypoint", "/usr/bin/tensorflow_model_server"]
    assert command[image + 1 :] == server_flags(in_container(PLAIN), "/config")


def test_docker_publishes_the_hosts_ports_as_its_own():
    command = docker_command("docker", FULL, "/f", "name", "image")
    assert [value for flag, value in zip(command, command[1:], strict=False) if flag == "-p"] == [
        "[::1]:9000:8500",
        "[::1]:9001:8501",
    ]
    without_rest = docker_command("docker", replace(FULL, rest_api_port=None), "/f", "name", "image")
    assert without_rest.count("-p") == 1 and "--rest_api_port=0" in without_rest


def test_a_folder_that_docker_cannot_mount_is_told():
    with pytest.raises(BertlineError, match="/data/a:b: Docker mounts no folder with a colon"):
        docker_command("docker", replace(PLAIN, models=one_model("m", "/data/a:b")), "/f", "name", "image")


def test_the_image_is_of_the_pinned_version():
    from importlib import metadata

    assert default_image() == f"tensorflow/serving:{metadata.version('tensorflow-serving-api')}"


def test_what_the_real_server_does_not_do_is_said(tmp_path):
    assert notes(replace(PLAIN, host="0.0.0.0"), "binary") == notes(PLAIN, "docker") == []
    (listens,) = notes(PLAIN, "binary")
    assert "listens on every address" in listens
    everything = replace(FULL, root=tmp_path, request_log=tmp_path)
    told = " ".join(notes(everything, "docker"))
    assert "not on REST" in told and "--request_log is ignored" in told and "--root is ignored" in told
