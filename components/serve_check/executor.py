"""What a blessed model must show before it is pushed: that a server loads it and answers as the trained model did.

The Evaluator has judged the model in the process of the pipeline. Here a fresh server process loads the very files, and is
asked over gRPC what the model brings along as samples. `components/serve_check/component.py` is the pipeline's door to
this file.
"""

from __future__ import annotations

import json
import logging
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bertline.pipeline.core.errors import BertlineError
from bertline.serving.client.sync import Client, ServingError
from bertline.serving.embedded import process
from bertline.serving.embedded.errors import RequestError
from bertline.serving.embedded.lifecycle.warm_up import records
from bertline.serving.embedded.tensors import to_array
from bertline.serving.launch import launcher as launch
from bertline.serving.launch.config_files import one_model
from bertline.serving.settings import ServerSettings

TOLERANCE = 1e-5
"""By which a number may differ: absolute up to 1, and above it a share of the number, for a float has so many digits."""
_ROUNDS = 3
_ANSWER_SECONDS = 60.0
_LOAD_SECONDS = 300.0
_ELEMENTS = 1 << 24
_EARLY_BYTES = 64 << 20


@dataclass(kw_only=True)
class Report:
    """Whether a model may be pushed, why not, and what was seen."""

    blessed: bool = False
    reasons: list[str] = field(default_factory=list)
    skipped: bool = False
    """The Evaluator has refused the model: there was nothing to check."""
    server: str = ""
    samples: int = 0
    median_ms: float | None = None
    slowest_ms: float | None = None
    difference: float = 0.0
    """The largest of a number from the one that was expected."""

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1)


class Sample(NamedTuple):
    """A request, and the answer that is expected."""

    signature: str
    inputs: dict[str, np.ndarray]
    outputs: dict[str, np.ndarray]


def serve_check(model: str | Path, *, name: str, max_ms: float) -> Report:
    """Loads a model in a fresh server and asks it its samples.

    Args:
      model: folder of the SavedModel.
      name: what the server calls it.
      max_ms: milliseconds that the median answer may take.
    """
    report = Report()
    try:
        samples = read_samples(model)
        with _fresh_server(model, name) as server:
            report.server = server.title
            server.await_models(logging.info, _LOAD_SECONDS)
            with Client(f"127.0.0.1:{server.port}", name, timeout=_ANSWER_SECONDS, retries=0) as client:
                _ask(client, samples, report)
    except (BertlineError, ServingError, RequestError) as error:
        report.reasons.append(f"the model cannot be served: {' '.join(str(error).split())[:1000]}")
    if report.median_ms is not None and report.median_ms > max_ms:
        report.reasons.append(
            f"the median latency is {report.median_ms:.3g} ms, above serve_check.max_latency_ms {max_ms:g}"
        )
    report.blessed = not report.reasons
    return report


def read_samples(model: str | Path) -> list[Sample]:
    """The requests that a model brings along with an answer.

    Raises:
      RequestError: their file is damaged.
    """

    def arrays(tensors: Mapping[str, Any]) -> dict[str, np.ndarray]:
        return {name: to_array(tensor, _ELEMENTS) for name, tensor in tensors.items()}

    logs = (record.predict_log for record in records(Path(model)) if record.predict_log.response.outputs)
    return [
        Sample(log.request.model_spec.signature_name, arrays(log.request.inputs), arrays(log.response.outputs))
        for log in logs
    ]


def differences(expected: Mapping[str, np.ndarray], given: Mapping[str, np.ndarray]) -> tuple[list[str], float]:
    """Every output that is not as expected, as a sentence; and the largest difference of a number."""
    if expected.keys() != given.keys():
        return [f"the outputs are {', '.join(sorted(given))} instead of {', '.join(sorted(expected))}"], 0.0
    reasons, largest = [], 0.0
    for name, wanted in expected.items():
        found = given[name]
        if wanted.shape != found.shape or (wanted.dtype == object) != (found.dtype == object):
            reasons.append(f"{name} is {found.dtype}{list(found.shape)} instead of {wanted.dtype}{list(wanted.shape)}")
        elif wanted.dtype == object:
            wrong = np.flatnonzero(wanted.ravel() != found.ravel())
            if wrong.size:
                was, now = (array.ravel()[wrong[0]].decode(errors="replace") for array in (wanted, found))
                reasons.append(f"{name} is {now!r:.80} instead of {was!r:.80}")
        else:
            was, now = wanted.astype(np.float64), found.astype(np.float64)
            alike = (was == now) | (np.isnan(was) & np.isnan(now))
            with np.errstate(invalid="ignore"):  # of two that are infinite
                apart = np.where(alike, 0.0, np.abs(was - now))
            largest = max(largest, float(apart[np.isfinite(apart)].max(initial=0.0)))  # as JSON has it
            # What is infinite, as the score of a translation that there is none of, is so or is not.
            allowed = np.where(np.isfinite(was), TOLERANCE * np.maximum(1.0, np.abs(was)), 0.0)
            if not (apart <= allowed).all():
                reasons.append(f"{name} is off by {apart.max():.3g}")
    return reasons, largest


class _Early(NamedTuple):
    """A server that was started before it is asked for."""

    model: str
    name: str
    server: launch.Running
    files: ExitStack


_early: list[_Early] = []
"""One at the most."""


@contextmanager
def started_early(model: str | Path, name: str) -> Iterator[None]:
    """Has the server of a small model load it while the model is still measured: a fresh process takes longer for its
    imports than for everything else. It is there for one check inside; nothing is started where the model is large, as it
    would be in memory twice."""
    folder = Path(model)
    if sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) > _EARLY_BYTES:
        yield
        return
    with ExitStack() as files:
        with suppress(OSError, BertlineError):  # the check itself will say why
            _early[:] = [_Early(str(folder.absolute()), name, files.enter_context(_started(model, name)), files)]
        try:
            yield
        finally:
            _early.clear()


@contextmanager
def _fresh_server(model: str | Path, name: str) -> Iterator[launch.Running]:
    if _early and _early[0][:2] == (str(Path(model).absolute()), name):
        early = _early.pop()
        with early.files.pop_all():
            yield early.server
    else:
        with _started(model, name) as server:
            yield server


@contextmanager
def _started(model: str | Path, name: str) -> Iterator[launch.Running]:
    with tempfile.TemporaryDirectory(prefix="bertline-check-") as base:
        (Path(base) / "1").symlink_to(Path(model).absolute())
        with _start(ServerSettings(models=one_model(name, base), port=0, rest_api_port=None)) as server:
            yield server


def _start(settings: ServerSettings) -> launch.Running:
    """The real server where there is one, and else our own."""
    if launch.find_binary():
        return launch.start(settings, "binary", logging.info, log=logging.info)
    return process.start(settings, logging.info)


def _ask(client: Client, samples: list[Sample], report: Report) -> None:
    times: list[float] = []
    for number, sample in enumerate(samples, 1):
        for asked in range(_ROUNDS + 1):
            began = time.perf_counter()
            given = client.predict(sample.inputs, signature=sample.signature).outputs
            if asked:  # the first one warms up, where the server has not done so itself
                times.append((time.perf_counter() - began) * 1000)
        reasons, largest = differences(sample.outputs, given)
        report.difference = max(report.difference, largest)
        report.reasons += [f"the server does not answer sample {number} as the trained model did: {why}" for why in reasons]
    report.samples = len(samples)
    if times:
        report.median_ms, report.slowest_ms = round(statistics.median(times), 3), round(max(times), 3)
