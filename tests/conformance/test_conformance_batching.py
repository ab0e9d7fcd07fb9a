"""Batching: requests share a run, and get what they would have got by themselves.

`shapes` tells with each answer how many rows were run together. A batch that is not full waits for an hour here where a
case needs it to wait: it is never the clock that ends a case.
"""

from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import pytest
from conformance_targets import assert_said, examples, refused, refused_http, until, values
from tensorflow_serving.config import model_server_config_pb2

from bertline.serving.settings import Batching

AN_HOUR = 3600 * 1_000_000


def asked(server, *x: float, model="shapes", **others):
    """(y, rows that were run together) of each row."""
    outputs = server.predict(model, {"x": np.array(x, np.float32)}, **others).outputs
    return list(zip(values(outputs["y"]), values(outputs["rows"]), strict=True))


def failure_of(ask) -> grpc.RpcError | None:
    try:
        ask()
    except grpc.RpcError as error:
        return error
    return None


def admitted(ask):
    """The answer; None where the queue was full just then."""
    try:
        return ask()
    except grpc.RpcError as error:
        if error.code() != grpc.StatusCode.UNAVAILABLE:
            raise
        return None


@pytest.fixture
def batched(start, root, config):
    """Starts a server of some models with batching."""

    def started(*models: str, **parameters):
        made = model_server_config_pb2.ModelServerConfig()
        for name in models or ("shapes",):
            made.model_config_list.config.add(name=name, base_path=str(root / name), model_platform="tensorflow")
        return start(made, batching=Batching(**parameters))

    return started


@pytest.mark.parametrize("rows", [1, 2, 7, 8])
def test_a_request_alone_is_answered_as_without_batching(batched, rows):
    server = batched(max_batch_size=8, batch_timeout_micros=0)
    assert asked(server, *range(rows)) == [(x / 2 + 2, rows) for x in range(rows)]


def test_requests_that_wait_run_together_and_each_gets_its_own_rows(batched):
    server = batched(max_batch_size=4, batch_timeout_micros=AN_HOUR)
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda x: asked(server, x), [0.0, 10.0, 20.0, 30.0]))
    assert answers == [[(2.0, 4)], [(7.0, 4)], [(12.0, 4)], [(17.0, 4)]]


def test_requests_over_grpc_and_rest_share_a_run(batched):
    server = batched(max_batch_size=2, batch_timeout_micros=AN_HOUR)
    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(asked, server, 0.0)
        other = pool.submit(server.post, "shapes:predict", {"instances": [10.0]})
    assert one.result() == [(2.0, 2)]
    assert other.result().document == {"predictions": [{"y": 7.0, "rows": 2}]}


def test_many_requests_at_once_all_get_their_own_answers(batched):
    server = batched(max_batch_size=8, batch_timeout_micros=1000, num_batch_threads=2, max_enqueued_batches=1000)
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda x: asked(server, x, x + 0.5), range(100)))
    assert [[y for y, _ in answer] for answer in answers] == [[x / 2 + 2, x / 2 + 2.25] for x in range(100)]
    assert all(2 <= rows <= 8 and rows % 2 == 0 for answer in answers for _, rows in answer)


def test_models_do_not_share_a_run(batched):
    server = batched("shapes", "half_plus_three", max_batch_size=2, batch_timeout_micros=AN_HOUR)
    with ThreadPoolExecutor(4) as pool:
        of_shapes = [pool.submit(asked, server, x) for x in (0.0, 2.0)]
        of_three = [pool.submit(server.y, "half_plus_three", [x]) for x in (0.0, 2.0)]
    assert [future.result() for future in of_shapes] == [[(2.0, 2)], [(3.0, 2)]]
    assert [future.result() for future in of_three] == [[3.0], [4.0]]


@pytest.mark.parametrize("rows, run", [(1, 2), (2, 2), (3, 8), (8, 8)])
def test_a_batch_is_filled_up_to_the_next_allowed_size(batched, rows, run):
    server = batched(max_batch_size=8, batch_timeout_micros=0, allowed_batch_sizes=(2, 8))
    assert asked(server, *range(rows)) == [(x / 2 + 2, run) for x in range(rows)]


def test_examples_are_batched_too(batched):
    server = batched("half_plus_two", max_batch_size=4, batch_timeout_micros=AN_HOUR)
    with ThreadPoolExecutor(2) as pool:
        ask = [
            pool.submit(server.regress, "half_plus_two", examples(x, x + 2), signature="regress_x_to_y") for x in (0.0, 4.0)
        ]
    found = [[one.value for one in future.result().result.regressions] for future in ask]
    assert found == [[2.0, 3.0], [4.0, 5.0]]


def test_a_request_larger_than_a_batch_is_refused(batched):
    server = batched(max_batch_size=2, batch_timeout_micros=0)
    message = "Task size 3 is larger than maximum input batch size 2…"
    refused(lambda: asked(server, 1.0, 2.0, 3.0), "INVALID_ARGUMENT", message)
    refused_http(server.post("shapes:predict", {"instances": [1.0, 2.0, 3.0]}), 400, message)
    assert asked(server, 0.0) == [(2.0, 1)]


def test_a_full_queue_refuses_more_until_it_is_run(batched):
    server = batched(max_batch_size=2, batch_timeout_micros=AN_HOUR, max_enqueued_batches=1, num_batch_threads=1)
    message = "The batch scheduling queue to which this task was submitted is full…"
    with ThreadPoolExecutor(1) as pool:
        waits = pool.submit(until, lambda: admitted(lambda: asked(server, 0.0)))
        error = until(lambda: failure_of(lambda: asked(server, 1.0, 2.0)))  # until one row waits, two are a full batch
        assert error.code() == grpc.StatusCode.UNAVAILABLE
        assert_said(error.details(), message)
        refused_http(server.post("shapes:predict", {"instances": [1.0, 2.0]}), 503, message)
        assert asked(server, 10.0) == [(7.0, 2)]
        assert waits.result() == [(2.0, 2)]
    assert asked(server, 1.0, 2.0) == [(2.5, 2), (3.0, 2)]


def test_a_deadline_ends_the_wait_for_a_batch(batched):
    server = batched(max_batch_size=2, batch_timeout_micros=AN_HOUR)
    refused(lambda: asked(server, 0.0, seconds=0.2), "DEADLINE_EXCEEDED", "…")


@pytest.mark.parametrize(
    "signature, inputs, message",
    [
        ("two", {"x": [1.0], "other": [1.0, 2.0]}, "Batching Run() input tensors must have equal 0th-dimension size"),
        ("serving_default", {"x": 1.0}, "Batching Run() input tensors must have at least one dimension"),
    ],
    ids=["uneven-inputs", "scalar-input"],
)
def test_inputs_that_are_no_rows_are_refused(batched, signature, inputs, message):
    server = batched(max_batch_size=4)
    refused(lambda: server.predict("shapes", inputs, signature=signature), "INVALID_ARGUMENT", message)


SPLITTING = {"enable_large_batch_splitting": True, "max_execution_batch_size": 4, "max_batch_size": 10}


@pytest.mark.parametrize("sizes", [[3], [4], [4, 1], [4, 4], [4, 4, 2]])
def test_a_request_larger_than_a_run_is_split_and_joined(batched, sizes):
    server = batched(**SPLITTING)
    runs = [size for size in sizes for _ in range(size)]
    assert asked(server, *range(sum(sizes))) == [(x / 2 + 2, rows) for x, rows in enumerate(runs)]


def test_parts_of_a_request_are_filled_up_to_the_sizes_that_are_allowed(batched):
    server = batched(**SPLITTING, allowed_batch_sizes=(2, 4))
    assert asked(server, *range(7)) == [(x / 2 + 2, 4) for x in range(7)]


def test_large_requests_and_small_ones_get_what_they_get_unsplit(batched):
    server, whole = batched(**SPLITTING), batched(max_batch_size=10)
    sent = [np.arange(rows, dtype=np.float32) for rows in (10, 1, 7, 4, 9, 5)]
    with ThreadPoolExecutor(len(sent)) as pool:
        found = [pool.submit(asked, server, *x) for x in sent]
    assert [[y for y, _ in one.result()] for one in found] == [[y for y, _ in asked(whole, *x)] for x in sent]


def test_a_request_larger_than_the_largest_is_not_split(batched):
    server = batched(**SPLITTING)
    message = "Task size 11 is larger than maximum input batch size 10"
    refused(lambda: asked(server, *range(11)), "INVALID_ARGUMENT", message)


def test_a_request_that_does_not_fit_into_the_queue_is_refused_whole(batched):
    server = batched(**SPLITTING, max_enqueued_batches=1)
    message = "The batch scheduling queue to which this task was submitted is full…"
    refused(lambda: asked(server, *range(5)), "UNAVAILABLE", message)
    assert asked(server, *range(4)) == [(x / 2 + 2, 4) for x in range(4)]


@pytest.mark.parametrize(
    "signature, message",
    [
        ("one_for_all", "Batched output tensor has 0 dimensions"),
        ("longer", "Batched output tensor's 0th dimension does not equal the sum of the 0th dimension sizes of the input"
                   " tensors"),
    ],
)  # fmt: skip
def test_outputs_that_are_no_rows_are_refused(batched, signature, message):
    server = batched(max_batch_size=4)
    refused(lambda: server.predict("shapes", {"x": [1.0]}, signature=signature), "FAILED_PRECONDITION", message)


@pytest.mark.usefixtures("embedded_only")
def test_what_one_request_did_wrong_is_not_its_neighbours_fault(batched):
    server = batched("half_plus_two", max_batch_size=2, batch_timeout_micros=AN_HOUR, by_length=False)
    with ThreadPoolExecutor(2) as pool:
        good, bad = (
            pool.submit(server.regress, "half_plus_two", examples(x), signature="regress_x_to_y") for x in (0.0, None)
        )
    assert [one.value for one in good.result().result.regressions] == [2.0]
    refused(bad.result, "INVALID_ARGUMENT", "…Feature: x…")


@pytest.mark.parametrize("padding", [False, True], ids=["apart", "together"])
def test_rows_of_other_widths_share_a_run_only_where_they_may_be_padded(batched, padding):
    server = batched("types", max_batch_size=2, batch_timeout_micros=AN_HOUR if padding else 0,
                     pad_variable_length_inputs=padding)  # fmt: skip
    with ThreadPoolExecutor(2) as pool:
        wide, narrow = (
            pool.submit(server.predict, "types", {"value": np.int32([row])}, signature="int32") for row in ([1, 2, 3], [4])
        )
    assert values(wide.result().outputs["value"]) == [[1, 2, 3]]
    assert values(narrow.result().outputs["value"]) == ([[4, 0, 0]] if padding else [[4]])
