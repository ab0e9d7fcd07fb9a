"""What operators look at: metrics, health, warm-up."""

import re

import grpc
import pytest
from conformance_models import put, put_warm_up
from conformance_targets import examples, refused, spec, task, until
from grpc_health.v1 import health_pb2
from tensorflow_serving.apis import inference_pb2, predict_pb2, prediction_log_pb2
from tensorflow_serving.config import model_server_config_pb2

import bertline.serving.settings

METRICS = "/monitoring/prometheus/metrics"
SERIES = re.compile(r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(?P<labels>.*)\})? (?P<value>[0-9.e+-]+|\+?Inf|NaN)")
LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')


def metrics(server) -> dict[str, dict[frozenset, float]]:
    """Every series of the page, by name and labels."""
    answer = server.http("GET", METRICS)
    assert answer.status == 200
    assert answer.content_type.startswith("text/plain")
    found: dict[str, dict[frozenset, float]] = {}
    for line in answer.text.splitlines():
        if line and not line.startswith("#"):
            match = SERIES.fullmatch(line)
            assert match, line
            found.setdefault(match["name"], {})[frozenset(LABEL.findall(match["labels"] or ""))] = float(match["value"])
    return found


def count(server, name: str, **labels: str) -> float:
    """The sum of a metric's series that have these labels."""
    series = metrics(server).get(f":tensorflow:serving:{name}", {})
    return sum(value for of_series, value in series.items() if of_series >= set(labels.items()))


def one_model(name: str, base) -> model_server_config_pb2.ModelServerConfig:
    config = model_server_config_pb2.ModelServerConfig()
    config.model_config_list.config.add(name=name, base_path=str(base), model_platform="tensorflow")
    return config


def test_the_page_of_metrics_is_in_the_form_of_prometheus(server):
    server.y("half_plus_two", [1.0])
    page = server.http("GET", METRICS).text
    assert "# TYPE :tensorflow:serving:request_count counter\n" in page
    assert "# TYPE :tensorflow:serving:request_latency histogram\n" in page
    assert page.endswith("\n")


def test_a_request_is_counted_under_its_model_and_its_end(server):
    before = count(server, "request_count", model_name="half_plus_two", status="OK")
    for _ in range(3):
        server.y("half_plus_two", [1.0])
    assert count(server, "request_count", model_name="half_plus_two", status="OK") >= before + 3


@pytest.mark.parametrize(
    "asked, status",
    [
        ({"signature": "nonesuch"}, "FAILED_PRECONDITION"),
        ({"version": 7}, "NOT_FOUND"),
        ({"label": "L"}, "INVALID_ARGUMENT"),
    ],
    ids=["signature", "version", "label"],
)
def test_a_refused_request_is_counted_under_its_code(server, asked, status):
    before = count(server, "request_count", model_name="half_plus_two", status=status)
    refused(lambda: server.y("half_plus_two", [1.0], **asked), status, "…")
    assert count(server, "request_count", model_name="half_plus_two", status=status) >= before + 1


@pytest.mark.parametrize(
    "api, ask",
    [
        ("Predict", lambda server: server.y("half_plus_two", [1.0])),
        ("Classify", lambda server: server.classify("half_plus_two", examples(1.0), signature="classify_x_to_y")),
        ("Regress", lambda server: server.regress("half_plus_two", examples(1.0), signature="regress_x_to_y")),
        ("MultiInference", lambda server: server.infer(examples(1.0), task("half_plus_two", "regress_x_to_y", "regress"))),
    ],
)  # fmt: skip
def test_each_api_is_timed_over_grpc(server, api, ask):
    labels = {"model_name": "half_plus_two", "API": api, "entrypoint": "GRPC"}
    before = count(server, "request_latency_count", **labels)
    ask(server)
    assert count(server, "request_latency_count", **labels) >= before + 1


def test_requests_over_rest_are_timed_apart(server):
    labels = {"model_name": "half_plus_two", "entrypoint": "REST"}
    before = count(server, "request_latency_count", **labels)
    assert server.post("half_plus_two:predict", {"instances": [1.0]}).status == 200
    assert count(server, "request_latency_count", **labels) >= before + 1


def test_buckets_grow_up_to_the_count(server):
    server.y("half_plus_two", [1.0])
    found = metrics(server)
    of_model = {("model_name", "half_plus_two"), ("API", "Predict"), ("entrypoint", "GRPC")}
    buckets = []
    for labels, value in found[":tensorflow:serving:request_latency_bucket"].items():
        if labels >= of_model:
            buckets.append((float(dict(labels)["le"].replace("+Inf", "inf")), value))
    assert buckets[-1][0] == float("inf")
    assert buckets == sorted(buckets) and [value for _, value in buckets] == sorted(value for _, value in buckets)
    assert buckets[-1][1] == count(server, "request_latency_count", **dict(of_model))


def test_examples_are_counted(server):
    before = count(server, "request_example_count_total", model="half_plus_two")
    server.regress("half_plus_two", examples(1.0, 2.0, 3.0), signature="regress_x_to_y")
    assert count(server, "request_example_count_total", model="half_plus_two") >= before + 3


@pytest.mark.usefixtures("embedded_only")
def test_names_that_callers_make_up_make_no_series(server):
    for number in range(5):
        refused(lambda number=number: server.y(f"made-up-{number}", [1.0]), "NOT_FOUND", "…")
    assert "made-up" not in server.http("GET", METRICS).text


def healthy(server, service: str = "") -> str:
    try:
        status = server.health.Check(health_pb2.HealthCheckRequest(service=service)).status
    except grpc.RpcError as error:
        if error.code() == grpc.StatusCode.UNIMPLEMENTED:
            pytest.skip(f"{server.at} runs without --enable_grpc_healthcheck_service")
        raise
    return health_pb2.HealthCheckResponse.ServingStatus.Name(status)


def test_a_server_of_loaded_models_is_healthy(server):
    assert healthy(server) == "SERVING"


def test_the_health_of_an_unknown_service_is_not_found(server):
    healthy(server)
    refused(lambda: healthy(server, "nonesuch"), "NOT_FOUND", "…")


@pytest.mark.usefixtures("embedded_only")
@pytest.mark.parametrize("service", ["PredictionService", "ModelService"])
def test_each_service_has_its_health(server, service):
    assert healthy(server, f"tensorflow.serving.{service}") == "SERVING"


@pytest.mark.usefixtures("embedded_only")
def test_a_server_is_healthy_when_every_model_answers_and_not_before(start, base, root, config):
    server = start(one_model("m", base))
    assert healthy(server) == "NOT_SERVING"
    put(root / "counter" / "1", base, 1)
    until(lambda: healthy(server) == "SERVING")


def predict_log(signature: str = "") -> prediction_log_pb2.PredictionLog:
    log = prediction_log_pb2.PredictionLog()
    log.predict_log.request.CopyFrom(predict_pb2.PredictRequest(model_spec=spec("m", signature)))
    tensor = log.predict_log.request.inputs["x"]
    tensor.dtype, tensor.float_val[:] = 1, [1.0]
    tensor.tensor_shape.dim.add(size=1)
    return log


def times_asked(server) -> int:
    return list(server.predict("m", {"x": [1.0]}).outputs["asked"].int_val)[0]


@pytest.fixture
def counting(root, config):
    """A version that tells how often it was asked."""
    return root / "counter" / "1"


@pytest.mark.parametrize("records", [0, 1, 5])
def test_a_version_is_asked_its_warm_up_requests_before_it_answers(start, base, counting, records):
    put_warm_up(put(counting, base, 1), [predict_log()] * records)
    assert times_asked(start(one_model("m", base))) == records + 1


def test_a_version_without_warm_up_requests_is_asked_nothing(start, base, counting):
    put(counting, base, 1)
    assert times_asked(start(one_model("m", base))) == 1


def test_a_thousand_warm_up_requests_are_asked(start, base, counting):
    put_warm_up(put(counting, base, 1), [predict_log()] * 1000)
    assert times_asked(start(one_model("m", base))) == 1001


def test_warm_up_can_be_turned_off(start, base, counting):
    put_warm_up(put(counting, base, 1), [predict_log()] * 3)
    assert times_asked(start(one_model("m", base), warm_up=False)) == 1


def test_warm_up_asks_every_kind_of_inference(start, base, root, config):
    logs = [prediction_log_pb2.PredictionLog() for _ in range(3)]
    classify, regress, multi = logs
    classify.classify_log.request.model_spec.CopyFrom(spec("m", "classify_x_to_y"))
    classify.classify_log.request.input.CopyFrom(examples(1.0))
    regress.regress_log.request.model_spec.CopyFrom(spec("m", "regress_x_to_y"))
    regress.regress_log.request.input.CopyFrom(examples(1.0))
    both = inference_pb2.MultiInferenceRequest(tasks=[task("m", "regress_x_to_y", "regress")], input=examples(1.0))
    multi.multi_inference_log.request.CopyFrom(both)
    put_warm_up(put(root / "half_plus_two" / "00000123", base, 1), [predict_log(), *logs])
    server = start(one_model("m", base))
    assert server.y("m", [1.0]) == [2.5]


FAILING = {
    "request-that-is-refused": ([predict_log("nonesuch")], "nonesuch"),
    "no-prediction-log": ([b"\xff\xff no message"], "Failed to parse warmup record"),
    "more-than-a-thousand": ([predict_log()] * 1001, "Number of warmup records exceeds the maximum (1000)"),
}


@pytest.mark.parametrize("records, said", FAILING.values(), ids=FAILING)
def test_a_version_whose_warm_up_fails_is_not_served(start, base, counting, records, said):
    put(counting, base, 1)
    server = start(one_model("m", base))
    put_warm_up(put(counting, base.parent / f"{base.name}-new", 2), records)
    put(base.parent / f"{base.name}-new" / "2", base, 2)
    until(lambda: server.states("m").get(2) == "END")
    (failed,) = server.status("m", version=2)
    assert said in failed.status.error_message
    assert server.predict("m", {"x": [1.0]}).model_spec.version.value == 1


def test_a_warm_up_file_that_is_no_tfrecord_fails_the_version(start, base, counting):
    put(counting, base, 1)
    server = start(one_model("m", base))
    new = put(counting, base.parent / f"{base.name}-new", 2)
    put_warm_up(new, [])
    (new / "assets.extra" / "tf_serving_warmup_requests").write_bytes(b"this is no TFRecord at all, but long enough")
    put(new, base, 2)
    until(lambda: server.states("m").get(2) == "END")
    (failed,) = server.status("m", version=2)
    assert "Please verify your warmup data is in TFRecord format." in failed.status.error_message


@pytest.mark.usefixtures("embedded_only")
def test_a_message_beyond_the_limit_is_refused(start, base, counting):
    put(counting, base, 1)
    server = start(one_model("m", base), limits=bertline.serving.settings.Limits(message_bytes=10_000))
    refused(lambda: server.predict("m", {"x": [1.0] * 10_000}), "RESOURCE_EXHAUSTED", "…")
    assert server.post("m:predict", {"instances": [1.0] * 10_000}).status == 413
    assert times_asked(server) == 1
