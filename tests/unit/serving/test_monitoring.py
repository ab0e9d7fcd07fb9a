"""What the monitoring page says, read by Prometheus's own parser."""

import threading

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bertline.serving.embedded import monitoring
from bertline.serving.embedded.monitoring import Monitoring


def samples(page: bytes) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Every sample of the page by its name and labels; the parser gives every counter OpenMetrics's ending."""
    families = text_string_to_metric_families(page.decode())
    return {
        (s.name.removesuffix("_total"), frozenset(s.labels.items())): s.value for family in families for s in family.samples
    }


def value(page: bytes, name: str, **labels: str) -> float:
    return samples(page)[name.removesuffix("_total"), frozenset(labels.items())]


def test_a_page_without_requests_is_empty():
    assert Monitoring().render() == b""


def test_requests_are_counted_by_model_and_status():
    monitored = Monitoring()
    for status in ("OK", "OK", "INVALID_ARGUMENT"):
        monitored.request("m", status, "Predict", "GRPC", 0.001)
    page = monitored.render()
    name = ":tensorflow:serving:request_count"
    assert f"# TYPE {name} counter\n" in page.decode()
    assert value(page, name, model_name="m", status="OK") == 2
    assert value(page, name, model_name="m", status="INVALID_ARGUMENT") == 1


def test_only_answered_requests_are_timed_in_microseconds():
    monitored = Monitoring()
    monitored.request("m", "OK", "Predict", "REST", 0.25)
    monitored.request("m", "INTERNAL", "Predict", "REST", 9.0)
    page, labels = monitored.render(), {"model_name": "m", "API": "Predict", "entrypoint": "REST"}
    name = ":tensorflow:serving:request_latency"
    assert value(page, f"{name}_count", **labels) == 1
    assert value(page, f"{name}_sum", **labels) == 250_000
    assert value(page, f"{name}_bucket", le="+Inf", **labels) == 1


def test_buckets_are_those_of_tensorflow_serving_and_add_up():
    monitored = Monitoring()
    for seconds in (5e-6, 15e-6, 15e-6, 1e6):
        monitored.runtime("m", "Predict", seconds)
    page = monitored.render().decode()
    counts = [line for line in page.splitlines() if "_bucket" in line]
    assert len(counts) == 34
    prefix = ':tensorflow:serving:runtime_latency_bucket{model_name="m",API="Predict",runtime="TF1",le='
    assert counts[:3] == [f'{prefix}"10"}} 1', f'{prefix}"18"}} 3', f'{prefix}"32.4"}} 3']
    assert counts[-2:] == [f'{prefix}"1.47476e+09"}} 3', f'{prefix}"+Inf"}} 4']


def test_the_sum_of_a_busy_server_still_grows():
    monitored = Monitoring()
    monitored.runtime("m", "Predict", 12_345.678901)
    monitored.runtime("m", "Predict", 0.000_001)
    labels = {"model_name": "m", "API": "Predict", "runtime": "TF1"}
    assert value(monitored.render(), ":tensorflow:serving:runtime_latency_sum", **labels) == 12_345_678_902


def test_examples_and_batches_and_loads_have_their_series():
    monitored = Monitoring()
    monitored.examples("m", 3)
    monitored.batch("m", rows=5, padding=3, waited_seconds=[0.0001, 0.0005])
    monitored.loaded("m", 7, 2.0, ok=True)
    monitored.loaded("m", 8, 1.0, ok=False)
    page = monitored.render()
    serving, loading = ":tensorflow:serving", ":tensorflow:cc:saved_model"
    assert value(page, f"{serving}:request_example_count_total", model="m") == 3
    assert value(page, f"{serving}:request_example_counts_bucket", model="m", le="4") == 1
    assert value(page, f"{serving}:batching:batch_size_sum", model_name="m") == 5
    assert value(page, f"{serving}:batching:processed_batch_size_v2", model_name="m", batch_size="8") == 1
    assert value(page, f"{serving}:batching:padding_size_v2_sum", model_name="m") == 3
    assert value(page, f"{serving}:batching_session:queuing_latency_sum", model_name="m") == pytest.approx(600)
    assert value(page, f"{loading}:load_attempt_count", model_path="m/7", status="success") == 1
    assert value(page, f"{loading}:load_attempt_count", model_path="m/8", status="fail") == 1
    assert value(page, f"{loading}:load_latency", model_path="m/7") == 2_000_000


def test_names_that_are_not_served_share_one_series():
    monitored = Monitoring()
    for number in range(50):
        monitored.request(f"guess-{number}", "NOT_FOUND", "Predict", "REST", 0.0)
    assert samples(monitored.render()) == {
        (":tensorflow:serving:request_count", frozenset({("model_name", "other"), ("status", "NOT_FOUND")})): 50
    }


def test_a_loaded_model_has_its_failures_under_its_own_name():
    monitored = Monitoring()
    monitored.loaded("m", 1, 0.1, ok=True)
    monitored.request("m", "INVALID_ARGUMENT", "Predict", "REST", 0.0)
    name = ":tensorflow:serving:request_count"
    assert value(monitored.render(), name, model_name="m", status="INVALID_ARGUMENT") == 1


def test_series_after_the_limit_are_folded(monkeypatch):
    monkeypatch.setattr(monitoring, "MAX_SERIES", 3)
    monitored = Monitoring()
    for number in range(10):
        monitored.request(f"m{number}", "OK", "Predict", "GRPC", 0.0)
    counts = {
        dict(labels)["model_name"]: count
        for (name, labels), count in samples(monitored.render()).items()
        if name == ":tensorflow:serving:request_count"
    }
    assert counts == {"m0": 1, "m1": 1, "m2": 1, "other": 7}


def test_label_values_are_escaped():
    monitored, name = Monitoring(), 'a"b\\c\nd'
    monitored.examples(name, 1)
    assert value(monitored.render(), ":tensorflow:serving:request_example_count_total", model=name) == 1


def test_no_count_is_lost_between_threads():
    monitored = Monitoring()

    def work() -> None:
        for _ in range(2000):
            monitored.request("m", "OK", "Predict", "GRPC", 0.001)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert value(monitored.render(), ":tensorflow:serving:request_count", model_name="m", status="OK") == 16_000
