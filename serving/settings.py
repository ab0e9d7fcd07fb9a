"""What a model server is told: one value for the embedded server and for the real one."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tensorflow_serving.config import model_server_config_pb2

MEGABYTE = 1 << 20
REST_PORT = 8501


@dataclass(frozen=True)
class Batching:
    """TensorFlow Serving's BatchingParameters, with its defaults but for two that suit a CPU.

    A batch that is not full waits for `batch_timeout_micros`, and only where a thread is free for it. The default of 0
    never waits: a batch is what has come while the last one ran.
    """

    max_batch_size: int = 64
    """Rows of a request, and of a batch unless large ones are split."""
    batch_timeout_micros: int = 0
    max_enqueued_batches: int = 100
    num_batch_threads: int = 1
    allowed_batch_sizes: tuple[int, ...] = ()
    """A batch is filled up to the next of these; the last one is `rows_of_run`."""
    pad_variable_length_inputs: bool = False
    """Whether tensors that differ in a later dimension share a batch, filled with zeros or empty strings."""
    by_length: bool = True
    """Whether a batch is made of texts of like length. Not one of TensorFlow Serving's parameters."""
    enable_large_batch_splitting: bool = False
    """Whether a request of more than `max_execution_batch_size` rows runs in parts."""
    max_execution_batch_size: int = 0
    """Rows of a batch where large ones are split; 0: `max_batch_size`."""

    @property
    def rows_of_run(self) -> int:
        """The most that run together."""
        splits = self.enable_large_batch_splitting
        return splits and self.max_execution_batch_size or self.max_batch_size


@dataclass(frozen=True)
class Tls:
    """Keys in PEM: TensorFlow Serving's SSLConfig."""

    server_key: bytes
    server_cert: bytes
    custom_ca: bytes = b""
    client_verify: bool = False


@dataclass(frozen=True)
class Limits:
    """What a caller may ask for. TensorFlow Serving has none of these."""

    message_bytes: int = 32 * MEGABYTE
    """Of a request, over gRPC or REST."""
    tensor_elements: int = 16 * MEGABYTE
    json_depth: int = 64
    json_values: int = MEGABYTE
    """Numbers, texts, keys, lists and objects of a JSON body. Nothing else runs while they are parsed: the millions that
    fit into a message would hold up everybody for seconds. gRPC reads tensors at once, and has no such bound."""
    concurrent_requests: int = 256
    """More are refused as RESOURCE_EXHAUSTED."""
    slow_seconds: float = 20.0
    """A REST request must have come whole by then."""


@dataclass(frozen=True)
class TryPage:
    """A page for a browser, on REST's port, to try the models on. Only the embedded server has it."""

    explainer: tuple[str, ...] = ()
    """The command of a process that explains answers, one for each line of JSON; without it the page explains none."""
    explain_seconds: float = 120.0
    """So long an explanation may take, with the start of its process; then that process is ended."""
    idle_seconds: float = 600.0
    """It holds a model of its own in memory, and is ended when nobody has asked it for so long."""


@dataclass(frozen=True)
class ServerSettings:
    """Everything that the flags of `bertline serve` say."""

    models: model_server_config_pb2.ModelServerConfig
    """With absolute base paths."""
    host: str = "127.0.0.1"
    port: int = 8500
    """Of gRPC; 0 takes any that is free."""
    rest_api_port: int | None = REST_PORT
    """None: there is no REST."""
    rest_timeout_seconds: float = 30.0
    """The deadline of a REST request, which cannot bring one."""
    root: Path | None = None
    """A reload may name models under this folder only. None: it may change policies and labels, and no path."""
    batching: Batching | None = None
    """None: each request runs by itself."""
    page: TryPage | None = None
    """None: what TensorFlow Serving does not know is not found, in a browser too."""
    prometheus_path: str | None = "/monitoring/prometheus/metrics"
    tls: Tls | None = None
    poll_seconds: float = 1.0
    """Between two looks for new versions; 0 looks once."""
    model_config_file: Path | None = None
    """Where `models` came from."""
    config_poll_seconds: float = 0.0
    """Between two readings of that file, which is then applied as a reload is; 0 reads it once."""
    load_retries: int = 5
    load_retry_seconds: float = 60.0
    warm_up: bool = True
    drain_seconds: float = 30.0
    """So long requests under way may take after SIGTERM."""
    request_log: Path | None = None
    """Folder for sampled requests with their answers, TFRecords of PredictionLog."""
    request_log_rate: float = 0.01
    intra_op_threads: int = 0
    inter_op_threads: int = 0
    limits: Limits = field(default_factory=Limits)
