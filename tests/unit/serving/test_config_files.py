"""TensorFlow Serving's text files: read, checked and written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from google.protobuf import text_format
from tensorflow_serving.config import model_server_config_pb2

from bertline.pipeline.core.errors import BertlineError
from bertline.serving.launch import messages
from bertline.serving.launch.config_files import (
    PROMETHEUS_PATH,
    batching_text,
    models_text,
    monitoring_text,
    one_model,
    read_batching,
    read_models,
    read_monitoring,
    read_tls,
    tls_text,
)
from bertline.serving.settings import Batching, Tls

KEY = "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n"
CERT = "-----BEGIN CERTIFICATE-----\ncHVibGlj\n-----END CERTIFICATE-----\n"

TWO_MODELS = """
# Two models, as TensorFlow Serving's guide writes them.
model_config_list {
  config {
    name: 'reviews'
    base_path: '/models/reviews'
    model_platform: 'tensorflow'
    model_version_policy { specific { versions: 3 versions: 4 } }
    version_labels { key: 'stable' value: 3 }
  }
  config: { name: "old.one", base_path: "gs://bucket/old", model_type: TENSORFLOW }
}
"""


@pytest.fixture
def write(tmp_path):
    def write(text: str) -> Path:
        path = tmp_path / "given.config"
        path.write_text(text)
        return path

    return write


def test_a_users_models_are_read_with_policies_and_labels(write):
    first, second = read_models(write(TWO_MODELS)).model_config_list.config
    assert (first.name, first.base_path) == ("reviews", "/models/reviews")
    assert list(first.model_version_policy.specific.versions) == [3, 4] and first.version_labels == {"stable": 3}
    assert (second.name, second.base_path) == ("old.one", "gs://bucket/old")


def test_the_older_model_type_becomes_the_platform(write):
    second = read_models(write(TWO_MODELS)).model_config_list.config[1]
    assert second.model_platform == "tensorflow" and not second.model_type


def test_what_is_written_of_models_is_read_the_same(write):
    config = read_models(write(TWO_MODELS))
    assert read_models(write(models_text(config))) == config
    odd = one_model("m", '/models/ä "quoted"')
    assert read_models(write(models_text(odd))) == odd


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ('config { name: "a b" base_path: "/m" model_platform: "tensorflow" }', "line 2: the name 'a b' may only"),
        ('config { name: ".." base_path: "/m" model_platform: "tensorflow" }', "line 2: the name '..' may only"),
        ('config { base_path: "/m" model_platform: "tensorflow" }', "line 2: model 1 has no name; give it one"),
        ('config { name: "a" model_platform: "tensorflow" }', "line 2: a has no base_path; give the folder"),
        ('config { name: "a" base_path: "m/a" model_platform: "tensorflow" }', "line 2: the base_path 'm/a' of a is not"),
        ('config { name: "a" base_path: "/m" }', "line 2: a has no model_platform that is known; write model_platform"),
        ('config { name: "a" base_path: "/m" model_type: OTHER }', "line 2: a has no model_platform that is known"),
        ('config { name: "a" base_path: "/m" model_platform: "onnx" }', "line 2: the model_platform 'onnx' of a is not"),
        (
            'config { name: "a" base_path: "/m" model_platform: "tensorflow" model_type: TENSORFLOW }',
            "line 2: a has a model_type and a model_platform; leave out model_type",
        ),
        (
            'config { name: "a" base_path: "/m" model_platform: "tensorflow" }\n# name: "a"\n'
            'config { name: "a" base_path: "/n" model_platform: "tensorflow" }',
            "line 4: the model a is listed twice",
        ),
        ('config { name: "a" base_pth: "/m" }', 'line 2: this is no ModelServerConfig in protobuf\'s text format'),
    ],
)  # fmt: skip
def test_a_bad_model_is_told_with_its_file_and_line(write, body, told):
    path = write(f"model_config_list {{\n{body}\n}}")
    with pytest.raises(BertlineError) as caught:
        read_models(path)
    assert str(caught.value).startswith(f"{path}, {told}")


def test_a_file_of_models_names_a_list(write):
    with pytest.raises(BertlineError, match="there is no model_config_list"):
        read_models(write("# nothing yet\n"))
    with pytest.raises(BertlineError, match="line 1: TensorFlow Serving has no custom_model_config"):
        read_models(write("custom_model_config { }"))


def test_a_server_may_begin_without_a_model(write):
    assert not read_models(write("model_config_list { }")).model_config_list.config


@pytest.mark.parametrize("read", [read_models, read_batching, read_monitoring, read_tls])
def test_a_file_that_is_missing_or_no_text_is_told(tmp_path, read):
    with pytest.raises(BertlineError, match="nowhere: No such file or directory; name a file that can be read"):
        read(tmp_path / "nowhere")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BertlineError, match="binary is not text; it is to be in protobuf's text format, as "):
        read(tmp_path / "binary")


def test_parameters_that_a_file_leaves_out_are_tensorflow_servings(write):
    batching = read_batching(write("max_batch_size { value: 128 }"))
    assert (batching.max_batch_size, batching.batch_timeout_micros, batching.max_enqueued_batches) == (128, 0, 10)
    assert batching.num_batch_threads == len(os.sched_getaffinity(0))
    assert read_batching(write("")).max_batch_size == 1000


def test_every_batching_parameter_is_read(write):
    text = """
      max_batch_size { value: 32 } batch_timeout_micros { value: 500 } max_enqueued_batches { value: 7 }
      num_batch_threads { value: 3 } thread_pool_name { value: "pool" } pad_variable_length_inputs: true
      allowed_batch_sizes: 8 allowed_batch_sizes: 32
      enable_large_batch_splitting { value: true } max_execution_batch_size { value: 32 }
    """
    assert read_batching(write(text)) == Batching(
        max_batch_size=32,
        batch_timeout_micros=500,
        max_enqueued_batches=7,
        num_batch_threads=3,
        allowed_batch_sizes=(8, 32),
        pad_variable_length_inputs=True,
        enable_large_batch_splitting=True,
        max_execution_batch_size=32,
    )


@pytest.mark.parametrize(
    "batching",
    [
        Batching(),
        Batching(batch_timeout_micros=0, allowed_batch_sizes=(1, 8, 64), pad_variable_length_inputs=True),
        Batching(enable_large_batch_splitting=True, max_execution_batch_size=16),
    ],
)
def test_what_is_written_of_batching_is_read_the_same(write, batching):
    assert read_batching(write(batching_text(batching))) == batching


SPLIT = "max_batch_size { value: 8 } enable_large_batch_splitting { value: true } max_execution_batch_size { value: 4 }\n"


def test_sizes_that_are_allowed_end_with_the_rows_of_a_run(write):
    split = read_batching(write(SPLIT + "allowed_batch_sizes: [2, 4]"))
    assert (split.max_batch_size, split.rows_of_run) == (8, 4)
    whole = read_batching(write("max_batch_size { value: 8 } max_execution_batch_size { value: 4 } allowed_batch_sizes: 8"))
    assert (whole.max_batch_size, whole.rows_of_run) == (8, 8)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("num_batch_threads { value: 0 }", "line 1: num_batch_threads is 0; write at least 1"),
        ("\nmax_batch_size { value: -1 }", "line 2: max_batch_size is -1; write at least 1"),
        ("batch_timeout_micros { value: -5 }", "line 1: batch_timeout_micros is -5; write 0 or more"),
        ("max_batch_size { value: 8 }\nallowed_batch_sizes: [4, 2, 8]", "line 2: the allowed_batch_sizes [4, 2, 8] do not"),
        ("max_batch_size { value: 8 }\nallowed_batch_sizes: [2, 4]", "line 2: the last of allowed_batch_sizes is 4, and"),
        ("allowed_batch_sizes: [2, 64]", "line 1: the last of allowed_batch_sizes is 64, and max_batch_size is 1000"),
        ("max_batch_size { value: 8 } max_execution_batch_size { value: 9 }", "line 1: max_execution_batch_size is 9"),
        (
            SPLIT + "allowed_batch_sizes: [2, 8]",
            "line 2: the last of allowed_batch_sizes is 8, and max_execution_batch_size",
        ),
        ("max_batch_size: 8", "line 1: this is no BatchingParameters in protobuf's text format, as max_batch_size { value"),
    ],
)
def test_a_bad_parameter_is_told_with_its_file_and_line(write, text, told):
    path = write(text)
    with pytest.raises(BertlineError) as caught:
        read_batching(path)
    assert str(caught.value).startswith(f"{path}, {told}")


def test_metrics_are_where_the_file_says(write):
    assert read_monitoring(write("prometheus_config { enable: true }")) == PROMETHEUS_PATH
    assert read_monitoring(write('prometheus_config { enable: true path: "/metrics" }')) == "/metrics"
    assert read_monitoring(write('prometheus_config { path: "/metrics" }')) is None
    assert read_monitoring(write("")) is None
    with pytest.raises(BertlineError, match='line 1: the path of a URL starts with a slash; write path: "/metrics"'):
        read_monitoring(write('prometheus_config { enable: true path: "metrics" }'))


@pytest.mark.parametrize("path", [None, "/metrics", PROMETHEUS_PATH])
def test_what_is_written_of_monitoring_is_read_the_same(write, path):
    assert read_monitoring(write(monitoring_text(path))) == path


@pytest.mark.parametrize(
    "tls",
    [
        Tls(KEY.encode(), CERT.encode()),
        Tls(KEY.encode(), CERT.encode(), custom_ca=CERT.encode(), client_verify=True),
    ],
)
def test_what_is_written_of_tls_is_read_the_same(write, tls):
    assert read_tls(write(tls_text(tls))) == tls


def test_keys_stand_in_the_file_itself(write):
    with pytest.raises(BertlineError, match="server_cert is missing; it holds the certificate itself, in PEM"):
        read_tls(write(text_format.MessageToString(messages.SSLConfig(server_key=KEY))))
    with pytest.raises(BertlineError, match="line 1: server_key is not PEM; it holds the private key itself, not the name"):
        read_tls(write('server_key: "/etc/key.pem" server_cert: "/etc/cert.pem"'))


def test_clients_are_verified_by_an_authority(write):
    given = messages.SSLConfig(server_key=KEY, server_cert=CERT, client_verify=True)
    with pytest.raises(BertlineError, match="line 3: clients are verified by the authority in custom_ca"):
        read_tls(write(text_format.MessageToString(given)))


def test_no_error_quotes_a_key(write):
    with pytest.raises(BertlineError, match="line 1: this is no SSLConfig") as caught:
        read_tls(write('server_key: "c2VjcmV0" oops "c2VjcmV0"'))
    assert "c2VjcmV0" not in str(caught.value)


def test_the_name_of_one_model_is_enough():
    config = one_model("reviews", Path("/models/reviews"))
    assert isinstance(config, model_server_config_pb2.ModelServerConfig)
    (model,) = config.model_config_list.config
    assert (model.name, model.base_path, model.model_platform) == ("reviews", "/models/reviews", "tensorflow")
