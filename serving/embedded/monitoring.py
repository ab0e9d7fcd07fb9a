"""What the server counts and times, under TensorFlow Serving's names and in its exporter's form."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterator, Sequence

OTHER = "other"
"""Stands for every model that is not served, and for what comes after the limit."""
MAX_SERIES = 1000
"""Of one metric. A caller chooses the name in a request, and each new one would stay in memory and on the page."""

Labels = tuple[str, ...]


def exponential(scale: float, growth: float, count: int) -> tuple[float, ...]:
    """Upper bounds of buckets, as TensorFlow's `Buckets::Exponential` has them, without the last, which has none."""
    bounds = [scale]
    while len(bounds) < count:
        bounds.append(bounds[-1] * growth)
    return tuple(bounds)


class Metric:
    """Series of one name, by the values of its labels; the first label is the model's. The caller holds the lock."""

    def __init__(self, name: str, labels: Labels, bounds: tuple[float, ...] | None = None) -> None:
        self.name, self._labels, self._bounds = name, labels, bounds
        self._series: dict[Labels, list[float]] = {}  # a count; or a histogram: its buckets, then the sum

    def add(self, values: Labels, amount: float) -> None:
        """Counts `amount`, or files it into its bucket."""
        cells = self._cells(values)
        if self._bounds is None:
            cells[0] += amount
        else:
            cells[bisect_left(self._bounds, amount)] += 1
            cells[-1] += amount

    def lines(self) -> Iterator[str]:
        if not self._series:
            return
        yield f"# TYPE {self.name} {'counter' if self._bounds is None else 'histogram'}"
        for values, cells in self._series.items():
            labels = ",".join(f'{name}="{_escaped(value)}"' for name, value in zip(self._labels, values, strict=True))
            if self._bounds is None:
                yield f"{self.name}{{{labels}}} {_number(cells[0])}"
                continue
            below = 0.0
            for bound, count in zip([*(f"{bound:g}" for bound in self._bounds), "+Inf"], cells[:-1], strict=True):
                below += count
                yield f'{self.name}_bucket{{{labels},le="{bound}"}} {_number(below)}'
            yield f"{self.name}_sum{{{labels}}} {_number(cells[-1])}"
            yield f"{self.name}_count{{{labels}}} {_number(below)}"

    def _cells(self, values: Labels) -> list[float]:
        if values not in self._series and len(self._series) >= MAX_SERIES:
            values = (OTHER, *values[1:])  # the other labels have few values, so this ends
        size = 1 if self._bounds is None else len(self._bounds) + 2
        return self._series.setdefault(values, [0.0] * size)


class Monitoring:
    """Thread-safe."""

    def __init__(self) -> None:
        times = exponential(10, 1.8, 33)  # microseconds, up to half an hour
        serving, loading = ":tensorflow:serving", ":tensorflow:cc:saved_model"
        self._requests = Metric(f"{serving}:request_count", ("model_name", "status"))
        self._latency = Metric(f"{serving}:request_latency", ("model_name", "API", "entrypoint"), times)
        self._runtime = Metric(f"{serving}:runtime_latency", ("model_name", "API", "runtime"), times)
        self._examples = Metric(f"{serving}:request_example_counts", ("model",), exponential(1, 2, 15))
        self._examples_total = Metric(f"{serving}:request_example_count_total", ("model",))
        self._batch_size = Metric(f"{serving}:batching:batch_size", ("model_name",), exponential(1, 1.5, 20))
        self._processed = Metric(f"{serving}:batching:processed_batch_size_v2", ("model_name", "batch_size"))
        self._padding = Metric(f"{serving}:batching:padding_size_v2", ("model_name",), (0.0, *exponential(1, 2, 15)))
        waits = exponential(100, 1.2, 52)  # microseconds, about a second
        self._queuing = Metric(f"{serving}:batching_session:queuing_latency", ("model_name",), waits)
        self._attempts = Metric(f"{loading}:load_attempt_count", ("model_path", "status"))
        self._loading = Metric(f"{loading}:load_latency", ("model_path",))
        self._served: set[str] = set()
        self._lock = threading.Lock()

    def request(self, model: str, status: str, api: str, entrypoint: str, seconds: float) -> None:
        """A request was answered. As in TensorFlow Serving, what failed is counted and not timed."""
        with self._lock:
            if status == "OK":
                self._served.add(model)
                self._latency.add((model, api, entrypoint), seconds * 1e6)
            self._requests.add((model if model in self._served else OTHER, status), 1)

    def runtime(self, model: str, api: str, seconds: float) -> None:
        """TensorFlow has run for a request."""
        with self._lock:
            self._runtime.add((model, api, "TF1"), seconds * 1e6)

    def examples(self, model: str, count: int) -> None:
        """A request had so many Examples."""
        with self._lock:
            self._examples.add((model,), count)
            self._examples_total.add((model,), count)

    def batch(self, model: str, rows: int, padding: int, waited_seconds: Sequence[float]) -> None:
        """A batch of `rows` was filled up by `padding` and run; each of its requests had waited."""
        with self._lock:
            self._batch_size.add((model,), rows)
            self._processed.add((model, str(rows + padding)), 1)
            self._padding.add((model,), padding)
            for seconds in waited_seconds:
                self._queuing.add((model,), seconds * 1e6)

    def loaded(self, model: str, version: int, seconds: float, ok: bool) -> None:
        """A version was loaded, or could not be. Its path is told by names: the page shows no path of the machine."""
        with self._lock:
            self._served.add(model)
            self._attempts.add((f"{model}/{version}", "success" if ok else "fail"), 1)
            if ok:
                self._loading.add((f"{model}/{version}",), round(seconds * 1e6))

    def render(self) -> bytes:
        """Prometheus's text format 0.0.4."""
        with self._lock:
            metrics = [metric for metric in vars(self).values() if isinstance(metric, Metric)]
            lines = [line for metric in sorted(metrics, key=lambda metric: metric.name) for line in metric.lines()]
        return "".join(f"{line}\n" for line in lines).encode()


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    """In full: the real exporter's six digits make the sum of a busy server stand still."""
    return str(int(value)) if value.is_integer() else repr(value)
