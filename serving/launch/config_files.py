"""TensorFlow Serving's files in protobuf's text format: those that a user brings along, and those that we give its server.

A file is checked when it is read, by TensorFlow Serving's own rules (the functions say which of its sources has them): it
would find most mistakes only while it loads a model, and end with a stack trace.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from google.protobuf import text_format
from tensorflow_serving.config import model_server_config_pb2

from bertline.pipeline.core.errors import BertlineError
from bertline.serving.launch import messages
from bertline.serving.settings import Batching, Tls

PLATFORM = "tensorflow"
PROMETHEUS_PATH = "/monitoring/prometheus/metrics"
"""Where TensorFlow Serving tells its metrics unless a file says otherwise (util/prometheus_exporter.cc)."""
MODEL_NAME = re.compile(r"[A-Za-z0-9_.-]+")
URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def read_models(path: str | Path) -> model_server_config_pb2.ModelServerConfig:
    """The models of a --model_config_file, with `model_platform` set in each."""
    text, config = _read(path, model_server_config_pb2.ModelServerConfig(), "model_config_list { config { … } }")
    kind = config.WhichOneof("config")
    if kind == "custom_model_config":
        line = _line(text, "custom_model_config")
        raise BertlineError(f"{path}{line}: TensorFlow Serving has no custom_model_config; write a model_config_list.")
    if kind is None:
        raise BertlineError(f"{path}: there is no model_config_list; write model_config_list {{ config {{ … }} }}.")
    seen: set[str] = set()
    for number, model in enumerate(config.model_config_list.config, 1):
        if wrong := _wrong_model(model, number, seen):
            raise BertlineError(f"{path}{_line(text, wrong.field, wrong.value, wrong.place)}: {wrong.problem}.")
        seen.add(model.name)
        model.model_platform = PLATFORM
        model.ClearField("model_type")
    return config


def one_model(name: str, base_path: str | Path) -> model_server_config_pb2.ModelServerConfig:
    """What --model_name and --model_base_path say."""
    config = model_server_config_pb2.ModelServerConfig()
    config.model_config_list.config.add(name=name, base_path=str(base_path), model_platform=PLATFORM)
    return config


def is_model_name(name: str) -> bool:
    """Whether a name is safe in a URL and as a folder's name; `.` and `..` are other folders."""
    return bool(MODEL_NAME.fullmatch(name)) and name not in (".", "..")


def is_uri(base_path: str) -> bool:
    """Whether a base path is one of another file system, as gs://bucket/model."""
    return bool(URI.match(base_path))


def serving_batching() -> Batching:
    """TensorFlow Serving's own defaults, for parameters that a user's file leaves out.

    From the scheduler that it runs, tensorflow/core/kernels/batching_util/shared_batch_scheduler.h: `QueueOptions` has 1000
    rows, no waiting and 10 batches, `Options` as many threads as there are processors to run on.
    """
    threads = len(os.sched_getaffinity(0))
    return Batching(max_batch_size=1000, batch_timeout_micros=0, max_enqueued_batches=10, num_batch_threads=threads)


def read_batching(path: str | Path) -> Batching:
    """A --batching_parameters_file."""
    text, given = _read(path, messages.BatchingParameters(), "max_batch_size { value: 64 }")
    wrapped = (
        "max_batch_size", "batch_timeout_micros", "max_enqueued_batches", "num_batch_threads",
        "enable_large_batch_splitting", "max_execution_batch_size",
    )  # fmt: skip
    batching = replace(
        serving_batching(),
        **{name: getattr(given, name).value for name in wrapped if given.HasField(name)},
        allowed_batch_sizes=tuple(given.allowed_batch_sizes),
        pad_variable_length_inputs=given.pad_variable_length_inputs,
    )
    if wrong := _wrong_batching(batching):
        raise BertlineError(f"{path}{_line(text, wrong.field)}: {wrong.problem}.")
    return batching


def read_monitoring(path: str | Path) -> str | None:
    """Where a --monitoring_config_file wants the metrics for Prometheus; None where it wants none."""
    text, given = _read(path, messages.MonitoringConfig(), "prometheus_config { enable: true }")
    prometheus = given.prometheus_config
    if not prometheus.enable:
        return None
    if prometheus.path and not prometheus.path.startswith("/"):
        line = _line(text, "path", prometheus.path)
        raise BertlineError(f'{path}{line}: the path of a URL starts with a slash; write path: "/{prometheus.path}".')
    return prometheus.path or PROMETHEUS_PATH


def read_tls(path: str | Path) -> Tls:
    """A --ssl_config_file. What it says is secret: no error quotes it."""
    text, given = _read(path, messages.SSLConfig(), 'server_key: "-----BEGIN …"', secret=True)
    for field in ("server_key", "server_cert", "custom_ca"):
        pem = getattr(given, field)
        if not pem and field != "custom_ca":
            raise BertlineError(f"{path}: {field} is missing; it holds the {_PEM[field]} itself, in PEM.")
        if pem and "-----BEGIN " not in pem:
            problem = f"{field} is not PEM; it holds the {_PEM[field]} itself, not the name of a file"
            raise BertlineError(f"{path}{_line(text, field)}: {problem}.")
    if given.client_verify and not given.custom_ca:
        line = _line(text, "client_verify")
        raise BertlineError(f"{path}{line}: clients are verified by the authority in custom_ca, which is missing; add it.")
    key, cert, authority = (getattr(given, field).encode() for field in ("server_key", "server_cert", "custom_ca"))
    return Tls(server_key=key, server_cert=cert, custom_ca=authority, client_verify=given.client_verify)


_PEM = {"server_key": "private key", "server_cert": "certificate", "custom_ca": "authority's certificate"}


def models_text(config: model_server_config_pb2.ModelServerConfig) -> str:
    return text_format.MessageToString(config, as_utf8=True)


def batching_text(batching: Batching) -> str:
    """Parameters for the real server; `by_length` is none of its own."""
    given = messages.BatchingParameters(
        allowed_batch_sizes=batching.allowed_batch_sizes,
        pad_variable_length_inputs=batching.pad_variable_length_inputs,
    )
    for name in ("max_batch_size", "batch_timeout_micros", "max_enqueued_batches", "num_batch_threads"):
        getattr(given, name).value = getattr(batching, name)
    if batching.enable_large_batch_splitting:
        given.enable_large_batch_splitting.value = True
        given.max_execution_batch_size.value = batching.max_execution_batch_size or batching.max_batch_size
    return text_format.MessageToString(given)


def monitoring_text(prometheus_path: str | None) -> str:
    given = messages.MonitoringConfig()
    given.prometheus_config.enable = prometheus_path is not None
    given.prometheus_config.path = prometheus_path or ""
    return text_format.MessageToString(given, as_utf8=True)


def tls_text(tls: Tls) -> str:
    given = messages.SSLConfig(
        server_key=tls.server_key.decode(),
        server_cert=tls.server_cert.decode(),
        custom_ca=tls.custom_ca.decode(),
        client_verify=tls.client_verify,
    )
    return text_format.MessageToString(given)


def _read(path: str | Path, message: Any, example: str, *, secret: bool = False) -> tuple[str, Any]:
    try:
        text = Path(path).read_text(encoding="utf-8")
        return text, text_format.Parse(text, message)
    except OSError as error:
        raise BertlineError(f"{path}: {error.strerror}; name a file that can be read.") from error
    except UnicodeDecodeError as error:
        raise BertlineError(f"{path} is not text; it is to be in protobuf's text format, as {example}.") from error
    except text_format.ParseError as error:
        kind = message.DESCRIPTOR.name
        # Some of protobuf's words begin with the place, and quote the line: of a key it must not be told.
        problem = "" if secret else f": {re.sub(r'^[0-9]+:[0-9]+ : ', '', str(error)).strip().removesuffix('.')}"
        line = f", line {error.GetLine()}" if error.GetLine() else ""
        raise BertlineError(f"{path}{line}: this is no {kind} in protobuf's text format, as {example}{problem}.") from error


class _Wrong(NamedTuple):
    """A field that breaks a rule, and where among those of its name and value it stands."""

    field: str
    problem: str
    value: str | None = None
    place: int = 0


def _line(text: str, field: str, value: str | None = None, place: int = 0) -> str:
    """`, line N` of a field, with a value or any; empty where it is spelled otherwise."""
    said = rf"\b{re.escape(field)}\b" + ("" if value is None else rf"""\s*:\s*["']{re.escape(value)}["']""")
    found = [number for number, line in enumerate(text.splitlines(), 1) if re.search(said, line.partition("#")[0])]
    return f", line {found[place]}" if place < len(found) else ""


def _wrong_model(model: model_server_config_pb2.ModelConfig, number: int, seen: Iterable[str]) -> _Wrong | None:
    """What `ValidateModelConfigList` and `GetPlatform` of server_core.cc refuse.

    Names are bound beyond that: they stand in URLs, in metrics and as a folder's name inside a container.
    """
    name, path, platform = model.name, model.base_path, model.model_platform
    if not name:
        return _Wrong("config", f"model {number} has no name; give it one", place=number - 1)
    if not is_model_name(name):
        problem = f"the name {name!r} may only have letters, digits, _ . and -; rename the model"
        return _Wrong("name", problem, name)
    if name in seen:
        return _Wrong("name", f"the model {name} is listed twice; give each model one config, or its own name", name, 1)
    if not path:
        return _Wrong("name", f"{name} has no base_path; give the folder that holds its numbered versions", name)
    if not is_uri(path) and not os.path.isabs(path):
        return _Wrong("base_path", f"the base_path {path!r} of {name} is not absolute; write it from / on", path)
    if model.model_type and platform:
        return _Wrong("name", f"{name} has a model_type and a model_platform; leave out model_type, the older one", name)
    if not platform and model.model_type != model_server_config_pb2.TENSORFLOW:
        return _Wrong("name", f'{name} has no model_platform that is known; write model_platform: "{PLATFORM}"', name)
    if platform not in ("", PLATFORM):
        problem = f'the model_platform {platform!r} of {name} is not known; write "{PLATFORM}"'
        return _Wrong("model_platform", problem, platform)
    return None


def _wrong_batching(batching: Batching) -> _Wrong | None:
    """What batching_session.cc, bundle_factory_util.cc and shared_batch_scheduler.h refuse."""
    for field in ("max_batch_size", "max_enqueued_batches", "num_batch_threads"):
        if getattr(batching, field) < 1:
            return _Wrong(field, f"{field} is {getattr(batching, field)}; write at least 1")
    if batching.batch_timeout_micros < 0:
        return _Wrong("batch_timeout_micros", f"batch_timeout_micros is {batching.batch_timeout_micros}; write 0 or more")
    most, sizes, part = batching.max_batch_size, batching.allowed_batch_sizes, batching.max_execution_batch_size
    if any(size < 1 for size in sizes) or list(sizes) != sorted(set(sizes)):
        problem = f"the allowed_batch_sizes {list(sizes)} do not rise; sort them, each once, from 1 up"
        return _Wrong("allowed_batch_sizes", problem)
    if not 0 <= part <= most:
        problem = f"max_execution_batch_size is {part}; write 1 to max_batch_size, which is {most}"
        return _Wrong("max_execution_batch_size", problem)
    if sizes and sizes[-1] != batching.rows_of_run:
        field = "max_execution_batch_size" if batching.enable_large_batch_splitting else "max_batch_size"
        problem = f"the last of allowed_batch_sizes is {sizes[-1]}, and {field} is {batching.rows_of_run}; make them equal"
        return _Wrong("allowed_batch_sizes", problem)
    return None
